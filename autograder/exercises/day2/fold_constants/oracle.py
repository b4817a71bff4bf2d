"""What is constant in a case's graph, found by running it, and what mistaken answers would fold."""

from __future__ import annotations

import copy
import operator
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import fx, nn

from autograder.exchange.evidence import Case
from autograder.exchange.graph_form.nodes import all_nodes
from autograder.exercises.composed import once_a_case, original_of
from autograder.exercises.day2.programs import inputs_of
from autograder.exercises.explaining import OnDemand
from autograder.exercises.graph_comparison import (
    first_difference,
    own_behaviour,
)
from autograder.exercises.seen_effects import Seen, seen_effects
from fxopt_core.graphs import is_operation

BY_TRAP = {
    "written buffer": "folded a written buffer",
    "training": "folded in training mode",
    "returned": "returned the constant itself",
    "written result": "folded what is written",
    "two": "lost an argument",
    "switch": "folded across a switch",
}
"""Which mistake a case is there for: where the case is right, the mistake is not made."""

CLOSE = {"relative": 1e-5, "absolute": 1e-6}
"""How far the folded graph may be off: a product with a constant of other strides is summed in another order."""

WRONG = tuple(BY_TRAP.values())
"""Mistakes that fold too much, or something else."""

TOO_LITTLE = ("spared parameters", "spared modules", "spared buffers", "stopped halfway")
"""Mistakes that fold too little."""


def trained(graph_module: fx.GraphModule) -> fx.GraphModule:
    """A copy after what might be a training step: every parameter that is still there has another value."""
    copied = copy.deepcopy(graph_module)
    with torch.no_grad():
        for parameter in copied.parameters():
            parameter.add_(0.5)
    return copied


@once_a_case
def seen_of(case: Case) -> dict[fx.Node, Seen]:
    """What each node of the case's graph does besides computing."""
    return seen_effects(original_of(case).graph_module, inputs_of(case, 11))


def constants(case: Case, *mistakes: str) -> dict[fx.Node, Any]:
    """The nodes whose value never changes, with their values, where these mistakes are made."""
    graph_module, seen = copy.deepcopy(original_of(case).graph_module), list(seen_of(case).values())
    nodes = list(graph_module.graph.nodes)
    does = dict(zip(nodes, seen, strict=True))
    held = frozenset(tensor.untyped_storage()._cdata for tensor in _state(original_of(case).graph_module))
    inputs = frozenset(place for node in nodes if node.op == "placeholder" for place in does[node].value)
    written = frozenset(place for node in nodes for place in does[node].wrote)
    # Seen on a copy: which of its storages are attributes say the nodes that read them.
    attributes = held | {place for node in nodes if node.op == "get_attr" for place in does[node].value}
    if written & inputs or any(does[node].unknown for node in nodes):
        written |= attributes
    returned = _handed_on(nodes, does)
    found: dict[fx.Node, Any] = {}
    interpreter = fx.Interpreter(graph_module, garbage_collect_values=False)
    for node in nodes:
        effects = does[node]
        if (effects.switched or effects.unknown) and "folded across a switch" not in mistakes:
            break
        if _is_constant(node, effects, written, returned, found, graph_module, mistakes):
            interpreter.env = dict(found)
            with torch.no_grad():
                try:
                    value = _without_keywords(node, found) if _loses(node, mistakes) else interpreter.run_node(node)
                except Exception:  # without its keywords this call cannot be made
                    value = interpreter.run_node(node)
                found[node] = value
    originals = dict(zip(nodes, original_of(case).graph_module.graph.nodes, strict=True))
    return {originals[node]: value for node, value in found.items()}


_JOINS = (operator.add, operator.mul, operator.iadd, operator.getitem)
_GIVE_BACK = frozenset(
    getattr(nn.functional, name)
    for name in ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")
)
"""What returns its argument itself in another mode, as modules of these names do. Who goes by the name is careful."""

_MAY_BE_VIEWS = frozenset({"to", "reshape", "contiguous", "flatten", "float", "double", "type"})


def _handed_on(nodes: list[fx.Node], does: dict[fx.Node, Seen]) -> set[fx.Node]:
    """The nodes whose memory the caller may get, as careful as who knows no shapes: `a + b` might join two lists."""
    found: set[fx.Node] = set()
    pending = list(nodes[-1].all_input_nodes)
    while pending:
        node = pending.pop()
        if node not in found:
            found.add(node)
            careful = node.target in (*_JOINS, *_MAY_BE_VIEWS, *_GIVE_BACK) or _is_dropout(node)
            pending += [source for source in node.all_input_nodes if careful or does[source].value & does[node].value]
    return found


def _is_dropout(node: fx.Node) -> bool:
    module = node.graph.owning_module
    if node.op != "call_module" or module is None:
        return False
    return isinstance(module.get_submodule(str(node.target)), nn.modules.dropout._DropoutNd)


def _loses(node: fx.Node, mistakes: tuple[str, ...]) -> bool:
    return "lost an argument" in mistakes and node.op in ("call_function", "call_method") and bool(node.kwargs)


def _without_keywords(node: fx.Node, found: dict[fx.Node, Any]) -> Any:
    first, *others = fx.node.map_arg(node.args, found.__getitem__) or (None,)
    if isinstance(node.target, str):
        return getattr(first, node.target)(*others)
    return node.target(first, *others)


