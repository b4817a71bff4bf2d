"""The learner's side: functions with guarded and unguarded arguments, the calls of a case and the probe."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from autograder.exchange.evidence import Case, Evidence


def shade(image: torch.Tensor, gain: torch.Tensor, bright: bool, note: str) -> torch.Tensor:
    """An image (height, width) scaled by a tensor (); on one of two sides of a branch. `note` is not looked at."""
    return image * gain + 1 if bright else image * gain - 1


def settle(state: torch.Tensor, pull: torch.Tensor, steps: int, label: str) -> torch.Tensor:
    """A state (width,) that is pulled at `steps` times. `label` is not looked at."""
    for _ in range(steps):
        state = state - (state - pull) / 2
    return state


def blend(label: str, left: torch.Tensor, note: int, right: torch.Tensor, sharp: bool, hint: float) -> torch.Tensor:
    """Two tensors (width,) added, or multiplied. `label`, `note` and `hint` are not looked at."""
    return left * right if sharp else left + right


def shift(values: torch.Tensor, amount: int, on: bool) -> torch.Tensor:
    """Values (width,), moved by an amount, or not. Where they are not, `amount` is not looked at."""
    return values + amount if on else values * 2


def crop(a: str, size: int, at: str, size_at: torch.Tensor, by: int) -> torch.Tensor:
    """The first values of some (width,). Names of what is not looked at (`a`, `size`, `at`) are part of other words."""
    return size_at[:-by]


FUNCTIONS: dict[str, Callable[..., torch.Tensor]] = {"shade": shade, "settle": settle, "blend": blend, "shift": shift}
FUNCTIONS |= {"crop": crop}


def tensor(shape: list[int], dtype: str = "float32", seed: int = 0, kind: str = "") -> list[Any]:
    """How a case holds a tensor argument.

    Args:
        shape, dtype: of the tensor.
        seed: of its values.
        kind: `turned`, if it is a view of a tensor of the reversed shape; `leaf`, if it requires a gradient.
    """
    return ["tensor", shape, dtype, seed, kind]


def visible_cases() -> list[Case]:
    """Every kind of change once, and returns to versions that are there already."""
    first = {"image": tensor([4, 6]), "gain": tensor([]), "bright": True, "note": "first"}
    changes: list[dict[str, Any]] = [
        {},
        {"image": tensor([4, 6], seed=1)},
        {"note": "another"},
        {"image": tensor([5, 6]), "note": "taller"},
        {},
        {"bright": False},
        {"bright": False},
        {"image": tensor([7, 6])},
        {"bright": False, "note": "again"},
        {"gain": tensor([], "float64")},
    ]
    steps = {"state": tensor([3]), "pull": tensor([3], seed=1), "steps": 2, "label": "two"}
    return [
        Case("shade", {"function": "shade", "calls": [first | change for change in changes]}),
        Case("settle", {"function": "settle", "calls": [steps, steps | {"steps": 3, "label": "three"}, steps]}),
    ]


def make_calls(case: Case) -> list[dict[str, Any]]:
    """The calls of a case, each a dictionary of keyword arguments. Tensors are new ones each time."""
    return [{name: _make(value) for name, value in call.items()} for call in case.parameters["calls"]]


def _make(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    _, shape, dtype, seed, kind = value
    drawn = shape[::-1] if kind == "turned" else shape
    made = torch.rand(drawn, generator=torch.Generator().manual_seed(seed)).to(getattr(torch, dtype))
    return made.mT if kind == "turned" else made.requires_grad_(kind == "leaf")


def probe(case: Case, recompile_log: Any) -> Evidence:
    """Ask the learner twice: what Dynamo remembers of the first time must not show in the second."""
    function = FUNCTIONS[case.parameters["function"]]
    logs = [_plain(recompile_log(function, make_calls(case))) for _ in range(2)]
    return Evidence({"logs": logs})


def _plain(log: Any) -> list[list[str]] | None:
    """The learner's list of pairs as JSON has it; `None` for anything else."""
    if not isinstance(log, (list, tuple)):
        return None
    pairs = [list(entry) if isinstance(entry, (list, tuple)) else [] for entry in log]
    return pairs if all(len(pair) == 2 and all(isinstance(word, str) for word in pair) for pair in pairs) else None


def show(case: Case, evidence: Evidence) -> list[Any]:
    """Each call, what is different from the first one, and what the learner's log says."""
    first = case.parameters["calls"][0]
    lines = [f"{case.name}: what differs from the first call, and what you say"]
    for call, pair in zip(case.parameters["calls"], evidence.values["logs"][0] or [], strict=False):
        changed = ", ".join(name for name in call if call[name] != first[name]) or "nothing"
        lines.append(f"  {changed:14} {pair[0]:10} {pair[1][:60]}")
    return ["\n".join(lines)]
