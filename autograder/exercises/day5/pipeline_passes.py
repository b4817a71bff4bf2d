"""Passes over graphs of ATen operators for the pipeline to try. Each works in place; not all are right."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

aten = torch.ops.aten


class BrokenPassError(RuntimeError):
    """What the pass raises that fails halfway."""


class LostNodeError(LookupError):
    """What another pass raises, which looks for something that is not there."""


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


def _behind(graph_module: fx.GraphModule, *calls: tuple[Any, tuple[Any, ...]]) -> None:
    """Let the result go through calls, one after the other, before it is returned."""
    output = graph_module.graph.output_node()
    (value,) = output.all_input_nodes
    with graph_module.graph.inserting_before(output):
        node = value
        for function, more in calls:
            node = graph_module.graph.call_function(function, (node, *more))
    output.replace_input_with(value, node)
    graph_module.recompile()


def leave_alone(graph_module: fx.GraphModule) -> None:
    """Finds nothing to do. Right."""


def refuse(graph_module: fx.GraphModule) -> None:
    """Raises an error before it changes anything."""
    raise BrokenPassError("this pass is not for such a graph")


def double_weights(graph_module: fx.GraphModule) -> None:
    """Overwrites weights, and puts nothing right. Wrong."""
    for parameter in graph_module.parameters():
        parameter.data.mul_(2)


def break_after_writing(graph_module: fx.GraphModule) -> None:
    """Overwrites weights, and then raises an error."""
    double_weights(graph_module)
    raise BrokenPassError("halfway through")


def double_statistics(graph_module: fx.GraphModule) -> None:
    """Overwrites what normalisation layers have counted, and no parameter. Wrong where there are such layers."""
    for buffer in graph_module.buffers():
        buffer.data.mul_(2)


def lose_a_node(graph_module: fx.GraphModule) -> None:
    """Adds one, and then raises an error of another kind."""
    _behind(graph_module, (aten.add.Tensor, (1,)))
    raise LostNodeError("the node that this pass looks for is not in the graph")


def shift(graph_module: fx.GraphModule) -> None:
    """Adds a hundredth. Wrong, and no rounding."""
    _behind(graph_module, (aten.add.Tensor, (0.01,)))


def nudge(graph_module: fx.GraphModule) -> None:
    """Adds a hundred-thousandth, as another order of sums might. Right, up to 1e-4."""
    _behind(graph_module, (aten.add.Tensor, (1e-5,)))


def drift(graph_module: fx.GraphModule) -> None:
    """Adds less than 1e-4. Right once; what is added up by many such passes is not."""
    _behind(graph_module, (aten.add.Tensor, (6e-5,)))


def enlarge(graph_module: fx.GraphModule) -> None:
    """Makes every value larger by half of the tolerance. Right, though it adds more than 1e-4 to large values."""
    _behind(graph_module, (aten.mul.Tensor, (1 + 5e-5,)))


def enlarge_more(graph_module: fx.GraphModule) -> None:
    """Makes every value larger by more than the tolerance. Wrong where there are large values."""
    _behind(graph_module, (aten.mul.Tensor, (1 + 1.5e-4,)))


def add_little(graph_module: fx.GraphModule) -> None:
    """Adds a little more than 1e-4. Wrong where there are small values."""
    _behind(graph_module, (aten.add.Tensor, (1.5e-4,)))


def make_undefined(graph_module: fx.GraphModule) -> None:
    """Makes NaN of everything negative. Wrong."""
    _behind(graph_module, (aten.sqrt.default, ()), (aten.mul.Tensor, (1.0,)), (aten.pow.Tensor_Scalar, (2,)))


def wrap(graph_module: fx.GraphModule) -> None:
    """Puts a dimension before the others. Wrong, though every value is the same."""
    _behind(graph_module, (aten.unsqueeze.default, (0,)))


def freeze_batch(graph_module: fx.GraphModule) -> None:
    """Writes the example's batch into the graph, which then raises for others. Wrong."""
    _behind(graph_module, (aten.view.default, ([3, -1],)))


def _added(graph_module: fx.GraphModule, *calls: tuple[Any, tuple[Any, ...]]) -> None:
    """Add to the result what calls make of it, one after the other."""
    output = graph_module.graph.output_node()
    (value,) = output.all_input_nodes
    with graph_module.graph.inserting_before(output):
        node = value
        for function, more in calls:
            node = graph_module.graph.call_function(function, (node, *more))
        added = graph_module.graph.call_function(aten.add.Tensor, (value, node))
    output.replace_input_with(value, added)
    graph_module.recompile()


def lift(graph_module: fx.GraphModule) -> None:
    """Adds what the smallest value exceeds 2 by. Wrong, but only on inputs for which every value is larger than 2."""
    _added(graph_module, (aten.amin.default, ()), (aten.sub.Tensor, (2,)), (aten.relu.default, ()))


