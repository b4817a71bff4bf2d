"""Attention in the forms in which models write it, and what looks like attention and is none."""

from __future__ import annotations

import copy
import json
import math
from functools import lru_cache
from typing import Any

import torch
from torch import fx, nn

from autograder.exchange.evidence import Case
from autograder.exercises.day4.models import build_transformer, draw_text, flat_graph

WIDTH, HEADS = 12, 3

KEPT_GRAPHS = 64
"""How many cases' graphs a process keeps: exporting a model takes some fifty times as long as copying its graph."""


class Block(nn.Module):
    """A layer that mixes tokens, in a form that its arguments choose.

    Args:
        mixes: `attention`; `gate` (weights from a linear layer), `unused` (weights that no values meet), `relu` or
            `logarithm` (something else in the place of the softmax), or `classes` (a softmax at the end).
        scale: `times`, `divided`, `query` (multiplied before the scores), `late` (after the mask) or nothing.
        number: by which the scores are multiplied; 0 for one by the root of the width of a head.
        masked: the mask is added to the scores.
        cast: the scores are cast before the softmax and the weights after it, with a dropout that is off.
        dimension: over which the softmax runs.
        heads: whether there are several; else all is of three dimensions, and `bmm` multiplies.
        shared: `weights` or `scores` when these are an output, too.
    """

    def __init__(
        self,
        mixes: str = "attention",
        scale: str = "times",
        number: float = 0.0,
        masked: bool = True,
        cast: bool = False,
        dimension: int = -1,
        heads: bool = True,
        shared: str = "",
    ) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.attention = nn.Linear(WIDTH, 4)  # named like what it is not
        self.dropout = nn.Dropout(0.1)
        self.mixes, self.scale, self.masked, self.cast = mixes, scale, masked, cast
        self.dimension, self.heads, self.shared = dimension, heads, shared
        self.number = number or 1 / math.sqrt(WIDTH // HEADS if heads else WIDTH)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """(batch, length, width) and an additive mask (batch, 1, length, length) to the mixed tokens, and more."""
        if self.mixes == "gate":
            weights = torch.softmax(self.attention(x), dim=-1)
            return (torch.matmul(weights, self.value(x)[:, :4]) + mask.sum(),)
        query, key, value = (self._split(layer(x)) for layer in (self.query, self.key, self.value))
        if self.scale == "query":
            query = query * self.number
        product = torch.matmul if self.heads else torch.bmm
        scores = product(query, key.transpose(-2, -1))
        if self.scale == "times":
            scores = scores * self.number
        elif self.scale == "divided":
            scores = scores / (1 / self.number)
        if self.masked:
            scores = scores + (mask if self.heads else mask.squeeze(1))
        if self.scale == "late":
            scores = scores * self.number
        weights = self._weights(scores)
        mixed = value * weights.amax(dim=-1, keepdim=True) if self.mixes == "unused" else product(weights, value)
        if self.heads:
            mixed = mixed.transpose(1, 2).flatten(2)
        if self.mixes == "classes":
            return torch.softmax(torch.matmul(mixed, self.attention.weight.T), dim=-1), weights
        return (mixed, *{"weights": (weights,), "scores": (scores,)}.get(self.shared, ()))

    def _split(self, x: torch.Tensor) -> torch.Tensor:
        return x.unflatten(-1, (HEADS, -1)).transpose(1, 2) if self.heads else x

    def _weights(self, scores: torch.Tensor) -> torch.Tensor:
        if self.mixes in ("relu", "classes"):
            return torch.relu(scores)
        if self.mixes == "logarithm":
            return torch.log_softmax(scores, dim=-1)
        if not self.cast:
            return torch.softmax(scores, dim=self.dimension)
        raised = torch.softmax(scores.to(torch.float64), dim=self.dimension)
        return self.dropout(raised.to(scores.dtype))


class Stack(nn.Module):
    """Several equal blocks, each with what it reads added to what it gives."""

    def __init__(self, layers: int, form: dict[str, Any]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Block(**form) for _ in range(layers))

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """(batch, length, width) and an additive mask to (batch, length, width)."""
        for layer in self.layers:
            x = x + layer(x, mask)[0]
        return x


def block(name: str, *, layers: int = 0, batch: int = 2, length: int = 5, seed: int = 0, **form: Any) -> Case:
    """A case that holds a block, or a stack of `layers` of them; `form` has arguments of `Block`."""
    return Case(name, {"kind": "block", "layers": layers, "batch": batch, "length": length, "seed": seed, "form": form})


def transformer(name: str, kind: str, *, batch: int = 2, length: int = 6, seed: int = 0, **sizes: Any) -> Case:
    """A case that holds BERT or GPT-2; `sizes` are arguments of `build_transformer`."""
    return Case(name, {"kind": kind, "batch": batch, "length": length, "seed": seed, "form": sizes})


def inputs_of(case: Case, seed: int) -> tuple[torch.Tensor, ...]:
    """Inputs of the case's model."""
    given = case.parameters
    batch, length = given["batch"], given["length"]
    if given["kind"] != "block":
        return draw_text(batch, length, seed)
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.rand(batch, 1, length, length, generator=generator) < 0.4
    hidden &= ~torch.eye(length, dtype=torch.bool)
    return torch.randn(batch, length, WIDTH, generator=generator), torch.where(hidden, -1e9, 0.0)


def build(case: Case) -> fx.GraphModule:
    """The flat graph of the case's model; each call makes another one with equal weights."""
    return copy.deepcopy(_exported(json.dumps(case.parameters, sort_keys=True)))


@lru_cache(KEPT_GRAPHS)
def _exported(parameters: str) -> fx.GraphModule:
    """The flat graph of a case's model; its parameters are written as JSON. Nobody may change it."""
    case = Case("", json.loads(parameters))
    given = case.parameters
    if given["kind"] == "block":
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(given["seed"])
            form, layers = given["form"], given["layers"]
            model: nn.Module = Stack(layers, form) if layers else Block(**form)
    else:
        model = build_transformer(given["kind"], seed=given["seed"], **given["form"])
    return flat_graph(model.eval(), inputs_of(case, 1))
