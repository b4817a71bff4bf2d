"""The learner's side: graphs with every kind of node, the probe and what the check shows."""

from __future__ import annotations

import operator
from typing import Any
from unittest.mock import patch

import torch
from torch import fx, nn

from autograder.exchange.evidence import Case, Evidence
from autograder.learner_side.withheld import WithheldImportError


class Factor:
    """A constant that has no form in code: a module's code, written anew from such a graph, does not know its name."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"<a factor of {self.value}>"


def times(x: torch.Tensor, factor: Factor) -> torch.Tensor:
    """Any shape to the same."""
    return x * factor.value


STEPS: dict[str, Any] = {
    "function": torch.tanh,
    "keyword": torch.softmax,
    "list": torch.cat,
    "method": "abs",
    "module": nn.Linear,
    "weight": operator.mul,
    "two": torch.sub,
    "leaky": nn.functional.leaky_relu,
}
"""Steps of which graphs are made, by name."""


def visible_cases() -> list[Case]:
    """A short chain, what needs care with arguments, and a graph that returns something from its middle."""
    return [
        Case("a chain", {"steps": ["function", "method", "module"], "width": 4, "seed": 0, "returned": -1}),
        Case(
            "keywords, lists, weights", {"steps": ["keyword", "list", "weight"], "width": 3, "seed": 1, "returned": -1}
        ),
        Case(
            "two inputs, two results",
            {"steps": ["two", "leaky", "module", "method"], "width": 5, "seed": 2, "returned": 2},
        ),
    ]


def build(case: Case) -> tuple[fx.GraphModule, list[torch.Tensor]]:
    """The case's graph and its two inputs of shape (2, width).

    The code of the module is stale on purpose: it was written before the graph got one step more. And it cannot be
    written anew, for that step has a `Factor` among its arguments.
    """
    given = case.parameters
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(given["seed"])
        root, graph = nn.Module(), fx.Graph()
        root.block = nn.Module()
        values = [graph.placeholder("x"), graph.placeholder("y")]
        width = given["width"]
        for position, step in enumerate(given["steps"]):
            values.append(_add(root, graph, step, position, values, width))
            width = 2 * width if step == "list" else width
        first = values[2 + given["returned"]] if given["returned"] >= 0 else values[-1]
        # A result that other nodes read, too, is returned next to one that is computed last.
        output = graph.output((first, values[-1]) if given["returned"] >= 0 else first)
        graph_module = fx.GraphModule(root, graph)
        inputs = [torch.randn(2, given["width"]) for _ in range(2)]
    with graph.inserting_after(first):
        last = graph.call_function(times, (first, Factor(-1.0)))
    output.replace_input_with(first, last)
    return graph_module, inputs


def _add(root: nn.Module, graph: fx.Graph, step: str, position: int, values: list[fx.Node], width: int) -> fx.Node:
    block = root.get_submodule("block")
    value, target = values[-1] if position else values[0], STEPS[step]
    match step:
        case "keyword":
            return graph.call_function(target, (), {"input": value, "dim": 0})
        case "leaky":
            return graph.call_function(target, (value,), {"negative_slope": 0.5})
        case "list":
            return graph.call_function(target, ([value, value],), {"dim": 1})
        case "method":
            return graph.call_method(target, (value,))
        case "module":
            block.add_module(f"layer{position}", nn.Linear(width, width))
            return graph.call_module(f"block.layer{position}", (value,))
        case "weight":
            block.register_parameter("scale", nn.Parameter(torch.randn(width)))
            return graph.call_function(target, (value, graph.get_attr("block.scale")))
        case "two":
            return graph.call_function(target, (values[1], value))
    return graph.call_function(target, (value,))


def probe(case: Case, run_graph: Any) -> Evidence:
    """Let the learner's function compute the graph, and note whether PyTorch's interpreter did."""
    if not callable(run_graph):
        raise TypeError("run_graph is no function")
    graph_module, inputs = build(case)
    evidence = Evidence({"interpreted": False, "failed": "", "kind": ""})
    run = fx.Interpreter.run

    def noting(self: Any, *arguments: Any, **options: Any) -> Any:
        evidence.values["interpreted"] = True
        return run(self, *arguments, **options)

    try:
        with patch.object(fx.Interpreter, "run", noting), torch.no_grad():
            found = run_graph(graph_module, *inputs)
    except WithheldImportError:  # while graded, the interpreter is hollow
        evidence.values["interpreted"] = True
        return evidence
    except (AttributeError, TypeError, KeyError) as error:
        evidence.values["failed"] = f"{type(error).__name__}: {error}"[:400]
        return evidence
    evidence.values["kind"] = type(found).__name__
    results = [found] if isinstance(found, torch.Tensor) else found if isinstance(found, (tuple, list)) else []
    if all(isinstance(result, torch.Tensor) for result in results):
        evidence.tensors = {f"result{i}": result for i, result in enumerate(results)}
    return evidence


def show(case: Case, evidence: Evidence) -> list[Any]:
    """The graph in text, and what the learner's function came to."""
    graph_module, _ = build(case)
    shapes = [tuple(result.shape) for result in evidence.tensors.values()]
    return [f"{case.name}\n{graph_module.graph}\n\nyour results: {shapes or evidence.values['failed'] or 'no tensors'}"]
