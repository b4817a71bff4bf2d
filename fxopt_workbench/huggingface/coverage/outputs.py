"""The tensors in an output of transformers, whatever it is made of, and how far two of them are apart."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import torch

from fxopt_core.verification import rounding
from fxopt_core.verification.comparison import tensor_error

CACHES = (
    "past_key_values",
    "encoder_past_key_values",
    "padding_cache",
    "cache_params",
    "mems",
    "states",
    "state",
    "past_buckets_states",
    "encoder_past",
)
"""Fields that hold what a model keeps for the next token."""


def named_tensors(output: Any, name: str = "") -> dict[str, torch.Tensor]:
    """Every tensor of an output, by the path to it, such as `hidden_states.0` or `past_key_values.layers.0.keys`."""
    if isinstance(output, torch.Tensor):
        return {name: output}
    if isinstance(output, Mapping):
        items = [(str(key), value) for key, value in output.items()]
    elif isinstance(output, (list, tuple)):
        items = [(str(index), value) for index, value in enumerate(output)]
    elif is_dataclass(output) and not isinstance(output, type):
        items = [(one.name, getattr(output, one.name)) for one in fields(output)]
    elif type(output).__name__.endswith(("Cache", "Layer")):
        items = list(vars(output).items())
    else:
        items = []
    found: dict[str, torch.Tensor] = {}
    for key, value in items:
        found |= named_tensors(value, f"{name}.{key}" if name else key)
    return found


def without_caches(output: Any) -> dict[str, torch.Tensor]:
    """The same without the fields that hold a cache."""
    return {name: value for name, value in named_tensors(output).items() if name.split(".")[0] not in CACHES}


def compare(found: list[torch.Tensor], expected: dict[str, torch.Tensor]) -> tuple[float, bool, str]:
    """Largest error in units of the values, whether all is within `rounding`, and what is not.

    Args:
        found: the tensors of a captured model.
        expected: those of the model, in the same order. Another number of tensors or another shape or dtype is an
            infinite error.
    """
    if not expected:
        return math.inf, False, "no tensors to compare"
    if len(found) != len(expected):
        return math.inf, False, f"{len(found)} tensors instead of {len(expected)}"
    largest = 0.0
    for one, (name, value) in zip(found, expected.items(), strict=True):
        if one.shape != value.shape or one.dtype != value.dtype:
            return (
                math.inf,
                False,
                f"{name}: {one.dtype} {tuple(one.shape)} instead of {value.dtype} {tuple(value.shape)}",
            )
        error, problem = tensor_error(one, value, rounding(value.dtype))
        largest = max(largest, error)
        if problem is not None:
            return largest, False, f"{name}: {problem}"
    return largest, True, ""
