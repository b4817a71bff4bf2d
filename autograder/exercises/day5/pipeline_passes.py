"""Passes over graphs of ATen operators for the pipeline to try. Each works in place; not all are right."""

from __future__ import annotations

import torch
from torch import fx

aten = torch.ops.aten


class BrokenPassError(RuntimeError):
    """What the pass raises that fails halfway."""


def _bypass(graph_module: fx.GraphModule, node: fx.Node) -> None:
    """Let all readers of a node read its first argument, and erase the node."""
    (read, *_) = node.all_input_nodes
    node.replace_all_uses_with(read)
    graph_module.graph.erase_node(node)


def drop_neutral(graph_module: fx.GraphModule) -> None:
    """Removes additions of 0, and dropout that is switched off. Right."""
    for node in list(graph_module.graph.nodes):
        adds_nothing = node.target is aten.add.Tensor and node.args[1] == 0
        if adds_nothing or (node.target is aten.dropout.default and node.args[2] is False):
            _bypass(graph_module, node)
    graph_module.recompile()


def merge_relus(graph_module: fx.GraphModule) -> None:
    """Removes a ReLU that reads a ReLU. Right."""
    for node in list(graph_module.graph.nodes):
        if node.target is aten.relu.default and node.args[0].target is aten.relu.default:
            _bypass(graph_module, node)
    graph_module.recompile()


def fold_scale(graph_module: fx.GraphModule) -> None:
    """Moves a factor behind a linear layer into its weights, which it overwrites. Right, up to rounding."""
    for node in list(graph_module.graph.nodes):
        if node.target is aten.mul.Tensor and node.args[0].target is aten.linear.default:
            for parameter in node.args[0].args[1:]:
                graph_module.get_parameter(parameter.target).data.mul_(node.args[1])
            _bypass(graph_module, node)
    graph_module.recompile()


def drop_abs(graph_module: fx.GraphModule) -> None:
    """Removes `abs`. Wrong: nobody notices as long as all values are positive."""
    for node in list(graph_module.graph.nodes):
        if node.target is aten.abs.default:
            _bypass(graph_module, node)
    graph_module.recompile()


def break_halfway(graph_module: fx.GraphModule) -> None:
    """Removes every `sin`, and then raises an error. Wrong twice."""
    for node in list(graph_module.graph.nodes):
        if node.target is aten.sin.default:
            _bypass(graph_module, node)
    graph_module.recompile()
    raise BrokenPassError("this pass did not expect such a graph")


PASSES = {function.__name__: function for function in (drop_neutral, merge_relus, fold_scale, drop_abs, break_halfway)}