def scratch(graph_module: fx.GraphModule) -> None:
    """Adds less than a thousandth to the fourth value of the first row. Wrong, and the average error is small."""
    ones = (aten.mul.Tensor, (0.0,)), (aten.add.Tensor, (1.0,))
    _added(graph_module, *ones, (aten.triu.default, (3,)), (aten.tril.default, (3,)), (aten.mul.Tensor, (7e-4,)))


def cut_above(graph_module: fx.GraphModule) -> None:
    """Makes 0 of the first row's values but for the first three. Wrong, and every other row is right."""
    _behind(graph_module, (aten.tril.default, (2,)))


def cut_below(graph_module: fx.GraphModule) -> None:
    """Makes 0 of the third row's first value, and of more in each row below. Wrong, but right in two rows."""
    _behind(graph_module, (aten.triu.default, (-1,)))


def turn_rows(graph_module: fx.GraphModule) -> None:
    """Moves each row one place on, the last to the front. Wrong, and no sum tells it."""
    _behind(graph_module, (aten.roll.default, ([1], [0])))


def turn_columns(graph_module: fx.GraphModule) -> None:
    """Moves each column one place on, the last to the front. Wrong, and no row's sum tells it."""
    _behind(graph_module, (aten.roll.default, ([1], [1])))


def _divide_by(graph_module: fx.GraphModule, function: Any, limit: int) -> None:
    """Divide by the batch size, or by a limit that a function chooses instead."""
    for node in list(graph_module.graph.nodes):
        if node.target is aten.div.Tensor:
            with graph_module.graph.inserting_before(node):
                size = graph_module.graph.call_function(function, (node.args[1], limit))
            node.args = (node.args[0], size)
    graph_module.recompile()


def at_least_eight(graph_module: fx.GraphModule) -> None:
    """Divides by the batch size, or by 8 where that is more. Wrong, but not for batches of at least eight rows."""
    _divide_by(graph_module, torch.sym_max, 8)


def at_least_three(graph_module: fx.GraphModule) -> None:
    """Divides by the batch size, or by 3 where that is more. Wrong, but not for batches of at least three rows."""
    _divide_by(graph_module, torch.sym_max, 3)


def at_most_four(graph_module: fx.GraphModule) -> None:
    """Divides by the batch size, or by 4 where that is less. Wrong, but not for batches of at most four rows."""
    _divide_by(graph_module, torch.sym_min, 4)


def _write_first(graph_module: fx.GraphModule, function: Any) -> None:
    """Let a function that works in place have the input before anybody else reads it."""
    (given,) = graph_module.graph.find_nodes(op="placeholder")
    readers = list(given.users)
    with graph_module.graph.inserting_after(given):
        written = graph_module.graph.call_function(function, (given,))
    for reader in readers:
        reader.replace_input_with(given, written)
    graph_module.recompile()


def clamp_input(graph_module: fx.GraphModule) -> None:
    """Makes negative values of the input 0, in the tensor of whoever calls. Wrong, but not for what is left there."""
    _write_first(graph_module, aten.relu_.default)


def negate_input(graph_module: fx.GraphModule) -> None:
    """Turns the sign of the input, in the tensor of whoever calls. Wrong, and right at every second look."""
    _write_first(graph_module, aten.neg_.default)


def _additions_of_zero(graph_module: fx.GraphModule) -> list[fx.Node]:
    additions = graph_module.graph.find_nodes(op="call_function", target=aten.add.Tensor)
    return [node for node in additions if node.args[1] == 0]


def needs_no_zero(graph_module: fx.GraphModule) -> None:
    """Merges ReLUs, but raises an error while 0 is added anywhere. Right only behind another pass."""
    if _additions_of_zero(graph_module):
        raise BrokenPassError("this pass wants a graph without additions of 0")
    merge_relus(graph_module)


def assume_no_zero(graph_module: fx.GraphModule) -> None:
    """Makes 1 of each 0 that is added, as if there were none. Wrong while there is one."""
    for node in _additions_of_zero(graph_module):
        node.args = (node.args[0], 1)
    graph_module.recompile()


MORE_PASSES = {
    function.__name__: function
    for function in (
        *(leave_alone, refuse, double_weights, break_after_writing, shift, nudge, make_undefined, wrap, freeze_batch),
        *(at_least_eight, at_least_three, at_most_four, double_statistics, lose_a_node),
        *(lift, scratch, cut_above, cut_below, turn_rows, turn_columns),
        *(negate_input, needs_no_zero, assume_no_zero),
        *(enlarge, enlarge_more, add_little),
    )
}
MORE_PASSES |= {f"drift_{number}": drift for number in range(1, 7)}
MORE_PASSES |= {f"clamp_input_{number}": clamp_input for number in (1, 2)}
"""Further ones, of which the task says nothing."""

PASSES = {function.__name__: function for function in (drop_neutral, merge_relus, fold_scale, drop_abs, break_halfway)}
