"""Families of models on which a capstone shows a gain: written out by hand, as much published code is."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

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


FAMILIES: dict[str, Family] = {
    "decoder": _decoder,
    "gated layers": _gated,
    "convolutions": _convolutions,
    "careless code": _careless,
    "detector head": _head,
}
"""By name."""
