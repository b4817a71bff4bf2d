"""One thing, written in many ways: the parts of which hidden models are put together.

Published models spell the same formula differently: `x ** 3`, `x * x * x` and `torch.pow(x, 3)`; a division by a root
or a product with its inverse; `view`, `reshape` and `unflatten`. A pass that knows one spelling has learned one file.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

import torch
from torch import nn
from torch.nn import functional

Formula = Callable[[torch.Tensor], torch.Tensor]

ROOT = math.sqrt(2.0 / math.pi)

ACTIVATIONS: tuple[Formula, ...] = (
    lambda x: 0.5 * x * (1.0 + torch.tanh(ROOT * (x + 0.044715 * torch.pow(x, 3.0)))),
    lambda x: 0.5 * x * (1.0 + torch.tanh(ROOT * (x + 0.044715 * x * x * x))),
    lambda x: x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0))),
    lambda x: x * torch.sigmoid(1.702 * x),
    lambda x: x * torch.sigmoid(x),
    lambda x: x / (1.0 + torch.exp(-x)),
    lambda x: x * torch.tanh(functional.softplus(x)),
    lambda x: x * functional.relu6(x + 3.0) / 6.0,
    lambda x: torch.square(torch.relu(x)),
    lambda x: torch.relu(x) ** 2,
    lambda x: torch.maximum(x, 0.01 * x),
    lambda x: torch.log(1.0 + torch.exp(x.clamp(max=20.0))),
    functional.gelu,
    functional.silu,
    torch.relu,
)
"""Activations, written out or not."""

PLAIN: tuple[Formula, ...] = (functional.gelu, functional.silu, torch.relu, torch.tanh)

GATES: tuple[Formula, ...] = (
    torch.sigmoid,
    lambda x: 1.0 / (1.0 + torch.exp(-x)),
    lambda x: 0.5 * (torch.tanh(0.5 * x) + 1.0),
)
"""The logistic function."""

NAMES = (
    ("query", "key", "value", "out"),
    ("q_proj", "k_proj", "v_proj", "o_proj"),
    ("to_q", "to_k", "to_v", "to_out"),
    ("wq", "wk", "wv", "wo"),
    ("first", "second", "third", "last"),
)
"""What layers are called: no pass should depend on it."""


class Norm(nn.Module):
    """A normalisation over the last dimension: a layer, a function, or written out."""

    def __init__(self, source: random.Random, width: int) -> None:
        super().__init__()
        self.kind = source.choice(("layer", "function", "written", "root", "root by power", "root by division"))
        self.weight, self.bias = nn.Parameter(torch.rand(width) + 0.5), nn.Parameter(torch.rand(width))
        self.layer = nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Any shape to the same."""
        if self.kind == "layer":
            return self.layer(x)
        if self.kind == "function":
            return functional.layer_norm(x, self.weight.shape, self.weight, self.bias, 1e-5)
        if self.kind == "written":
            centred = x - x.mean(-1, keepdim=True)
            variance = (centred * centred).mean(-1, keepdim=True)
            return centred / torch.sqrt(variance + 1e-5) * self.weight + self.bias
        if self.kind == "root":
            return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        if self.kind == "root by power":
            return self.weight * (x * (torch.mean(x**2, dim=-1, keepdim=True) + 1e-6) ** -0.5)
        return x / torch.sqrt((x * x).mean(dim=-1, keepdim=True) + 1e-6) * self.weight


