"""Capturing runs the model. This keeps the run from reaching anything of the caller's."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map_only

Model = Callable[..., Any]
"""An `nn.Module`, or a function of tensors."""

ExampleInputs = Sequence[Any] | Mapping[str, Any]
"""Positional arguments as a tuple or list, or keyword arguments as a dictionary."""


def split_example_inputs(example_inputs: ExampleInputs) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments.

    Raises:
        TypeError: `example_inputs` is neither a tuple or list nor a dictionary with names as keys.
    """
    if isinstance(example_inputs, torch.Tensor):
        raise TypeError("example_inputs is a tensor; expected a tuple, list or dictionary. Write (tensor,) instead.")
    if isinstance(example_inputs, Mapping):
        unusable = [key for key in example_inputs if not isinstance(key, str)]
        if unusable:
            raise TypeError(f"example_inputs has the keys {unusable}; expected the names of the model's arguments.")
        return (), dict(example_inputs)
    if isinstance(example_inputs, (tuple, list)):
        return tuple(example_inputs), {}
    raise TypeError(
        f"example_inputs is of type {type(example_inputs).__name__}; expected a tuple or list of positional "
        "arguments, or a dictionary of keyword arguments."
    )


def as_module(model: Model) -> torch.nn.Module:
    """The model; a function in the form that `torch.export` takes, with its own signature."""
    if isinstance(model, torch.nn.Module):
        return model
    return type("Function", (torch.nn.Module,), {"forward": staticmethod(model)})()


def private_copy(
    model: Model, args: tuple[Any, ...], kwargs: dict[str, Any], method: str
) -> tuple[Model, tuple[Any, ...], dict[str, Any]]:
    """Model and inputs to run in place of the caller's, aliasing among each other like the originals.

    A model is copied with its parameters, so it is in memory twice. A function is not copied (it cannot be).

    Raises:
        CaptureError: something in the model or its inputs cannot be copied.
    """
    # Only leaves of autograd can be deep-copied.
    args, kwargs = tree_map_only(
        torch.Tensor,
        lambda tensor: tensor if tensor.is_leaf else tensor.detach().requires_grad_(tensor.requires_grad),
        (args, kwargs),
    )
    originals = (model if isinstance(model, torch.nn.Module) else None, args, kwargs)
    try:
        copied, args, kwargs = copy.deepcopy(originals)
    except Exception as error:
        # Capture imports this module.
        from fxopt_core.capture.errors import CaptureError

        raise CaptureError(
            method,
            f"the model or its inputs cannot be copied ({type(error).__name__}: {error}), and a capture runs a copy.",
            "make everything that the model holds copyable by copy.deepcopy: detach stored tensors, and keep open "
            "files, locks and generators outside the model.",
        ) from error
    return (model if copied is None else copied), args, kwargs


@contextmanager
def same_random_state(*values: Any) -> Iterator[None]:
    """Put Python's and torch's random generators back at the end, also those of the devices that `values` live on."""
    tensors = [
        tensor
        for value in values
        for tensor in (
            [*value.parameters(), *value.buffers()] if isinstance(value, torch.nn.Module) else tree_leaves(value)
        )
        if isinstance(tensor, torch.Tensor)
    ]
    accelerators = {tensor.device for tensor in tensors} - {torch.device("cpu")}
    python_state = random.getstate()
    try:
        if not accelerators:
            with torch.random.fork_rng(devices=[]):
                yield
            return
        kind = next(iter(accelerators)).type
        indices = [device.index or 0 for device in accelerators if device.type == kind]
        with torch.random.fork_rng(devices=sorted(set(indices)), device_type=kind):
            yield
    finally:
        random.setstate(python_state)
