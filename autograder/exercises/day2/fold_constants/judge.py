"""What is constant is folded, and nothing else: the graph does the same, at every call and after a training step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

from torch import fx

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.graph_form import decode
from autograder.exchange.graph_form.nodes import all_nodes, own_nodes
from autograder.exchange.verdict import Agreement, Deviation
from autograder.exercises.composed import original_of
from autograder.exercises.day2.fold_constants.cases import composed, hidden_cases
from autograder.exercises.day2.fold_constants.oracle import (
    CLOSE,
    after_training,
    behind_a_switch,
    counted,
    differs,
    most,
    seen_of,
    shown_little,
    shown_much,
    stored,
    too_little,
    too_much,
    trained,
)
from autograder.exercises.graph_comparison import (
    COMMON,
    behaviour,
    changed_modules,
    first_difference,
    stale,
    unusable,
)
from fxopt_core.graphs import operation_name

__all__ = ["MISCONCEPTIONS", "UNNAMED", "composed", "hidden_cases", "judge"]

MISCONCEPTIONS = COMMON | {
    "froze a draw": (
        "You folded a random draw: it now gives the same numbers at every call, and the random stream no longer moves."
    ),
    "folded a written buffer": (
        "You folded a value that is computed from a buffer which the graph itself writes: at the next call the buffer "
        "holds something else."
    ),
    "folded in training mode": (
        "You folded a parameter of a module in training: the optimiser will change it, and your constant will not "
        "know. One that is frozen today may be trained tomorrow."
    ),
    "returned the constant itself": (
        "You fold a value that is returned: the caller gets the stored tensor itself, and what the caller writes into "
        "it stands in all later results."
    ),
    "folded what is written": (
        "You folded a value into which the graph writes afterwards: it now writes into the stored constant, and each "
        "call starts where the last one ended."
    ),
    "lost an argument": "Your constant was computed with other arguments than the node has, keywords included.",
    "overwrote a buffer": (
        "You stored a constant under a name that the model has already given to a buffer of its own, and that buffer "
        "is gone, without an error. Take a name that is free: go on while `hasattr(graph_module, name)`."
    ),
    "one name for two constants": "Two constants were stored under one name: the second has replaced the first.",
    "spared parameters": "In evaluation parameters do not change either: what depends on them alone can be folded.",
    "spared modules": "A module in evaluation that reads constants alone gives a constant: fold it, too.",
    "spared buffers": (
        "In training parameters change, but buffers do not, unless the graph writes them: what depends on buffers "
        "alone can be folded there, too."
    ),
    "stored a parameter": (
        "You stored a constant as a parameter: the optimiser would train it. Use `register_buffer`."
    ),
    "stored no buffer": (
        "You stored a constant as a plain attribute: it neither moves with the module to another device nor is it "
        "saved. Use `register_buffer`."
    ),
    "kept the gradients": (
        "A constant that you stored still requires gradients: compute constants under `torch.no_grad()`, and store "
        "`value.detach()`. An operation may return a parameter as it came: `w.contiguous()` often is `w` itself."
    ),
    "stored an inference tensor": (
        "You computed a constant under `torch.inference_mode()`: such a tensor can take no part in a backward pass, "
        "and whoever trains what comes after it gets an error. `torch.no_grad()` is enough."
    ),
    "folded an effect": (
        "You folded something that has an effect besides its value, an assertion say: it must happen at every call."
    ),
    "folded across a switch": (
        "You folded an operation that comes after a switch of the mode (gradients, autocast). Leave all that comes "
        "after one, also once the mode is switched back: in another mode the same operation may have another dtype."
    ),
    "folded too little": "An operation is left that reads nothing but constants, and could be computed beforehand.",
    "stopped halfway": (
        "An operation is left that reads nothing but constants: what was folded is a constant to its readers."
    ),
    "something else": "The folded graph computes something else than the original.",
}

UNNAMED = ("something else", "folded too little")


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str] | Deviation | Agreement]:
    """What must not have been folded, then what should have been, then how constants are stored."""
    if problem := unusable(evidence):
        yield problem
        return
    original, theirs = original_of(case), decode(evidence.graphs["graph"])
    size, found_there = len(own_nodes(original.graph_module)), counted(theirs)
    acting = {node: seen for node, seen in seen_of(case).items() if seen.acts}
    if missing := Counter((node.op, node.target) for node in acting) - found_there:
        kinds = {seen.kind for node, seen in acting.items() if (node.op, node.target) in missing}
        gone = ", ".join(operation_name(node) for node in acting if (node.op, node.target) in missing)
        yield ("froze a draw" if kinds == {"draw"} else "folded an effect"), f"(expected to stay: {gone})"
        return
    if evidence.values.get("overwritten"):
        yield "overwrote a buffer", f"({evidence.values['overwritten']})"
        return
    after = trained(theirs)
    found = behaviour(theirs, original.calls)
    if different := differs(original.behaviour, found):
        new = [str(node.target) for node in all_nodes(theirs) if node.op == "get_attr"]
        new = [name for name in new if name not in dict(original.graph_module.named_buffers(remove_duplicate=False))]
        new = [name for name in new if name not in dict(original.graph_module.named_parameters())]
        if len(new) > 1 and len(set(new)) == 1 and stored(case) > 1:
            yield "one name for two constants", f"({new[0]}, {different})"
            return
        fits = tuple(name for name, seen in too_much(case).items() if not differs(seen, found))
        yield Deviation("something else", fits, f"({different})", size)
        return
    if case.parameters["training"] and (
        different := first_difference(after_training(case), _trained_there(case, after), **CLOSE)
    ):
        yield "folded in training mode", f"(after a training step {different})"
        return
    yield Agreement("something else", partial(shown_much, case))
    if folded := behind_a_switch(case) - found_there:
        names = sorted(getattr(target, "__name__", str(target)) for _, target in folded)
        yield "folded across a switch", f"(expected to stay: {', '.join(names)})"
        return
    left = found_there.total()
    if left > most(case).total():
        fits = tuple(name for name, other in too_little(case).items() if other == found_there)
        figures = f"({left} operations left, {most(case).total()} are needed)"
        yield Deviation("folded too little", fits, figures, size)
        return
    yield Agreement("folded too little", partial(shown_little, case))
    if problem := next(_storing(evidence, original.graph_module, theirs), None) or stale(evidence, theirs):
        yield problem


def _trained_there(case: Case, theirs: fx.GraphModule) -> dict[str, Any]:
    calls = original_of(case).calls
    return behaviour(theirs, type(calls)(calls.inputs[:1]))


def _storing(evidence: Evidence, original: fx.GraphModule, theirs: fx.GraphModule) -> Iterator[tuple[str, str]]:
    """What is wrong with the way in which constants are stored."""
    if changed := changed_modules(original, theirs):
        yield ("stored a parameter" if changed.kind == "parameters" else "changed the model"), f"({changed})"
        return
    known = {str(node.target) for node in all_nodes(original) if node.op == "get_attr"}
    buffers = dict(theirs.named_buffers(remove_duplicate=False))
    new = {str(node.target) for node in all_nodes(theirs) if node.op == "get_attr"} - known
    parameters = dict(theirs.named_parameters(remove_duplicate=False))
    if plain := new - set(buffers) - set(parameters):
        yield "stored no buffer", f"({', '.join(sorted(plain))})"
    elif kept := evidence.values.get("in autograd"):
        yield "kept the gradients", f"({', '.join(map(str, kept))})"
    elif inference := evidence.values.get("inference"):
        yield "stored an inference tensor", f"({', '.join(map(str, inference))})"
