"""A second `GraphModule` over the same weights."""

from __future__ import annotations

from typing import TypeVar

from torch import fx, nn

Module = TypeVar("Module", bound=nn.Module)


def clone_graph_module(graph_module: fx.GraphModule, class_: type[fx.GraphModule] | None = None) -> fx.GraphModule:
    """A module with a graph of its own that shares parameters, buffers and submodules with the given one.

    Whatever is registered on the clone later, the original does not see. Generated code, signature (pytree codegen),
    hooks, training flags and node `meta` are kept.

    Args:
        graph_module: what to clone.
        class_: of the clone; by default that of the original.
    """
    clone: fx.GraphModule = shallow_copy(graph_module, class_)
    graph = _clone_graph(graph_module.graph)
    graph.owning_module = clone
    for old, new in zip(graph_module.graph.nodes, graph.nodes, strict=True):
        for name, value in vars(old).items():
            # Dynamo notes on placeholders where their values come from, and AOTAutograd asks for it.
            vars(new).setdefault(name, value)
    vars(clone)["_graph"] = graph
    clone.recompile()
    return clone


def shallow_copy(module: Module, class_: type[Module] | None = None) -> Module:
    """A module that holds the same tensors, submodules and settings. Whatever is registered on it later is its own.

    Args:
        module: what to copy.
        class_: of the copy; by default that of the original.
    """
    class_ = class_ or type(module)
    copied = class_.__new__(class_)
    for name, value in vars(module).items():
        vars(copied)[name] = value.copy() if isinstance(value, (dict, set)) else value
    return copied


def _clone_graph(original: fx.Graph) -> fx.Graph:
    """A graph with equal nodes. The code generator, which knows the signature, is shared: nobody changes it."""
    graph = fx.Graph(tracer_cls=original._tracer_cls)
    graph._codegen = original._codegen
    copies: dict[fx.Node, fx.Node] = {}
    for node in original.nodes:
        copies[node] = graph.node_copy(node, copies.__getitem__)
    return graph
