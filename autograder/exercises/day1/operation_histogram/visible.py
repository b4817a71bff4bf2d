"""The learner's side: graphs with nodes of every kind, the visible cases, the probe and what the check shows."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from numbers import Integral
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
    "relu_": torch.relu_,
    "iadd": operator.iadd,
    "getitem": operator.getitem,
    "add.Tensor": torch.ops.aten.add.Tensor,
    "_shape_as_tensor": torch._shape_as_tensor,
}
OF_TWO = ("iadd", "getitem", "add.Tensor")
METHODS = ("abs", "exp", "sigmoid", "relu", "add_", "relu_", "getitem")


class Blocks:
    """Where a layer is defined, which its whole name would tell."""

    class Gate(nn.Module):
        """A layer that prints itself under another name than its class has."""

        def _get_name(self) -> str:
            return "Valve"

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            """Any shape to the same."""
            return torch.sigmoid(x)


MODULES: dict[str, type[nn.Module]] = {
    "ReLU": nn.ReLU,
    "Hardtanh": nn.Hardtanh,
    "ReLU6": nn.ReLU6,
    "Tanh": nn.Tanh,
    "Gate": Blocks.Gate,
}


def inner_graph() -> fx.GraphModule:
    """A layer that is a graph itself, of one operation."""
    graph = fx.Graph()
    graph.output(graph.call_function(torch.neg, (graph.placeholder("x"),)))
    return fx.GraphModule(nn.Module(), graph)


LAYERS: dict[str, Callable[[], nn.Module]] = {**MODULES, "GraphModule": inner_graph}
"""What a step may call, by the name of its class."""


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
        Case(
            "one module called twice, a write that nobody reads, a name that misleads",
            {"graphs": [["module Tanh", "same", "unread method add_", "function tanh as relu", "same", "method add_"]]},
        ),
    ]


def build(case: Case) -> list[fx.GraphModule]:
    """The case's graphs: chains of nodes, each reading the one before.

    `weight` adds a stored tensor (`get_attr`), `same` calls the last module once more, `twin` does under another path,
    `top` puts a module under a path of one name, `unread` makes a call whose value nobody reads, and `as` gives a node
    another name. A graph of the one step `again` is the very graph before it.
    """
    graphs: list[fx.GraphModule] = []
    for steps in case.parameters["graphs"]:
        graphs.append(graphs[-1] if steps == ["again"] else build_graph(steps))
    return graphs


def build_graph(steps: list[str]) -> fx.GraphModule:
    """One chain of nodes."""
    root, graph = nn.Module(), fx.Graph()
    root.weight = nn.Parameter(torch.full((3,), 0.5))
    root.blocks = nn.ModuleList()
    value = graph.placeholder("x")
    for step in steps:
        unread = step.startswith("unread ")
        kind, _, rest = step.removeprefix("unread ").partition(" ")
        name, _, called = rest.partition(" as ")
        if kind == "function":
            arguments = (value, value) if name in OF_TWO else (value,)
            new = graph.create_node("call_function", FUNCTIONS[name], arguments, name=called or None)
        elif kind == "method":
            new = graph.create_node("call_method", name, (value, 1) if unread else (value,), name=called or None)
        elif kind == "top":
            setattr(root, f"top_{name}", LAYERS[name]())
            new = graph.call_module(f"top_{name}", (value,))
        elif kind == "module":
            root.blocks.append(nn.Sequential(LAYERS[name]()))
            new = graph.call_module(f"blocks.{len(root.blocks) - 1}.0", (value,))
        elif kind in ("same", "twin"):
            if kind == "twin":
                root.blocks.append(root.blocks[-1])
            new = graph.call_module(f"blocks.{len(root.blocks) - 1}.0", (value,))
        else:
            new = graph.call_function(operator.add, (value, graph.get_attr("weight")))
        value = value if unread else new
    graph.output(value)
    return fx.GraphModule(root, graph)


def probe(case: Case, operation_histogram: Any) -> Evidence:
    """Ask for the histogram of all graphs, see whether they are as before, then change the first one and ask again."""
    given = build(case)
    graphs = list(given)
    before = [state_of(graph) for graph in graphs]
    found = operation_histogram(given)
    values = {
        "kind": "mapping" if isinstance(found, Mapping) else type(found).__name__,
        "counts": [],
        "again": [],
        "list left": len(given) == len(graphs) and all(map(operator.is_, given, graphs)),
        "graphs left": [state_of(graph) for graph in graphs] == before,
    }
    if isinstance(found, Mapping):
        values["counts"] = pairs_of(found)
        if graphs:
            one_less(graphs[0])
        again = operation_histogram(list(graphs))
        values["again"] = pairs_of(again) if isinstance(again, Mapping) else []
        values["counts left"] = pairs_of(found) == values["counts"]
    return Evidence(values)


def one_less(graph_module: fx.GraphModule) -> None:
    """Take the last operation out: what somebody may do who counts before and after a change.

    Whoever counted rightly for a wrong reason does so afterwards, too; only what is remembered shows.
    """
    graph, output = graph_module.graph, graph_module.graph.output_node()
    for node in reversed(graph.nodes):
        if node.op.startswith("call_") and set(node.users) <= {output}:
            output.replace_input_with(node, node.all_input_nodes[0])
            graph.erase_node(node)
            break
    graph_module.recompile()


def pairs_of(found: Mapping[Any, Any]) -> list[list[Any]]:
    """Each name with its count; without one that is no whole number."""
    whole = {name: isinstance(count, Integral) and not isinstance(count, bool) for name, count in found.items()}
    return [[str(name), int(count) if whole[name] else None] for name, count in found.items()]


def state_of(graph_module: fx.GraphModule) -> list[Any]:
    """The nodes of a graph, with what each reads and what is noted with it, and the modules with their modes."""
    nodes = [
        f"{node.op} {node.name} {node.target} {node.args} {node.kwargs} {node.type} {sorted(node.meta)}"
        for node in graph_module.graph.nodes
    ]
    return [nodes, [(path, module.training) for path, module in graph_module.named_modules(remove_duplicate=False)]]


def show(case: Case, evidence: Evidence) -> list[Any]:
    """The learner's histogram as a bar chart in text."""
    lines = [f"{case.name}: your histogram"]
    counts = [(name, count) for name, count in evidence.values["counts"] if count]
    width = max((len(name) for name, _ in counts), default=0)
    lines += [f"  {name:{width}} {'█' * min(count, 40)} {count}" for name, count in counts]
    return ["\n".join(lines)]
