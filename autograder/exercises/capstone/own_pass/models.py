"""Families of models on which a capstone shows a gain: written out by hand, as much published code is.

The first five are the same program each time, in other sizes. The others are put together from parts that are spelled
in many ways (`dialects`), and no two of them are alike.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from autograder.exercises.capstone.own_pass import dialects

Family = Callable[[random.Random], tuple[nn.Module, tuple[Any, ...]]]
"""Makes a model of this family, in sizes that the random source decides, and inputs for it."""


def new_gelu(x: torch.Tensor) -> torch.Tensor:
    """GELU by its approximation with tanh, as the published code of GPT-2 writes it."""
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


class Attention(nn.Module):
    """Causal attention of one head, in single steps."""

    mask: torch.Tensor

    def __init__(self, width: int, length: int) -> None:
        super().__init__()
        # Softmax takes no notice of a bias of the keys: its gradient would be rounding errors only.
        self.query, self.key, self.value = (nn.Linear(width, width, bias=bias) for bias in (True, False, True))
        self.scale = math.sqrt(width)
        self.register_buffer("mask", torch.full((length, length), -1e4).triu(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Shape (batch, length, width), as it came."""
        scores = torch.matmul(self.query(x), self.key(x).transpose(-2, -1)) / self.scale + self.mask
        return torch.matmul(torch.softmax(scores, -1), self.value(x))


