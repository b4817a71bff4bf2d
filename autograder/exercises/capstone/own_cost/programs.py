"""The graphs whose costs are told: models in core ATen, in several dtypes, some with a custom operator in them."""

from __future__ import annotations

import random
from typing import Any

import torch
from torch import fx, nn

from autograder.exchange.evidence import Case
from autograder.exchange.graph_form import EncodedGraph, decode, encode
from autograder.exercises.capstone import few
from autograder.exercises.capstone.mystery import put_in
from autograder.exercises.capstone.own_pass.models import FAMILIES as MODELS
from autograder.exercises.capstone.own_pass.models import Family

aten = torch.ops.aten

REPLACED = (aten.tanh.default, aten.sigmoid.default, aten.relu.default, aten.exp.default, aten.gelu.default)
"""Operators of one tensor in the place of which the custom operator may stand."""


class Grouped(nn.Module):
    """Convolutions in groups, strided and dilated, of one dimension and two, and a transposed one."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)
        self.strided = nn.Conv2d(channels, 2 * channels, 3, stride=2, dilation=1, bias=False)
        self.back = nn.ConvTranspose2d(2 * channels, channels, 2, stride=2)
        self.line = nn.Conv1d(channels, 3, 3, dilation=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """From (batch, channels, height, width) to (batch, 3, length)."""
        x = torch.sigmoid(self.back(torch.relu(self.strided(self.depthwise(x)))))
        return self.line(x.flatten(2))


class Lookup(nn.Module):
    """A table that is looked up, an expanded tensor, and products of matrices in batches."""

    def __init__(self, rows: int, width: int) -> None:
        super().__init__()
        self.table, self.row = nn.Embedding(rows, width), nn.Parameter(torch.randn(1, 1, width))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """From (batch, length) to (batch, length, length)."""
        words = self.table(tokens)
        words = words + self.row.expand(words.shape)
        return torch.tanh(torch.bmm(words, words.transpose(1, 2)))


def _grouped(source: random.Random) -> tuple[nn.Module, tuple[Any, ...]]:
    channels, size = source.choice((4, 6, 8)), source.randint(7, 12)
    return Grouped(channels), (torch.randn(source.randint(1, 3), channels, size, size),)


def _lookup(source: random.Random) -> tuple[nn.Module, tuple[Any, ...]]:
    rows, length = source.randint(20, 60), source.randint(3, 9)
    return Lookup(rows, source.randint(4, 12)), (torch.randint(rows, (source.randint(2, 4), length)),)


FAMILIES: dict[str, Family] = {**MODELS, "grouped convolutions": _grouped, "looks up": _lookup}
"""By name."""

DTYPES = (torch.float32, torch.float64, torch.bfloat16)


def cases_from(seed: str) -> list[Case]:
    """One model of each family. Every other one is given the custom operator, where it has a place for it."""
    return [_case(family, seed, number % 2 == 0) for number, family in enumerate(few(list(FAMILIES)))]


def _case(family: str, seed: str, custom: bool) -> Case:
    graph_module = torch.export.export(*_made(family, seed)).run_decompositions().module()
    places = [node.name for node in graph_module.graph.nodes if node.target in REPLACED]
    source = random.Random(f"{seed}/{family}/custom")
    names = source.sample(places, 1) if custom and places else []
    graph = encode(graph_module)
    parameters = {"family": family, "seed": seed, "custom": names, "graph": graph.document}
    return Case(f"model, {family}{' with a custom operator' if names else ''}", parameters, graph.tensors)


def _made(family: str, seed: str) -> tuple[nn.Module, tuple[Any, ...]]:
    source = random.Random(f"{seed}/{family}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(source.getrandbits(32))
        model, inputs = FAMILIES[family](source)
    dtype = source.choice(DTYPES)
    return model.eval().to(dtype), tuple(one.to(dtype) if one.is_floating_point() else one for one in inputs)


def graph_of(case: Case) -> fx.GraphModule:
    """The graph of a case, with the custom operator in its place and without examples."""
    graph_module = decode(EncodedGraph(case.parameters["graph"], case.tensors), ours=True)
    put_in(graph_module, case.parameters["custom"])
    return graph_module


def inputs_of(case: Case) -> tuple[Any, ...]:
    """The inputs of the model of a case."""
    return _made(case.parameters["family"], case.parameters["seed"])[1]
