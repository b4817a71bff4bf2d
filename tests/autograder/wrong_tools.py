"""Capture and cost tools that a learner might hand in: wrong ones by what must be recognised, and right ones."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx, nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.flop_counter import flop_registry

from autograder.capstone.template.own_capture.my_capstone.with_known_shapes import plain_state
from autograder.capstone.template.own_cost.my_capstone.count_products import PRODUCTS, VIEWS, cost_of, memory

aten = torch.ops.aten

Inputs = tuple[Any, ...]


def traced(model: nn.Module) -> fx.GraphModule:
    try:
        return fx.symbolic_trace(model)
    except Exception as error:
        raise ValueError(f"it cannot be traced: {error}") from error


def records_one_run(model: nn.Module, inputs: Inputs) -> fx.GraphModule:
    """Whichever way the example goes."""
    return make_fx(copy.deepcopy(model))(*inputs)


def asks_nothing(model: nn.Module, inputs: Inputs) -> fx.GraphModule:
    """What was drawn while it traced is a constant."""
    return traced(copy.deepcopy(model))


def prints(model: nn.Module, inputs: Inputs) -> fx.GraphModule | None:
    """Tells people and no program."""
    try:
        return fx.symbolic_trace(copy.deepcopy(model))
    except Exception as error:
        print(f"sorry: {error}")
        return None


def evaluates(model: nn.Module, inputs: Inputs) -> fx.GraphModule:
    """Dropout is lost."""
    return traced(copy.deepcopy(model).eval())


def leaves_it_evaluating(model: nn.Module, inputs: Inputs) -> fx.GraphModule:
    """The caller's model."""
    return traced(model.eval())


def says_no(model: nn.Module, inputs: Inputs) -> fx.GraphModule:
    """And not why."""
    raise ValueError("no")


def returns_a_tuple(model: nn.Module, inputs: Inputs) -> fx.GraphModule:
    """The dictionary's keys are lost."""
    graph_module = traced(copy.deepcopy(model))
    (output,) = graph_module.graph.find_nodes(op="output")
    if isinstance(output.args[0], dict):
        output.args = (tuple(output.args[0].values()),)
    graph_module.recompile()
    return graph_module


def drops_what_nobody_reads(model: nn.Module, inputs: Inputs) -> fx.GraphModule:
    """A write, too."""
    graph_module = traced(copy.deepcopy(model))
    for node in reversed(list(graph_module.graph.nodes)):
        if node.op.startswith("call") and not node.users:
            graph_module.graph.erase_node(node)
    graph_module.recompile()
    return graph_module


def detaches(model: nn.Module, inputs: Inputs) -> fx.GraphModule:
    """The way back ends at the first layer."""
    graph_module = traced(copy.deepcopy(model))
    for node in graph_module.graph.find_nodes(op="call_module")[:1]:
        with graph_module.graph.inserting_after(node):
            new = graph_module.graph.call_method("detach", (node,))
        node.replace_all_uses_with(new, delete_user_cb=lambda user: user is not new)  # noqa: B023
    graph_module.recompile()
    return graph_module


def keeps_modules_whole(model: nn.Module, inputs: Inputs) -> fx.GraphModule:
    """One node, and all of the model's code behind it."""

    class Whole(fx.Tracer):
        def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
            return True

    outer = nn.Sequential(copy.deepcopy(model))
    return fx.GraphModule(outer, Whole().trace(outer))


WRONG_CAPTURES: dict[str, list[Callable[..., Any]]] = {
    "froze the example": [records_one_run],
    "changes draws": [asks_nothing, evaluates],
    "no graph": [prints],
    "model changed": [leaves_it_evaluating],
    "refuses without a reason": [says_no],
    "changes layout": [returns_a_tuple],
    "loses a write": [drops_what_nobody_reads],
    "changes gradients": [detaches],
    "graph cannot travel": [keeps_modules_whole],
}


def exports(model: nn.Module, inputs: Inputs) -> fx.GraphModule:
    """With `torch.export`, after a look at whether the model changes in Python when it is called."""
    probe = copy.deepcopy(model)
    before = _plain(probe)
    with torch.random.fork_rng(devices=[]):
        probe(*copy.deepcopy(inputs))
    if _plain(probe) != before:
        raise ValueError("the model changes attributes of its own when it is called")
    try:
        return torch.export.export(copy.deepcopy(model), inputs).module()
    except Exception as error:
        raise ValueError(f"it cannot be exported: {type(error).__name__}") from error


def _plain(model: nn.Module) -> dict[tuple[str, str], Any]:
    return {(name, key): value for name, key, *rest in _triples(model) for value in rest}


def _triples(model: nn.Module) -> list[tuple[Any, ...]]:
    return [found for found in plain_state(model) if len(found) == 3]


RIGHT_CAPTURES = [exports]

Costs = dict[str, Any]


def calls(graph_module: fx.GraphModule) -> list[fx.Node]:
    return [node for node in graph_module.graph.nodes if node.op.startswith("call")]


