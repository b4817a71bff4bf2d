"""What the probes of unit 5 share: inputs with every kind of stride, a library loaded where it does no harm, calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from autograder.exchange.evidence import Case
from autograder.learner_side.libraries import load_library

NAMESPACE = "u5"

Given = dict[str, Any]
"""A tensor in words: `shape`, `dtype`, `seed`, `low` and `high`, `how` it lies in memory (a name of `LAYOUTS`), and
where they matter its `device` and its `values`, one by one or (`fill`) one for all."""

Call = dict[str, Any]
"""A call in words: `tensors` (each a `Given`), and what else the task needs."""


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
    elif "fill" in given:
        base = torch.full(given["shape"], given["fill"], dtype=dtype)
    else:
        generator = torch.Generator().manual_seed(given["seed"])
        drawn = torch.rand(given["shape"], generator=generator, dtype=torch.float64)
        base = (drawn * (given["high"] - given["low"]) + given["low"]).to(dtype)
    found = LAYOUTS[given["how"]](base) if base.dim() else base
    return found.to(given["device"]) if "device" in given else found


def load(case: Case) -> Any:
    """Load the library that came with a case; the namespace of this unit's operators.

    Raises:
        RuntimeError: it cannot be loaded; the message says why.
    """
    return load_library(case, NAMESPACE)


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


FLOATS = (torch.float32, torch.float64)
"""The dtypes that the operators of this unit compute in."""

FIGURES = {torch.float32: 6, torch.float64: 12}
"""Digits of a number that are told, by its dtype: as many as may be right."""


def in_figures(found: torch.Tensor, most: int | None = None, figures: int | None = None) -> str:
    """A tensor's numbers, as many as may be told, with no more digits than count."""
    digits = figures or FIGURES.get(found.dtype, 6)

    def told(part: Any) -> str:
        return f"[{', '.join(map(told, part))}]" if isinstance(part, list) else f"{part:.{digits}g}"

    return told((found if most is None else found.flatten()[:most]).tolist())


def in_words(given: Given) -> str:
    """A tensor's shape, dtype, layout and device, for what the check shows."""
    shape = " × ".join(map(str, given["shape"])) or "a number"
    how = "" if given["how"] == "plain" else f", {given['how']}"
    device = f", on {given['device']}" if "device" in given else ""
    return f"{shape} {given['dtype']}{how}{device}"
