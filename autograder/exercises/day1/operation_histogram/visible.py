"""The learner's side: graphs with nodes of every kind, the visible cases, the probe and what the check shows."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import torch
from torch import fx, nn

from autograder.exchange.evidence import Case, Evidence

FUNCTIONS: dict[str, Any] = {
    "relu": torch.relu,
    "tanh": torch.tanh,
    "gelu": torch.nn.functional.gelu,
    "neg": operator.neg,
    "softplus": nn.functional.softplus,
}
METHODS = ("abs", "exp", "sigmoid", "relu")
MODULES: dict[str, type[nn.Module]] = {"ReLU": nn.ReLU, "Hardtanh": nn.Hardtanh, "Tanh": nn.Tanh}


def visible_cases() -> list[Case]:
    """One graph with each kind of node, and two graphs that share operations."""
    return [
        Case(
            "one graph, every kind of node",
            {"graphs": [["function relu", "function relu", "method abs", "module ReLU", "weight", "function neg"]]},
        ),
        Case(
            "two graphs",
            {
                "graphs": [
                    ["function tanh", "module Hardtanh", "function tanh", "method exp"],
                    ["function tanh", "weight", "module Hardtanh", "module Hardtanh"],
                ]
            },
        ),
    ]


def build(case: Case) -> list[fx.GraphModule]:
    """The case's graphs: chains of nodes, each reading the one before. `weight` adds a stored tensor (`get_attr`)."""
    return [build_graph(steps) for steps in case.parameters["graphs"]]


def build_graph(steps: list[str]) -> fx.GraphModule:
    """One chain of nodes."""
    root, graph = nn.Module(), fx.Graph()
    root.weight = nn.Parameter(torch.full((3,), 0.5))
    root.blocks = nn.ModuleList()
    value = graph.placeholder("x")
    for step in steps:
        kind, _, name = step.partition(" ")
        if kind == "function":
            value = graph.call_function(FUNCTIONS[name], (value,))
        elif kind == "method":
            value = graph.call_method(name, (value,))
        elif kind == "module":
            root.blocks.append(MODULES[name]())
            value = graph.call_module(f"blocks.{len(root.blocks) - 1}", (value,))
        else:
            value = graph.call_function(operator.add, (value, graph.get_attr("weight")))
    graph.output(value)
    return fx.GraphModule(root, graph)


def probe(case: Case, operation_histogram: Any) -> Evidence:
    """Ask for the histogram of all graphs."""
    found = operation_histogram(build(case))
    if not isinstance(found, Mapping):
        return Evidence({"kind": type(found).__name__, "counts": []})
    counts = [[str(name), count if isinstance(count, int) else None] for name, count in found.items()]
    return Evidence({"kind": "mapping", "counts": counts})


def show(case: Case, evidence: Evidence) -> list[Any]:
    """The learner's histogram as a bar chart in text."""
    lines = [f"{case.name}: your histogram"]
    counts = [(name, count) for name, count in evidence.values["counts"] if count]
    width = max((len(name) for name, _ in counts), default=0)
    lines += [f"  {name:{width}} {'█' * min(count, 40)} {count}" for name, count in counts]
    return ["\n".join(lines)]
