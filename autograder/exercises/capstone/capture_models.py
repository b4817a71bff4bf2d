"""Families of models on which a capture tool is tried; each is made again from its name and a seed.

Some can be captured as one graph for the sizes of their inputs; of others every graph is wrong for some values, or from
the second call on. To refuse is never wrong.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

Family = Callable[[random.Random], tuple[nn.Module, tuple[Any, ...]]]
"""Makes a model of this family, in sizes that the random source decides, and inputs for it."""


class Layers(nn.Module):
    """Nothing but layers."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, width), as it came."""
        for layer in self.layers:
            x = functional.gelu(layer(x))
        return x


class ByShape(nn.Module):
    """What is computed depends on sizes."""

    def __init__(self, width: int, limit: int) -> None:
        super().__init__()
        self.layer, self.limit = nn.Linear(width, width), limit

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, width) to (batch, width), or one less where the width is odd."""
        y = self.layer(x)
        if x.shape[0] > self.limit:
            y = y.flip(0)
        return y[:, 1:] if x.size(-1) % 2 else y


class ByValue(nn.Module):
    """What is computed depends on values."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, width), as it came."""
        if x.mean() > 0:
            return torch.relu(self.one(x))
        return self.other(x)


class Scaled(nn.Module):
    """A value of the input becomes a number of Python, and again part of a tensor."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, width), as it came."""
        largest = float(x.abs().max())
        return self.layer(x / (1.0 + largest))


class Steps(nn.Module):
    """A recurrent layer, written out in Python."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(width, width), nn.Linear(width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, length, width), as it came."""
        state = torch.zeros_like(x[:, 0])
        states = []
        for place in range(x.shape[1]):
            state = torch.tanh(self.inner(x[:, place]) + self.outer(state))
            states.append(state)
        return torch.stack(states, 1)


class Heads(nn.Module):
    """Attention, in which the shape is taken apart and a chunked tensor unpacked."""

    def __init__(self, heads: int, width: int) -> None:
        super().__init__()
        self.heads, self.project = heads, nn.Linear(heads * width, 3 * heads * width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, length, width), as it came."""
        batch, length, width = x.shape
        query, key, value = (
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.project(x).chunk(3, -1)
        )
        scores = torch.softmax(query @ key.transpose(-1, -2) / (width // self.heads) ** 0.5, -1)
        return (scores @ value).transpose(1, 2).reshape(batch, length, width)


class CountsCalls(nn.Module):
    """A buffer is written to at each call."""

    calls: torch.Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = nn.Linear(width, width)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, width), as it came."""
        self.calls.add_(1.0)
        return self.layer(x) * self.calls


class Remembers(nn.Module):
    """A number of Python changes at each call: no graph can do that."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer, self.calls = nn.Linear(width, width), 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, width), as it came."""
        self.calls += 1
        return self.layer(x) * self.calls


class Noise(nn.Module):
    """Draws, in a size that does not come from the input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer, self.width = nn.Linear(width, width), width

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, width), as it came."""
        return self.layer(x) + 0.1 * torch.randn(self.width)


class Training(nn.Module):
    """Dropout and batch normalisation, in the middle of training."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer, self.norm = nn.Linear(width, width), nn.BatchNorm1d(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, width), as it came."""
        return functional.dropout(self.norm(self.layer(x)), 0.3, self.training)


class Structured(nn.Module):
    """Takes a dictionary and returns one."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = nn.Linear(width, width)

    def forward(self, batch: dict[str, torch.Tensor], scale: float = 2.0) -> dict[str, Any]:
        """`x` and `mask`, (batch, width) each, to `hidden` and a pair of sums."""
        hidden = self.layer(batch["x"]) * batch["mask"] * scale
        return {"hidden": hidden, "sums": (hidden.sum(0), batch["mask"].sum())}


class WritesInput(nn.Module):
    """The caller's tensor is changed."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, width) to (batch,)."""
        x.mul_(2.0)
        return x.sum(-1)


class Fills(nn.Module):
    """A tensor is made and then filled."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = nn.Linear(width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, length, width) to (batch, length)."""
        result = torch.zeros(x.shape[0], x.shape[1])
        for place in range(x.shape[1]):
            result[:, place] += self.layer(x[:, place]).squeeze(-1)
        return result


def _wide(make: Callable[[int], nn.Module]) -> Family:
    def family(source: random.Random) -> tuple[nn.Module, tuple[Any, ...]]:
        width = source.randint(3, 9)
        return make(width).eval(), (torch.randn(source.randint(2, 6), width),)

    return family


def _long(make: Callable[[int], nn.Module]) -> Family:
    def family(source: random.Random) -> tuple[nn.Module, tuple[Any, ...]]:
        width = source.randint(3, 7)
        return make(width).eval(), (torch.randn(source.randint(2, 4), source.randint(2, 5), width),)

    return family


def _layers(source: random.Random) -> tuple[nn.Module, tuple[Any, ...]]:
    width = source.randint(3, 9)
    return Layers(width, source.randint(1, 4)).eval(), (torch.randn(source.randint(2, 6), width),)


def _by_shape(source: random.Random) -> tuple[nn.Module, tuple[Any, ...]]:
    width = source.randint(3, 9)
    return ByShape(width, source.randint(2, 5)).eval(), (torch.randn(source.randint(2, 6), width),)


def _heads(source: random.Random) -> tuple[nn.Module, tuple[Any, ...]]:
    heads, width = source.randint(1, 3), source.randint(2, 5)
    return Heads(heads, width).eval(), (torch.randn(2, source.randint(2, 5), heads * width),)


def _training(source: random.Random) -> tuple[nn.Module, tuple[Any, ...]]:
    width = source.randint(3, 9)
    return Training(width).train(), (torch.randn(source.randint(3, 6), width),)


def _structured(source: random.Random) -> tuple[nn.Module, tuple[Any, ...]]:
    width = source.randint(3, 9)
    x, mask = torch.randn(2, source.randint(2, 6), width)
    return Structured(width).eval(), ({"x": x, "mask": mask.sign().clone()},)


FAMILIES: dict[str, Family] = {
    "layers": _layers,
    "choice by shape": _by_shape,
    "choice by value": _wide(ByValue),
    "a value as a number": _wide(Scaled),
    "steps in a loop": _long(Steps),
    "heads": _heads,
    "counts its calls": _wide(CountsCalls),
    "remembers in Python": _wide(Remembers),
    "noise": _wide(Noise),
    "in training": _training,
    "dictionaries": _structured,
    "writes its input": _wide(lambda width: WritesInput()),
    "fills a tensor": _long(Fills),
}
"""By name."""


def model_of(family: str, seed: str) -> tuple[nn.Module, tuple[Any, ...]]:
    """The model of this family from this seed, and inputs for it."""
    source = random.Random(f"{seed}/{family}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(source.getrandbits(32))
        return FAMILIES[family](source)
