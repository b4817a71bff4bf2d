"""The name of what a node computes, and how often each occurs in a graph."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import torch
from torch import fx

from fxopt_core.graphs.examples import attribute_of

OPERATIONS = frozenset({"call_function", "call_method", "call_module"})
"""The kinds of node that compute something. Inputs, attributes and the output only hand values over."""

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def is_operation(node: fx.Node) -> bool:
    """Whether the node computes something, as opposed to handing a value in or out."""
    return node.op in OPERATIONS


def operation_name(node: fx.Node) -> str:
    """The name by which a node is counted and drawn, the same in every process.

    | node | name |
    |---|---|
    | `call_function` of `torch.conv2d` | `conv2d` |
    | `call_function` of `operator.add` | `add` |
    | `call_function` of an ATen overload | `aten.addmm.default` |
    | `call_method` of `view` | `method:view` |
    | `call_module` of an `nn.Conv2d` | `Conv2d` |
    | anything else | its kind: `placeholder`, `get_attr`, `output` |

    A `call_module` node whose graph has no owning module is named by its target, such as `layers.0`.
    """
    if node.op == "call_function":
        return _function_name(node.target)
    if node.op == "call_method":
        return f"method:{node.target}"
    if node.op == "call_module":
        return _module_name(node)
    return node.op


def _function_name(target: Any) -> str:
    if isinstance(target, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        return str(target)
    if isinstance(target, torch._ops.HigherOrderOperator):
        return str(target.name())
    name = getattr(target, "__name__", None)
    return name if isinstance(name, str) else _ADDRESS.sub("", repr(target))


def _module_name(node: fx.Node) -> str:
    module = attribute_of(node.graph.owning_module, node.target)
    return str(node.target) if module is None else type(module).__name__


def count_operations(graph_module: fx.GraphModule) -> Counter[str]:
    """How often each operation occurs in the graph, by `operation_name`.

    Graphs nested in it (the branches of a `torch.cond`) are not entered: the `cond` counts once.
    """
    return Counter(operation_name(node) for node in graph_module.graph.nodes if is_operation(node))