class Attention(nn.Module):
    """Attention in single steps, of one head or several, over the same positions or those of a second source.

    Where a softmax follows, the keys have no bias: it takes no notice of one, whose gradient is rounding only.
    """

    mask: torch.Tensor

    def __init__(self, source: random.Random, width: int, length: int) -> None:
        super().__init__()
        self.heads = source.choice([heads for heads in (1, 2, 4) if width % heads == 0])
        self.names = source.choice(NAMES)
        self.weights = source.choice(("softmax", "softmax", "softmax", "sigmoid"))
        biased = source.random() < 0.4
        for number, name in enumerate(self.names):
            bias = number == 3 or (biased and (number != 1 or self.weights == "sigmoid"))
            setattr(self, name, nn.Linear(width, width, bias=bias))
        self.split = source.choice(("view", "reshape", "unflatten"))
        self.product = source.choice(("matmul", "@", "einsum"))
        self.scale = source.choice(("divide", "multiply", "query"))
        self.masked = source.choice(("buffer", "made each time", "none"))
        self.order = source.sample(range(3), 3)
        self.width, self.length, self.root = width, length, math.sqrt(width / self.heads)
        self.register_buffer("mask", torch.full((length, length), -1e4).triu(1))

    def _heads(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, length, width) to (batch, heads, length, width of a head)."""
        if self.split == "view":
            x = x.view(x.shape[0], x.shape[1], self.heads, self.width // self.heads)
        elif self.split == "reshape":
            x = torch.reshape(x, (x.size(0), x.size(1), self.heads, -1))
        else:
            x = x.unflatten(-1, (self.heads, -1))
        return x.transpose(1, 2) if self.split != "reshape" else torch.permute(x, (0, 2, 1, 3))

    def forward(self, x: torch.Tensor, other: torch.Tensor | None = None) -> torch.Tensor:
        """(batch, length, width) to the same. Keys and values come from `other`, if it is given."""
        read = (x, x, x) if other is None else (x, other, other)
        made: dict[int, torch.Tensor] = {}
        for place in self.order:
            made[place] = self._heads(getattr(self, self.names[place])(read[place]))
        query, key, value = made[0], made[1], made[2]
        if self.scale == "query":
            query = query / self.root
        if self.product == "einsum":
            scores = torch.einsum("bhqd,bhkd->bhqk", query, key)
        elif self.product == "@":
            scores = query @ key.transpose(-1, -2)
        else:
            scores = torch.matmul(query, key.permute(0, 1, 3, 2))
        if self.scale != "query":
            scores = scores / self.root if self.scale == "divide" else scores * (1.0 / self.root)
        if self.masked == "buffer":
            scores = scores + self.mask
        elif self.masked == "made each time":
            places = torch.arange(self.length)
            scores = scores.masked_fill(places[None, :] > places[:, None], -1e4)
        weights = torch.softmax(scores, -1) if self.weights == "softmax" else torch.sigmoid(scores)
        mixed = weights @ value
        joined = mixed.transpose(1, 2).flatten(2)
        return getattr(self, self.names[3])(joined)


class Feed(nn.Module):
    """What follows attention: up, an activation, down; gated or not; as layers, or as products with a matrix."""

    def __init__(self, source: random.Random, width: int) -> None:
        super().__init__()
        inner = width * source.choice((2, 4))
        self.kind = source.choice(("layers", "gated", "products"))
        self.up, self.gate = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.matrix = nn.Parameter(torch.randn(width, inner) / math.sqrt(width))
        self.start = nn.Parameter(torch.randn(inner))
        self.down = nn.Linear(inner, width)
        self.activation, self.opens = source.choice(ACTIVATIONS), source.choice(GATES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(…, width) to the same."""
        if self.kind == "gated":
            gate = self.gate(x)
            return self.down(gate * self.opens(gate) * self.up(x))
        if self.kind == "products":
            return self.down(self.activation(torch.matmul(x, self.matrix) + self.start))
        return self.down(self.activation(self.up(x)))


class Careless(nn.Module):
    """What is computed twice, for nothing, or there and back: some of it, in an order of its own."""

    WAYS: tuple[Formula, ...] = (
        lambda x: x.transpose(0, 1).transpose(0, 1),
        lambda x: x * 1.0 + 0.0,
        lambda x: torch.sin(x) + torch.sin(x),
        lambda x: torch.neg(torch.neg(x)),
        lambda x: torch.relu(torch.relu(x)),
        lambda x: x.abs().abs(),
        lambda x: torch.cat([x[:, :2], x[:, 2:]], 1),
        lambda x: torch.stack([x, x]).mean(0),
        lambda x: x.to(torch.float32).contiguous(),
        lambda x: torch.cat(torch.chunk(x, 2, -1), -1),
        lambda x: x.unsqueeze(1).squeeze(1),
        lambda x: torch.exp(x.clamp(max=3.0)) * torch.exp(-x.clamp(max=3.0)) + x,
        lambda x: x + torch.zeros_like(x),
        lambda x: torch.where(x > 0, x, x),
        lambda x: (x * 2.0) * 0.5,
        lambda x: x.clone().reshape(x.shape),
        lambda x: torch.tanh(x) - torch.arange(3.0).sum() + torch.arange(3.0).sum(),
    )

    def __init__(self, source: random.Random) -> None:
        super().__init__()
        self.ways: Sequence[Formula] = source.sample(self.WAYS, source.randint(3, 6))
        self.idle = nn.Identity()
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, width) to the same."""
        for way in self.ways:
            x = way(x)
        wasted = torch.exp(x).sum()
        del wasted
        return self.dropout(self.idle(x))


class Convolved(nn.Module):
    """A convolution, its normalisation and an activation; depthwise, in branches, or with a squeeze."""

    def __init__(self, source: random.Random, inside: int, outside: int) -> None:
        super().__init__()
        self.kind = source.choice(("plain", "separable", "branches", "squeezed"))
        self.main = nn.Conv2d(inside, outside, 3, padding=1, bias=source.random() < 0.5)
        self.depth = nn.Conv2d(inside, inside, 3, padding=1, groups=inside, bias=False)
        self.point = nn.Conv2d(inside, outside, 1)
        self.left, self.right = nn.Conv2d(inside, outside, 1), nn.Conv2d(inside, outside, 1)
        self.norm = nn.BatchNorm2d(outside)
        self.shrink, self.grow = nn.Linear(outside, outside), nn.Linear(outside, outside)
        self.activation, self.opens = source.choice(ACTIVATIONS), source.choice(GATES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, channels, height, width), with other channels."""
        if self.kind == "separable":
            return self.activation(self.norm(self.point(self.depth(x))))
        if self.kind == "branches":
            return self.activation(self.norm(self.main(x))) + self.left(x) * self.opens(self.right(x))
        x = self.activation(self.norm(self.main(x)))
        if self.kind == "squeezed":
            known = x.mean((2, 3))
            return x * self.opens(self.grow(torch.relu(self.shrink(known))))[:, :, None, None]
        return x
