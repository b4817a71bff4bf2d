"""Attention in the forms in which models write it, and what looks like attention and is none."""

from __future__ import annotations

import copy
import json
import math
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import torch
from torch import fx, nn

from autograder.exchange.evidence import Case
from autograder.exercises.day4.models import build_transformer, draw_text, flat_graph

WIDTH, HEADS = 12, 3

KEPT_GRAPHS = 128
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


SHAPE = (2, 3, 5, 4)
"""Of query, key and value in written graphs: batch, heads, length, width. No two are alike."""


def written(name: str, lines: str, *, inputs: Mapping[str, Any] | None = None, seed: int = 0, **more: Any) -> Case:
    """A case that holds a graph of operators, line by line.

    Args:
        name: of the case.
        lines: Python that ends in a `return`. It calls operators by the names in `OPERATORS`.
        inputs: the shape of each further argument beside `q`, `k`, `v` and the mask `m`, or of one of these: a tuple,
            or a list of a tuple and the name of a dtype. Arguments that the lines do not read are left out.
        seed: of the inputs.
        more: further entries. `names` gives nodes other names, in order.
    """
    shapes = {"q": SHAPE, "k": SHAPE, "v": SHAPE, "m": (2, 1, 5, 5)} | dict(inputs or {})
    read = {key: shapes[key] for key in sorted(shapes) if re.search(rf"\b{key}\b", lines)}
    given = {key: [list(entry[0]), entry[1]] if isinstance(entry, list) else list(entry) for key, entry in read.items()}
    return Case(name, {"kind": "written", "lines": lines, "inputs": given, "seed": seed, "form": {}, **more})


OPERATORS: dict[str, Any] = {
    "matmul": torch.ops.aten.matmul.default,
    "bmm": torch.ops.aten.bmm.default,
    "softmax": torch.ops.aten.softmax.int,
    "mul": torch.ops.aten.mul.Tensor,
    "div": torch.ops.aten.div.Tensor,
    "add": torch.ops.aten.add.Tensor,
    "to": torch.ops.aten.to.dtype,
    "dropout": torch.ops.aten.dropout.default,
    "T": lambda value: torch.ops.aten.transpose.int(value, -2, -1),
    "unary": lambda name, value: getattr(torch.ops.aten, name).default(value),
    "aten": torch.ops.aten,
    "torch": torch,
}
"""What the lines of a written graph may call."""


def _written_graph(given: dict[str, Any], inputs: tuple[torch.Tensor, ...]) -> fx.GraphModule:
    """The graph of a written case. Its lines come from the case, which the judge made, and never from a learner."""
    lines = "\n".join(f"    {line}" for line in given["lines"].splitlines())
    names = dict(OPERATORS)
    exec(compile(f"def forward({', '.join(given['inputs'])}):\n{lines}\n", "<written>", "exec"), names)
    traced = fx.symbolic_trace(names["forward"])
    calls = [node for node in traced.graph.nodes if node.op == "call_function"]
    for node, name in zip(calls, given.get("names", ()), strict=False):
        node._rename(name)
    traced.recompile()
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        _Noting(traced).run(*inputs)
    return traced


class _Noting(fx.Interpreter):
    """Notes the shape and dtype of each value, as the exporter does."""

    def run_node(self, n: fx.Node) -> Any:
        """The node's value; `n.meta["val"]` is like it, without numbers."""
        value = super().run_node(n)
        n.meta = {"val": value.to("meta")} if isinstance(value, torch.Tensor) else {}
        return value


def _written_inputs(given: dict[str, Any], seed: int) -> tuple[torch.Tensor, ...]:
    """Random inputs of a written case: masks hide some of what they are added to, whole numbers are 0 or 1."""
    generator = torch.Generator().manual_seed(1000 * given["seed"] + seed)
    found = []
    for name, entry in given["inputs"].items():
        shape, dtype = (entry[0], entry[1]) if entry and isinstance(entry[0], list) else (entry, "float32")
        kind = getattr(torch, dtype)
        if not kind.is_floating_point:
            found.append((torch.rand(shape, generator=generator) < 0.5).to(kind))
            continue
        value = 1.5 * torch.randn(shape, generator=generator)
        if name.startswith("m"):
            value = torch.where(torch.rand(shape, generator=generator) < 0.2, -1e4, value)
        found.append(value.to(kind))
    return tuple(found)


def inputs_of(case: Case, seed: int) -> tuple[torch.Tensor, ...]:
    """Inputs of the case's model."""
    given = case.parameters
    if given["kind"] == "written":
        return _written_inputs(given, seed)
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
    if given["kind"] == "written":
        return _written_graph(given, inputs_of(case, 1))
    if given["kind"] == "block":
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(given["seed"])
            form, layers = given["form"], given["layers"]
            model: nn.Module = Stack(layers, form) if layers else Block(**form)
    else:
        model = build_transformer(given["kind"], seed=given["seed"], **given["form"])
    return flat_graph(model.eval(), inputs_of(case, 1))