def altered(node: fx.Node, change: Callable[[fx.Node, int, int], tuple[int, int]]) -> tuple[int, int] | None:
    told = cost_of(node)
    return change(node, *told) if told and node.target in PRODUCTS else told


def one_a_multiply_add(graph_module: fx.GraphModule) -> Costs:
    return {node.name: altered(node, lambda _, flops, moved: (flops // 2, moved)) for node in calls(graph_module)}


def first_matrix_only(graph_module: fx.GraphModule) -> Costs:
    def change(node: fx.Node, flops: int, moved: int) -> tuple[int, int]:
        batched = node.target is aten.bmm.default
        return (flops // node.meta["val"].shape[0] if batched else flops), moved

    return {node.name: altered(node, change) for node in calls(graph_module)}


def four_bytes(graph_module: fx.GraphModule) -> Costs:
    def change(node: fx.Node, flops: int, moved: int) -> tuple[int, int]:
        return flops, moved * 4 // node.meta["val"].element_size()

    return {node.name: altered(node, change) for node in calls(graph_module)}


def views_move(graph_module: fx.GraphModule) -> Costs:
    return {
        node.name: (0, memory(node.meta["val"])) if node.target in VIEWS else cost_of(node)
        for node in calls(graph_module)
    }


def zero_for_the_rest(graph_module: fx.GraphModule) -> Costs:
    return {node.name: cost_of(node) or wide_cost(node) or (0, 0) for node in calls(graph_module)}


def leaves_out(graph_module: fx.GraphModule) -> Costs:
    return {node.name: told for node in calls(graph_module) if (told := cost_of(node))}


def one_total(graph_module: fx.GraphModule) -> Costs:
    return {"total": 1.5}


def all_input_channels(graph_module: fx.GraphModule) -> Costs:
    def told(node: fx.Node) -> tuple[int, int] | None:
        found = wide_cost(node)
        grouped = found and node.target is aten.convolution.default and not node.args[6]
        return (found[0] * node.args[8], found[1]) if found and grouped else found

    return {node.name: told(node) for node in calls(graph_module)}


def elements_as_flops(graph_module: fx.GraphModule) -> Costs:
    return {
        node.name: (node.meta["val"].numel(), wide[1]) if (wide := wide_cost(node)) and pointwise(node) else wide
        for node in calls(graph_module)
    }


def reads_the_table(graph_module: fx.GraphModule) -> Costs:
    return {
        node.name: (0, touched(node)) if node.target is aten.embedding.default else wide_cost(node)
        for node in calls(graph_module)
    }


WRONG_COSTS: dict[str, list[Callable[..., Any]]] = {
    "multiply-add is two": [one_a_multiply_add],
    "forgot the batch": [first_matrix_only],
    "assumed four bytes": [four_bytes],
    "view moves nothing": [views_move],
    "custom operator guessed": [zero_for_the_rest],
    "node left out": [leaves_out],
    "no figures": [one_total],
    "forgot the groups": [all_input_channels],
    "wrong FLOPs": [elements_as_flops],
    "wrong bytes": [reads_the_table],
}


def pointwise(node: fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and torch.Tag.pointwise in node.target.tags


def touched(node: fx.Node) -> int:
    return sum(memory(read.meta["val"]) for read in node.all_input_nodes) + memory(node.meta["val"])


def wide_cost(node: fx.Node) -> tuple[int, int] | None:
    """Products, convolutions, and what is computed element by element."""
    if node.target is operator.getitem:
        return 0, 0
    if node.target is aten.convolution.default:
        flops = flop_registry[aten.convolution](
            *fx.node.map_arg(node.args, lambda read: read.meta["val"]), out_val=node.meta["val"]
        )
        return int(flops), touched(node)
    return (0, touched(node)) if pointwise(node) else cost_of(node)


def elements_too(graph_module: fx.GraphModule) -> Costs:
    return {node.name: wide_cost(node) for node in calls(graph_module)}


class Counting(fx.Interpreter):
    """Another way: runs the graph on its examples and asks PyTorch's own table of formulas."""

    def __init__(self, graph_module: fx.GraphModule) -> None:
        super().__init__(graph_module)
        self.told: Costs = {}

    def run_node(self, n: fx.Node) -> Any:
        if n.op.startswith("call"):
            self.told[n.name] = None
            formula = flop_registry.get(getattr(n.target, "overloadpacket", None))
            if formula:
                args = fx.node.map_arg(n.args, lambda read: read.meta["val"])
                self.told[n.name] = (int(formula(*args, out_val=n.meta["val"])), touched(n))
        return n.meta.get("val")


def formulas_of_torch(graph_module: fx.GraphModule) -> Costs:
    counting = Counting(graph_module)
    for node in graph_module.graph.nodes:
        counting.run_node(node)
    return counting.told


RIGHT_COSTS = [elements_too, formulas_of_torch]
