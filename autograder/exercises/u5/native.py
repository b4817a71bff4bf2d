"""What the probes of unit 5 share: inputs with every kind of stride, a library loaded where it does no harm, calls."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from autograder.exchange.evidence import Case, Evidence

MOST_TEXT = 300
"""Characters of an error's message that become evidence."""

NAMESPACE = "u5"

Given = dict[str, Any]
"""A tensor in words: `shape`, `dtype`, `seed`, `low` and `high`, `how` it lies in memory (a name of `LAYOUTS`), and
where they matter its `device` and its `values` one by one."""

Call = dict[str, Any]
"""A call in words: `tensors` (each a `Given`), and what else the task needs."""


def source_of(function: Callable[[], str]) -> Evidence:
    """The learner's source, as an artefact that travels to the judge.

    Raises:
        TypeError: it is no string.
    """
    source = function()
    if not isinstance(source, str):
        raise TypeError(f"your function must return the C++ source as a string, not {type(source).__name__}")
    return Evidence({"source": source})


def tensor(*shape: int, seed: int, dtype: str = "float32", how: str = "plain", **more: Any) -> Given:
    """A tensor in words; without `low` and `high` its numbers lie between -2 and 2."""
    return {"shape": list(shape), "seed": seed, "dtype": dtype, "how": how, "low": -2.0, "high": 2.0, **more}


def _reversed(base: torch.Tensor) -> torch.Tensor:
    return base.permute(*range(base.dim())[::-1]).contiguous().permute(*range(base.dim())[::-1])


def _every_other(base: torch.Tensor) -> torch.Tensor:
    wide = base.new_full([*base.shape[:-1], 2 * base.shape[-1]], 77)
    wide[..., ::2] = base
    return wide[..., ::2]


def _inside(base: torch.Tensor) -> torch.Tensor:
    around = base.new_full([size + 2 for size in base.shape], 77)
    within = around[tuple(slice(1, size + 1) for size in base.shape)]
    within.copy_(base)
    return within


def _repeated(base: torch.Tensor) -> torch.Tensor:
    return base[:1].expand(base.shape)


LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "plain": lambda base: base,
    "transposed": _reversed,
    "every other": _every_other,
    "inside": _inside,
    "repeated": _repeated,
    "channels last": lambda base: base.contiguous(memory_format=torch.channels_last),
}
"""How a tensor may lie in memory. All but `repeated` (rows that are all the first one) leave its values as they are."""


def make(given: Given) -> torch.Tensor:
    """The tensor that `given` describes."""
    dtype = getattr(torch, given["dtype"])
    if "values" in given:
        base = torch.tensor(given["values"], dtype=dtype).reshape(given["shape"])
    else:
        generator = torch.Generator().manual_seed(given["seed"])
        drawn = torch.rand(given["shape"], generator=generator, dtype=torch.float64)
        base = (drawn * (given["high"] - given["low"]) + given["low"]).to(dtype)
    found = LAYOUTS[given["how"]](base) if base.dim() else base
    return found.to(given["device"]) if "device" in given else found


def load(case: Case) -> Any:
    """Load the library that came with a case; the namespace of its operators."""
    with tempfile.NamedTemporaryFile(suffix=".so") as file:
        Path(file.name).write_bytes(case.tensors["library"].numpy().tobytes())
        try:
            torch.ops.load_library(file.name)
        except OSError as error:
            raise RuntimeError(str(error).replace(file.name, "your library")) from error
    return getattr(torch.ops, NAMESPACE)


def attempt(function: Callable[..., Any], *arguments: Any, **options: Any) -> tuple[Any, str]:
    """What a call gives, and `""`; or `None` and what it raised, in words."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(*arguments, **options), ""
    except Exception as error:  # an operator may refuse in whatever way
        return None, f"{type(error).__name__}: {error}"[:MOST_TEXT]


def same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether all numbers are the same, NaN like NaN."""
    return one.shape == other.shape and bool(((one == other) | (one.isnan() & other.isnan())).all())


def described(found: Any) -> dict[str, Any]:
    """What a result is besides its values."""
    if not isinstance(found, torch.Tensor):
        return {"kind": type(found).__name__}
    return {
        "kind": "Tensor",
        "shape": list(found.shape),
        "strides": list(found.stride()),
        "dtype": str(found.dtype)[6:],
    }


def first_line(text: str) -> str:
    """The first line of a message."""
    return text.split("\n", 1)[0]


def in_words(given: Given) -> str:
    """A tensor's shape, dtype and layout, for what the check shows."""
    shape = " × ".join(map(str, given["shape"])) or "a number"
    return f"{shape} {given['dtype']}{'' if given['how'] == 'plain' else ', ' + given['how']}"
