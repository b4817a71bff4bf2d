"""The learner's side: models with and without branches on data, the visible cases and the probe."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from autograder.exchange.evidence import Case, Evidence


class OneBranch(nn.Module):
    """A branch on the sign of the sum."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, width) to (batch,)."""
        if x.sum() > 0:
            return x.sum(dim=1)
        return x.sum(dim=1) - 1


class Gate(nn.Module):
    """A branch within a branch."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, width) to the same."""
        if x.sum() > 0:
            if x.max() > 5:
                return x / 2
            return x + 1
        return x * 3


class Nested(nn.Module):
    """A module that holds another one, each with a branch of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = Gate()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, width) to (batch,)."""
        y = self.gate(x)
        if y.min() < -20:
            y = y.clamp(min=-20.0)
        return y.sum(dim=1)


class Plain(nn.Module):
    """No branch at all."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, width) to (batch,)."""
        return torch.relu(x).sum(dim=1)


class Slight(nn.Module):
    """A branch that changes a little, and one that changes next to nothing."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, width) to (batch, 2 * width)."""
        small = x / x.abs().max()
        first = small + 0.002 if x.sum() > 0 else small
        return torch.cat([first, small + 0.000001 if x.max() > 5 else small], 1)


class Undefined(nn.Module):
    """The logarithm of what is negative is not a number; a branch decides what becomes of the others."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, width) to the same."""
        y = torch.log(x)
        if x.max() > 5:
            return y - 1
        return y


@torch.jit.script
def halved(x: torch.Tensor) -> torch.Tensor:
    """Half of what is large. A script: its branch stays one when it is traced."""
    if x.max() > 5:
        return x / 2
    return x


class Scripted(nn.Module):
    """It calls a function that is a script already."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, width) to the same."""
        y = halved(x)
        if x.sum() > 0:
            return y + 1
        return y


class Knows(nn.Module):
    """It asks whether it is scripted, as some layers of torchvision do, and answers otherwise then."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, width) to the same."""
        if torch.jit.is_scripting():
            return x.clamp(min=-10.0)
        return x


class Nearly(nn.Module):
    """Numbers near 0 and near 1000, and branches that change the ones or the others by about a ten-thousandth."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, width) to (batch, 2 * width)."""
        small, large = x * 0, x * 0 + 1000
        if x.max() > 50:
            small = small + 0.00007
        elif x.max() > 20:
            small = small + 0.00015
        elif x.max() > 10:
            large = large + 0.07
        elif x.max() > 5:
            large = large + 0.15
        return torch.cat([small, large], 1)


class Looped(nn.Module):
    """A loop, which is no branch, with a branch in it and one behind it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, width) to the same."""
        y = x
        for _ in range(3):
            if y.max() > 5:
                y = y / 2
        if x.sum() > 0:
            y = y + 1
        return y


class Vanishing(nn.Module):
    """The logarithm on one side of the branch only: where the trace gives NaN, the model gives a number."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, width) to the same."""
        if x.sum() > 0:
            return torch.log(x)
        return x


class Zeroed(nn.Module):
    """Zeros on one side of the branch, the logarithm on the other: where the trace gives NaN, the model gives 0."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, width) to the same."""
        if x.sum() > 0:
            return torch.log(x)
        return torch.zeros_like(x)


class Partly(nn.Module):
    """Half of its answer never is a number; a branch decides what becomes of the other half."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, width) to (batch, 2 * width)."""
        y = torch.cat([torch.log(-1 - x.abs()), x], 1)
        if x.max() > 5:
            return y - 1
        return y


class Endless(nn.Module):
    """Endlessly large on both sides of the branch: where the trace gives minus infinity, the model gives infinity."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, width) to the same."""
        if x.sum() > 0:
            return x / 0.0
        return -x / 0.0


class Chosen(nn.Module):
    """As many values as are positive, perhaps none; a branch decides in which order."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, width) to (number,)."""
        y = x[x > 0]
        if x.sum() > 0 and x.max() < 5:
            return y.flip(0)
        return y


class Moved(nn.Module):
    """Zeros and what is not a number: branches decide which half is which."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, width) to (batch, 2 * width)."""
        zeros, undefined = x * 0, torch.log(-1 - x.abs())
        if x.max() > 5:
            zeros = undefined
        if x.sum() > 0:
            return torch.cat([zeros, undefined], 1)
        return torch.cat([undefined, zeros], 1)


class Folded(nn.Module):
    """Zeros on every side of its branches, in three shapes."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, width) to (batch, 1), (batch, 1, width) or the same."""
        if x.sum() > 0:
            if x.max() > 5:
                return (x * 0).unsqueeze(1)
            return (x * 0).sum(dim=1, keepdim=True)
        return x * 0


MODELS: dict[str, type[nn.Module]] = {"one branch": OneBranch, "nested": Nested, "plain": Plain}
MODELS |= {"slight": Slight, "undefined": Undefined, "scripted": Scripted, "knows": Knows}
MODELS |= {"nearly": Nearly, "looped": Looped, "vanishing": Vanishing, "zeroed": Zeroed, "partly": Partly}
MODELS |= {"endless": Endless, "chosen": Chosen, "folded": Folded, "moved": Moved}
"""By name. The first three are shown in the task."""

SHOWN = ("one branch", "nested", "plain")


def visible_cases() -> list[Case]:
    """Each model on inputs of both signs and several magnitudes."""
    levels = [1.0, -1.0, 0.5, -30.0, 8.0]
    return [Case(name, {"model": name, "levels": levels, "batch": 3}) for name in SHOWN]


def make_inputs(case: Case) -> list[torch.Tensor]:
    """One tensor (batch, 4) for each level."""
    given = case.parameters
    ramp = torch.linspace(0.9, 1.1, 4 * given["batch"]).reshape(given["batch"], 4)
    return [level * ramp for level in given["levels"]]


def probe(case: Case, branch_evidence: Any) -> Evidence:
    """Let the learner trace and script; numbers come back."""
    found = branch_evidence(MODELS[case.parameters["model"]]().eval(), make_inputs(case))
    values: dict[str, Any] = {}
    for method in ("trace", "script"):
        entry = found.get(method) if isinstance(found, dict) else None
        try:
            values[method] = [int(entry["branches"]), sorted(map(int, entry["wrong"]))]  # type: ignore[index]
        except (KeyError, TypeError, ValueError):
            values[method] = None
    return Evidence(values)


def show(case: Case, evidence: Evidence) -> list[Any]:
    """A small table."""
    lines = [f"{case.name}: levels of the inputs {case.parameters['levels']}, traced on the first"]
    for method in ("trace", "script"):
        entry = evidence.values[method]
        text = f"{entry[0]} branches in the graph, wrong on inputs {entry[1]}" if entry else "nothing"
        lines.append(f"  {method:7} {text}")
    return ["\n".join(lines)]