def _is_constant(
    node: fx.Node,
    effects: Seen,
    written: frozenset[int],
    returned: set[fx.Node],
    found: dict[fx.Node, Any],
    graph_module: fx.GraphModule,
    mistakes: tuple[str, ...],
) -> bool:
    training = graph_module.training and "folded in training mode" not in mistakes
    rule = "folded a written buffer" if node.op == "get_attr" else "folded what is written"
    if effects.value & written and rule not in mistakes:
        return False
    if node in returned and "returned the constant itself" not in mistakes:
        return False
    if node.op == "get_attr":
        parameter = isinstance(fx.Interpreter(graph_module).fetch_attr(str(node.target)), nn.Parameter)
        spared = (parameter and "spared parameters" in mistakes) or (
            graph_module.training and "spared buffers" in mistakes
        )
        return not spared and not (training and parameter)
    if not node.op.startswith("call") or not node.all_input_nodes or effects.acts:
        return False
    if node.op == "call_module" and (training or "spared modules" in mistakes):
        return False
    if "stopped halfway" in mistakes and any(source.op != "get_attr" for source in node.all_input_nodes):
        return False
    return all(source in found for source in node.all_input_nodes)


def _state(graph_module: fx.GraphModule) -> list[torch.Tensor]:
    return [*graph_module.parameters(), *graph_module.buffers()]


def solved(case: Case, *mistakes: str) -> fx.GraphModule:
    """The case's graph, folded by the judge, with these mistakes."""
    known = constants(case, *mistakes)
    copied = copy.deepcopy(original_of(case).graph_module)
    twins = dict(zip(original_of(case).graph_module.graph.nodes, copied.graph.nodes, strict=True))
    for number, (node, value) in enumerate(known.items()):
        if node.op == "get_attr" or not isinstance(value, torch.Tensor):
            continue
        name = f"folded_{number}_by_the_judge"
        copied.register_buffer(name, value.detach())
        with copied.graph.inserting_before(twins[node]):
            twins[node].replace_all_uses_with(copied.graph.get_attr(name))
    for node in reversed([twins[node] for node in known]):
        if not node.users:
            copied.graph.erase_node(node)
    copied.graph.lint()
    copied.recompile()
    return copied


Counted = Counter[tuple[str, Any]]


def counted(graph_module: fx.GraphModule) -> Counted:
    """How often the graph does each thing."""
    return Counter((node.op, node.target) for node in all_nodes(graph_module) if is_operation(node))


def left_of(case: Case, *mistakes: str) -> Counted:
    """What a folding leaves that folds every tensor, and nothing that is computed from sizes and other values."""
    known = constants(case, *mistakes)
    plain: set[fx.Node] = set()
    for node, value in known.items():
        if isinstance(value, torch.Tensor) and all(source in plain for source in node.all_input_nodes):
            plain.add(node)
    nodes = original_of(case).graph_module.graph.nodes
    return Counter((node.op, node.target) for node in nodes if is_operation(node) and node not in plain)


@once_a_case
def most(case: Case) -> Counted:
    """What a careful folding leaves."""
    return left_of(case)


@once_a_case
def behind_a_switch(case: Case) -> Counted:
    """What must stay because it comes after a switch of the mode."""
    nodes = list(seen_of(case))
    first = next((i for i, node in enumerate(nodes) if seen_of(case)[node].switched), len(nodes))
    return Counter((node.op, node.target) for node in nodes[first:] if is_operation(node) and node.all_input_nodes)


@once_a_case
def too_little(case: Case) -> Mapping[str, Counted]:
    """What is left by the mistakes that fold too little."""
    return OnDemand(TOO_LITTLE, lambda name: left_of(case, name))


def shown_little(case: Case, names: Collection[str]) -> list[str]:
    """Which of some mistakes that fold too little leave more than needed."""
    return [name for name in names if too_little(case)[name] != most(case)]


@once_a_case
def stored(case: Case) -> int:
    """How many constants are read in the end."""
    return sum("by_the_judge" in str(node.target) for node in solved(case).graph.nodes)


def _trained(case: Case, graph_module: fx.GraphModule) -> dict[str, Any]:
    calls = original_of(case).calls
    return own_behaviour(trained(graph_module), type(calls)(calls.inputs[:1]))


@once_a_case
def after_training(case: Case) -> dict[str, Any]:
    """What a caller sees of the case's graph after a training step."""
    return _trained(case, original_of(case).graph_module)


@once_a_case
def too_much(case: Case) -> dict[str, dict[str, Any]]:
    """What a caller sees of what the other mistakes make, where it is something else."""
    original = original_of(case)
    seen = {name: own_behaviour(solved(case, name), original.calls) for name in WRONG}
    for found in seen.values():
        for call in found["calls"]:
            # How an answer calls its constants is its own affair, written or not.
            call["state"] = {name: value for name, value in call["state"].items() if "by_the_judge" not in name}
    return {name: found for name, found in seen.items() if differs(original.behaviour, found)}


@once_a_case
def _shows(case: Case) -> bool:
    """Whether the mistake that the case is there for makes a difference in it."""
    right, made = original_of(case), solved(case, BY_TRAP[case.parameters["trap"]])
    return bool(differs(right.behaviour, own_behaviour(made, right.calls)))


def shown_much(case: Case, names: Collection[str]) -> list[str]:
    """Which of some mistakes is the one that the case is there for, if it makes a difference in it."""
    return [name for name in names if name == BY_TRAP.get(case.parameters["trap"]) and _shows(case)]


def differs(wanted: dict[str, Any], found: dict[str, Any]) -> Any:
    """The first difference; gradients count with respect to inputs: parameters in evaluation need none."""
    return first_difference(_of_inputs(wanted), _of_inputs(found), **CLOSE)


def _of_inputs(seen: dict[str, Any]) -> dict[str, Any]:
    gradients = seen["gradients"]
    if "gradients" in gradients:
        of_inputs = {name: value for name, value in gradients["gradients"].items() if name.startswith("input ")}
        gradients = {"trained": [], "gradients": of_inputs}
    return seen | {"gradients": gradients}
