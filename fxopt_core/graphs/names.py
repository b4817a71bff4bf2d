"""The name by which a node's operation is counted and drawn."""

from __future__ import annotations

from torch import fx

NO_OPERATION = ("placeholder", "get_attr", "output")
"""Kinds of node that compute nothing: inputs, stored values, and the result."""


def is_operation(node: fx.Node) -> bool:
    """Whether a node computes something."""
    return node.op not in NO_OPERATION


def operation_name(node: fx.Node) -> str:
    """What a node does, in one word.

    Returns:
        For a function its name (`relu`, `conv2d`, `mul`), for an ATen operator its full name (`aten.addmm.default`),
        for a method its name after `method:`, for a module the name of its class; for a node that computes nothing
        its kind (`placeholder`, `get_attr`, `output`).
    """
    if not is_operation(node):
        return str(node.op)
    if node.op == "call_method":
        return f"method:{node.target}"
    if node.op == "call_module":
        owner = node.graph.owning_module
        if owner is None:
            return str(node.target)
        return type(owner.get_submodule(str(node.target))).__name__
    # Operators of the dispatcher say their namespace and overload in `str`; plain functions say only their address.
    if type(node.target).__module__ == "torch._ops":
        return str(node.target)
    return str(getattr(node.target, "__name__", node.target))
