"""The passes that one writes first. Each trap with a rewrite to be refused catches the one of its kind."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from torch import fx
from torch.utils._pytree import tree_leaves


def common_subexpressions(module: fx.GraphModule) -> None:
    """Whatever has an equal target and equal arguments is the same."""
    found: dict[Any, list[tuple[list[Any], fx.Node]]] = {}
    for node in list(module.graph.nodes):
        if not node.op.startswith("call"):
            continue
        target = module.get_submodule(node.target) if node.op == "call_module" else node.target
        arguments = tree_leaves((node.args, node.kwargs))
        alike = found.setdefault(target, [])
        earlier = next((other for known, other in alike if known == arguments), None)
        if earlier is None:
            alike.append((arguments, node))
        else:
            node.replace_all_uses_with(earlier)
            module.graph.erase_node(node)


def dead_code(module: fx.GraphModule) -> None:
    """Whatever has no users is dead."""
    for node in reversed(module.graph.nodes):
        if node.op.startswith("call") and not node.users:
            module.graph.erase_node(node)


def constant_folding(module: fx.GraphModule) -> None:
    """Whatever does not depend on an input is constant."""
    known: dict[fx.Node, Any] = {}
    for node in list(module.graph.nodes):
        if node.op == "get_attr":
            known[node] = attrgetter(node.target)(module)
        elif node.op.startswith("call") and all(source in known for source in node.all_input_nodes):
            args, kwargs = fx.node.map_arg((node.args, node.kwargs), known.__getitem__)
            if node.op == "call_function":
                known[node] = node.target(*args, **kwargs)
            elif node.op == "call_method":
                known[node] = getattr(args[0], node.target)(*args[1:], **kwargs)
            else:
                known[node] = module.get_submodule(node.target)(*args, **kwargs)
    for number, (node, value) in enumerate(known.items()):
        if node.op.startswith("call") and node.users and hasattr(value, "detach"):
            module.register_buffer(f"_naive{number}", value.detach(), persistent=False)
            with module.graph.inserting_before(node):
                node.replace_all_uses_with(module.graph.get_attr(f"_naive{number}"))
    for node in reversed(known):
        if not node.users:
            module.graph.erase_node(node)


NAIVE: dict[str, Callable[[fx.GraphModule], None]] = {
    "common_subexpressions": common_subexpressions,
    "dead_code": dead_code,
    "constant_folding": constant_folding,
}
"""Naive passes by the name of ours."""