class Decoder(nn.Module):
    """Blocks as GPT-2 has them."""

    def __init__(self, width: int, length: int, layers: int) -> None:
        super().__init__()
        self.attention = nn.ModuleList(Attention(width, length) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * layers))
        self.up = nn.ModuleList(nn.Linear(width, 4 * width) for _ in range(layers))
        self.down = nn.ModuleList(nn.Linear(4 * width, width) for _ in range(layers))
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Shape (batch, length, width), as it came."""
        for number, attention in enumerate(self.attention):
            x = x + self.dropout(attention(self.norms[2 * number](x)))
            inner = new_gelu(self.up[number](self.norms[2 * number + 1](x)))
            x = x + self.dropout(self.down[number](inner))
        return x


class Gated(nn.Module):
    """RMS normalisation and a gated layer, as Llama has them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width) + 0.5)
        self.gate, self.up = (nn.Linear(width, 2 * width, bias=False) for _ in range(2))
        self.down = nn.Linear(2 * width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Shape (batch, length, width), as it came."""
        normal = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        gate = self.gate(normal)
        return x + self.down(gate * torch.sigmoid(gate) * self.up(normal))


class Convolutions(nn.Module):
    """Convolutions with batch normalisation, hard swish and mish in single steps."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, channels, 3, padding=1, bias=False)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)
        self.norms = nn.ModuleList(nn.BatchNorm2d(channels) for _ in range(2))
        self.head = nn.Linear(channels, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """From (batch, 3, height, width) to (batch, 5)."""
        x = self.norms[0](self.first(x))
        x = x * nn.functional.relu6(x + 3.0) / 6.0
        x = self.norms[1](self.second(x))
        x = x * torch.tanh(nn.functional.softplus(x))
        return torch.log(torch.softmax(self.head(x.mean((2, 3))), -1))


class Careless(nn.Module):
    """What is computed twice, for nothing, or there and back."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = nn.Linear(width, width)
        self.identity = nn.Identity()
        self.dropout = nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Two results of the shape (batch, width)."""
        hidden = torch.relu(torch.relu(self.identity(self.layer(x))))
        wasted = torch.exp(hidden).sum()
        del wasted
        there_and_back = hidden.transpose(0, 1).transpose(0, 1) * 1.0 + 0.0
        one, other = torch.sin(there_and_back), torch.sin(there_and_back)
        return self.dropout(one + other), torch.neg(torch.neg(one)).abs().abs()


class Head(nn.Module):
    """What a detector does behind its last convolution."""

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        self.predict = nn.Conv2d(channels, 4 + classes, 1)
        self.classes = classes

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """From (batch, channels, height, width) to (batch, places, 4 + classes): corners of boxes, and scores."""
        flat = self.predict(x).flatten(2).permute(0, 2, 1).contiguous()
        boxes, scores = torch.split(flat, [4, self.classes], -1)
        centre, size = boxes.chunk(2, -1)
        corners = torch.cat([centre - size.exp() / 2, centre + size.exp() / 2], -1)
        return torch.cat([corners, 1.0 / (1.0 + torch.exp(-scores))], -1)


class Sequence(nn.Module):
    """Blocks of attention and what follows it, each block in its own spelling or all in one."""

    def __init__(self, source: random.Random, width: int, length: int, *, crossed: bool = False) -> None:
        super().__init__()
        self.crossed = crossed
        self.blocks = nn.ModuleList()
        for _ in range(source.randint(1, 2)):
            parts = (
                dialects.Norm(source, width),
                dialects.Attention(source, width, length),
                dialects.Norm(source, width),
                dialects.Feed(source, width),
            )
            self.blocks.append(nn.ModuleList(parts))
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Shape (batch, length, width), as it came."""
        seen = torch.flip(x, (1,))
        for block in self.blocks:
            first, attention, second, feed = block.children()
            normal = first(x)
            x = x + self.dropout(attention(normal, seen) if self.crossed else attention(normal))
            x = x + self.dropout(feed(second(x)))
        return x


class Recurrent(nn.Module):
    """A gated cell (GRU or LSTM), a step for each place of the sequence."""

    def __init__(self, source: random.Random, width: int, steps: int) -> None:
        super().__init__()
        self.steps, self.kind, self.opens = steps, source.choice(("GRU", "LSTM")), source.choice(dialects.GATES)
        self.inside = nn.ModuleList(nn.Linear(width, width) for _ in range(4))
        self.across = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """From (batch, steps, width) to (batch, width)."""
        state = memory = torch.zeros_like(x[:, 0])
        for step in range(self.steps):
            now = x[:, step]
            one, two, new = (self.inside[i](now) + self.across[i](state) for i in range(3))
            if self.kind == "GRU":
                keep = self.opens(one)
                state = keep * state + (1.0 - keep) * torch.tanh(self.opens(two) * new)
            else:
                memory = self.opens(one) * memory + self.opens(two) * torch.tanh(new)
                state = self.opens(self.inside[3](now) + self.across[3](state)) * torch.tanh(memory)
        return state


class Experts(nn.Module):
    """Several layers of the same input, weighted by what a further one says of it."""

    def __init__(self, source: random.Random, width: int) -> None:
        super().__init__()
        self.router = nn.Linear(width, source.randint(2, 4), bias=False)
        self.experts = nn.ModuleList(nn.Linear(width, width) for _ in range(self.router.out_features))
        self.activation, self.written = source.choice(dialects.ACTIVATIONS), source.random() < 0.5

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, length, width) to the same."""
        scores = self.router(x)
        weights = torch.softmax(scores, -1)
        if self.written:
            powers = torch.exp(scores - scores.amax(-1, keepdim=True))
            weights = powers / powers.sum(-1, keepdim=True)
        outcomes = [self.activation(expert(x)) for expert in self.experts]
        return sum(weights[..., i : i + 1] * outcome for i, outcome in enumerate(outcomes)) + x


class Vision(nn.Module):
    """Convolutional stages, some with a way around them."""

    def __init__(self, source: random.Random, channels: int) -> None:
        super().__init__()
        self.stem = dialects.Convolved(source, 3, channels)
        self.stages = nn.ModuleList(dialects.Convolved(source, channels, channels) for _ in range(source.randint(1, 2)))
        self.around = source.random() < 0.5
        self.head = nn.Linear(channels, 5)
        self.written = source.random() < 0.5

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """From (batch, 3, height, width) to (batch, 5)."""
        x = self.stem(x)
        for stage in self.stages:
            x = x + stage(x) if self.around else stage(x)
        scores = self.head(x.flatten(2).mean(-1))
        return torch.log(torch.softmax(scores, -1)) if self.written else torch.log_softmax(scores, -1)


class Tabular(nn.Module):
    """Layers over rows of a table, by somebody in a hurry."""

    def __init__(self, source: random.Random, width: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(source.randint(1, 3)))
        self.between = nn.ModuleList(dialects.Careless(source) for _ in self.layers)
        self.activation = source.choice(dialects.ACTIVATIONS)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, width) to the same."""
        for layer, careless in zip(self.layers, self.between, strict=True):
            x = self.activation(layer(careless(x)))
        return x


class Similar(nn.Module):
    """Two projections of each row, compared: by the cosine, by the distance, each with each."""

    def __init__(self, source: random.Random, width: int) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(width, width), nn.Linear(width, width)
        self.kind = source.choice(("cosine", "distance", "normal"))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, length, width) to (batch, length)."""
        left, right = self.left(x), self.right(x)
        if self.kind == "cosine":
            above = (left * right).sum(-1)
            below = torch.sqrt((left * left).sum(-1) + 1e-6) * torch.sqrt((right * right).sum(-1) + 1e-6)
            return above / below
        if self.kind == "distance":
            return (left * left).sum(-1) - 2.0 * (left * right).sum(-1) + (right * right).sum(-1)
        one = left / (left.norm(dim=-1, keepdim=True) + 1e-6)
        other = right / (right.norm(dim=-1, keepdim=True) + 1e-6)
        return torch.einsum("bld,bld->bl", one, other)


def _decoder(source: random.Random) -> tuple[nn.Module, tuple[Any, ...]]:
    width, length = source.choice((16, 24, 32)), source.randint(5, 12)
    return Decoder(width, length, source.randint(1, 3)), (torch.randn(source.randint(1, 3), length, width),)


def _gated(source: random.Random) -> tuple[nn.Module, tuple[Any, ...]]:
    width = source.choice((16, 24, 32))
    layers = nn.Sequential(*(Gated(width) for _ in range(source.randint(1, 3))))
    return layers, (torch.randn(source.randint(1, 3), source.randint(3, 9), width),)


def _convolutions(source: random.Random) -> tuple[nn.Module, tuple[Any, ...]]:
    size = source.randint(6, 12)
    return Convolutions(source.choice((4, 8, 12))), (torch.randn(source.randint(2, 3), 3, size, size),)


def _careless(source: random.Random) -> tuple[nn.Module, tuple[Any, ...]]:
    width = source.randint(8, 32)
    return Careless(width), (torch.randn(source.randint(2, 5), width),)


def _head(source: random.Random) -> tuple[nn.Module, tuple[Any, ...]]:
    channels, size = source.choice((8, 16)), source.randint(3, 7)
    return Head(channels, source.randint(3, 9)), (torch.randn(source.randint(1, 2), channels, size, size),)


def _sequence(source: random.Random) -> tuple[nn.Module, tuple[Any, ...]]:
    width, length = source.choice((16, 24, 32)), source.randint(5, 12)
    return Sequence(source, width, length), (torch.randn(source.randint(2, 3), length, width),)


def _crossed(source: random.Random) -> tuple[nn.Module, tuple[Any, ...]]:
    width, length = source.choice((16, 24, 32)), source.randint(5, 12)
    return Sequence(source, width, length, crossed=True), (torch.randn(source.randint(2, 3), length, width),)


def _recurrent(source: random.Random) -> tuple[nn.Module, tuple[Any, ...]]:
    width, steps = source.choice((8, 12, 16)), source.randint(2, 4)
    return Recurrent(source, width, steps), (torch.randn(source.randint(2, 4), steps, width),)


def _experts(source: random.Random) -> tuple[nn.Module, tuple[Any, ...]]:
    width = source.choice((12, 16, 24))
    return Experts(source, width), (torch.randn(source.randint(2, 3), source.randint(3, 9), width),)


def _vision(source: random.Random) -> tuple[nn.Module, tuple[Any, ...]]:
    size = source.randint(6, 10)
    return Vision(source, source.choice((4, 6, 8))), (torch.randn(source.randint(2, 3), 3, size, size),)


def _tabular(source: random.Random) -> tuple[nn.Module, tuple[Any, ...]]:
    width = 2 * source.randint(4, 12)
    return Tabular(source, width), (torch.randn(source.randint(3, 6), width),)


def _similar(source: random.Random) -> tuple[nn.Module, tuple[Any, ...]]:
    width = source.choice((8, 12, 16))
    return Similar(source, width), (torch.randn(source.randint(2, 3), source.randint(3, 9), width),)


FAMILIES: dict[str, Family] = {
    "decoder": _decoder,
    "gated layers": _gated,
    "convolutions": _convolutions,
    "careless code": _careless,
    "detector head": _head,
    "sequence": _sequence,
    "two sequences": _crossed,
    "recurrent cell": _recurrent,
    "experts": _experts,
    "vision": _vision,
    "table": _tabular,
    "similarity": _similar,
}
"""By name."""
