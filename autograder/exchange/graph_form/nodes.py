"""The nodes of a graph with those of the graphs within it: whoever counts or judges nodes comes here.

A graph may hold others: a `call_module` node calls one, a `get_attr` node hands one to a higher-order operator such as
`torch.cond`. Counted on the outside only, a whole program could hide in one.
"""

from __future__ import annotations

from collections.abc import Iterator

from torch import fx, nn


def all_nodes(graph: fx.GraphModule | fx.Graph) -> Iterator[fx.Node]:
    """Every node of a graph, in order, and behind the node that uses a graph within it that graph's nodes.

    A graph that is used several times comes once. A bare `fx.Graph` without a module has its own nodes only.
    """
    seen: set[int] = set()
    pending = [iter(_graph_of(graph).nodes)]
    while pending:
        node = next(pending[-1], None)
        if node is None:
            pending.pop()
            continue
        yield node
        inner = inner_graph(node)
        if inner is not None and id(inner) not in seen:
            seen.add(id(inner))
            pending.append(iter(inner.graph.nodes))


def own_nodes(graph: fx.GraphModule | fx.Graph) -> list[fx.Node]:
    """The nodes of the outermost graph alone: for reading inputs and outputs, and for changing a graph of one's own."""
    return list(_graph_of(graph).nodes)


def placeholders(graph: fx.GraphModule | fx.Graph) -> list[fx.Node]:
    """The nodes that stand for the arguments of the outermost graph."""
    return [node for node in own_nodes(graph) if node.op == "placeholder"]


def inner_graph(node: fx.Node) -> fx.GraphModule | None:
    """The graph that a node calls or hands on; `None` for any other node."""
    module = module_of(node) if node.op in ("call_module", "get_attr") else None
    return module if isinstance(module, fx.GraphModule) else None


def module_of(node: fx.Node) -> nn.Module | None:
    """The module that a `call_module` or `get_attr` node names, in the graph to which the node belongs."""
    found = node.graph.owning_module
    for part in str(node.target).split("."):
        found = getattr(found, part, None)
    return found if isinstance(found, nn.Module) else None


def has_inner_graphs(graph: fx.GraphModule) -> bool:
    """Whether any graph lies within this one."""
    return any(inner_graph(node) is not None for node in own_nodes(graph))


def _graph_of(graph: fx.GraphModule | fx.Graph) -> fx.Graph:
    return graph.graph if isinstance(graph, fx.GraphModule) else graph
