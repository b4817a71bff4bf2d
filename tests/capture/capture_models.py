"""Models of which the graphs and breaks are known by reading them. A comment in capitals marks a line."""

import random
from pathlib import Path
from typing import Any

import torch
from torch import nn

METHODS = ["export", "symbolic_trace", "auto"]
TRACED = ["export", "auto"]
"""Methods that follow Python's questions about the example; symbolic_trace fails at them."""


def ones(*shape: int, **options: Any) -> torch.Tensor:
    return torch.ones(*shape, **options)


def line_of(marker: str) -> int:
    """Number of the line of this file that ends with the comment `marker`."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    (number,) = [index for index, line in enumerate(lines, start=1) if line.endswith(f"# {marker}")]
    return number


class ThreeBreaks(nn.Module):
    """A print, an `.item()` and a branch on data: three graph breaks, four graphs."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        x = self.layer(x) + 1
        print("halfway")  # PRINT
        total = x.sum().item()  # ITEM
        x = x * total
        if x.mean() > 0:  # BRANCH
            x = torch.relu(x)
        return x - 1


class PrintsInALoop(nn.Module):
    """Dynamo gives the whole function up, and its own list of reasons stays empty."""

    def forward(self, x):
        for _ in range(2):
            x = x + 1
            print("step")  # LOOP
        return x * 2


class BreaksInAHelper(nn.Module):
    """The caller and the helper both stop at the helper's line."""

    def helper(self, x):
        x = x * 2
        print("in the helper")  # HELPER
        return x + 1

    def forward(self, x):
        return self.helper(x + 1) * 3


class Counting(nn.Module):
    """Changes a buffer, an attribute and its input, and draws random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.history = []

    def forward(self, x):
        self.calls += 1
        self.history.append(random.random())
        x.add_(1)
        return torch.nn.functional.dropout(self.norm(x), 0.5)


class LeavesAFunctionOut(nn.Module):
    """Calls a function that Dynamo was told to keep out of; the reason names it with its address."""

    @torch.compiler.disable
    def kept_out(self, x):
        return x + 3

    def forward(self, x):
        return self.kept_out(x * 2) * 2


class Nested(nn.Module):
    """Keyword arguments in, a dictionary with a tuple in it out."""

    def forward(self, x, mask, scale=2.0):
        kept = x.masked_fill(mask, 0.0)
        return {"kept": kept, "more": (kept * scale, kept.view(-1))}


class Conditional(nn.Module):
    """A branch on data as an operation, an infinite constant, a device, a transposed input."""

    def forward(self, x):
        chosen = torch.cond(x.sum() > 0, lambda value: value + 1, lambda value: value - 1, (x,))
        filled = chosen.to(torch.float64).masked_fill(x > 3, -torch.inf)
        return filled, torch.arange(3, device=x.device), torch.nn.functional.dropout(x, 0.5)
