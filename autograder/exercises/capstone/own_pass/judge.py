"""The judge: is every graph that comes back the same program, and what does it save? Believes no figure that comes."""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Iterator
from typing import Any

import torch
from torch import fx
from torch.nn.modules.batchnorm import _BatchNorm

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.graph_form import ask, decode
from autograder.exchange.graph_form.nodes import all_nodes, has_inner_graphs, module_of
from autograder.exchange.graph_form.parcels import as_sent
from autograder.exercises.capstone.own_pass.figures import Figures, counted, gain, left_over, timed
from autograder.exercises.capstone.own_pass.places import courses_places, places
from autograder.exercises.capstone.own_pass.planting import planted
from autograder.exercises.capstone.own_pass.programs import (
    VISIBLE_SEED,
    encoded,
    inputs_of,
    is_the_program,
    model_cases,
    planted_case,
    random_cases,
    trap_of,
)
from autograder.traps.oracle import differences

MOST_TOLERANCE = 1e-4
"""The largest error, as a share of the largest magnitude, that a capstone may ask for."""

REGISTERS_NOTHING = (
    "Your package registers nothing that a capstone may be. Its pyproject.toml needs one of the tables "
    '`[project.entry-points."fxopt.passes"]`, `"fxopt.captures"` and `"fxopt.costs"`, with a line '
    '`name = "package.module:what"`, as in the template.'
)

MISCONCEPTIONS = {
    "registers nothing": REGISTERS_NOTHING,
    "asks for too much": (
        "Your pass states a tolerance above 1e-4 of the largest magnitude. Errors as large as that hide real mistakes: "
        "make the rewrite more exact, or refuse where it cannot be."
    ),
    "graph cannot travel": (
        "Your pass leaves something in a graph that is not plain data: a Python function of your own, or a module of "
        "your own class. Build replacements out of functions and modules of torch."
    ),
    "graph within a graph": (
        "Your pass leaves a graph within the graph (a `call_module` of a `GraphModule`, say), where nobody counts what "
        "is computed. Put the operations into the graph itself."
    ),
    "malformed": "The graph that your pass leaves is malformed: call `graph.lint()` after each rewrite while you test.",
    "not idempotent": (
        "Run on its own result, your pass changes the graph once more. After one run nothing must be left to do."
    ),
    "untrue report": (
        "What your pass says of itself is not true: it reports a change where the graph is as it was, or none where it "
        "is another. Make every change through the editor, within `transform`."
    ),
    "does not run": "A graph that ran before your pass raises an error after it, or no longer raises where it did.",
    "hard-codes a shape": (
        "With a batch of another size a graph raises an error or computes something else after your pass: a number of "
        "the example's shape stands in it. At torch level a graph serves every batch size; take sizes from the tensor."
    ),
    "folds in training mode": (
        "Your pass takes a batch normalisation away that is in training mode. There it takes its figures from the "
        "batch and notes them for later; the figures that you fold are those of evaluation. Refuse where "
        "`module.training` is true."
    ),
    "changes draws": (
        "After your pass a program draws other random numbers. Two calls of dropout or rand look alike and are not: "
        "never merge, move or drop what draws. Ask `effects_of(node)`."
    ),
    "changes sharing": (
        "After your pass, outputs share memory with other tensors than before, so that a caller who writes to one "
        "changes another. Ask `editor.storages` what a node shares before you take it for another value."
    ),
    "loses a write": (
        "After your pass an input, a parameter or a buffer is left with other content. In-place operations count even "
        "where nobody reads their result, and what is read before a write is not what is read after it."
    ),
    "changes gradients": (
        "The results are right, and the gradients are not. Either keep the way back to inputs and parameters, or state "
        "`keeps_gradients = False` if it is only the parameters that get none."
    ),
    "changes layout": (
        "After your pass a result has another dtype, shape, stride or type, or another place in autograd. Callers see "
        "all of these: check the example values of what you match, and refuse where they differ."
    ),
    "changes values": (
        "After your pass a program computes other values: the rewrite is not legal everywhere that your pattern "
        "matches. Look at operators with other arguments, at dtypes, at NaN and -0.0, and at values that others read."
    ),
    "planted write": (
        "Your pass rewrites a model rightly, and goes on rewriting it when something is written in place between the "
        "nodes that it takes. Refuse there: `editor.timeline.version(value, node)` tells whether two nodes see the "
        "same content of a value."
    ),
    "planted switch": (
        "Your pass rewrites a model rightly, and goes on rewriting it when a mode is switched between the nodes that "
        "it takes. Refuse there: `editor.timeline.mode(node)` has to be the same for all of them."
    ),
    "planted reader": (
        "Your pass rewrites a model rightly, and goes wrong when somebody else also gets a value that it takes away or "
        "replaces. Refuse where a value in between has other users, or is returned: `node.users`, "
        "`editor.storages.escapes(node)`."
    ),
    "planted strides": (
        "Your pass rewrites a model rightly, and leaves a value with other strides where somebody reads memory by its "
        "strides (`as_strided`, or a `view` that raises). Keep the layout, or refuse where you do not know all readers."
    ),
    "planted dtype": (
        "Your pass rewrites a model rightly in float32, and goes on rewriting the same nodes in a dtype in which the "
        "result differs by more than you state: in half precision each step is rounded, and integers are no fractions. "
        "Ask the example value for its dtype, and refuse where you have not shown that it is right."
    ),
    "planted layout": (
        "Your pass rewrites a model rightly where values lie in memory row by row, and goes wrong where they lie "
        "otherwise: transposed, with steps, or expanded. What comes out has to lie as it did before."
    ),
    "planted alias": (
        "Your pass rewrites a model rightly, and goes wrong when two of the values that it reads are one tensor."
    ),
}

HALVES = (torch.float16, torch.bfloat16)

MOST_PLANTS = 30
"""How many plants there are at most for one model."""

KINDS = (
    ("does not run", ("raised",)),
    ("changes draws", ("random stream",)),
    ("changes gradients", ("gradient of", "results in autograd", "backward raised")),
    ("changes layout", ("dtype, shape, stride", "structure", ": torch.")),
    ("changes sharing", ("sharing:", "same object", "writing to output")),
    ("loses a write", (": input ", ": state ")),
    ("changes values", (": output ",)),
    ("changes sharing", ("after the caller wrote",)),
)
"""Which words of the oracle mean which misconception, the most telling first."""


def hidden_cases(source: Any) -> list[Case]:
    """Random programs and models that nobody has seen. (The traps are all known.)"""
    seed = f"{source.getrandbits(64):x}"
    return [*model_cases(seed), *random_cases(seed)]


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str] | dict[str, Any]]:
    """What is wrong with the graph that came back; figures of what changed and what was gained."""
    values = evidence.values
    if not values.get("passes"):
        yield "registers nothing", ""
        return
    tolerance, keeps_gradients = float(values["tolerance"]), values["keeps_gradients"] is True
    if not 0.0 <= tolerance <= MOST_TOLERANCE:
        yield "asks for too much", f"a tolerance of {tolerance:g}"
        return
    if "cannot travel" in values:
        yield "graph cannot travel", str(values["cannot travel"])
        return
    if is_the_program(case, evidence.graphs["after"]):
        yield from _left_alone(case, evidence)
        return
    original = decode(encoded(case), ours=True)
    after, again = (decode(evidence.graphs[name]) for name in ("after", "again"))
    if has_inner_graphs(after) and not has_inner_graphs(original):
        yield "graph within a graph", f"({case.name})"
        return
    changed = _lines(original) != _lines(after)
    yield {"changed": changed}
    if _lines(after) != _lines(again):
        yield "not idempotent", _difference(after, again)
    if changed is not values["changed"]:
        yield "untrue report", f"it says changed={values['changed']}"
    inputs = as_sent(inputs_of(case))
    if wrong := _wrong(case, original, after, inputs, tolerance, keeps_gradients):
        yield wrong
        return
    if not _is_model(case):
        return
    if case.parameters["model"][1] == "torch" and _serves_one_batch_only(original, after, inputs, keeps_gradients):
        yield "hard-codes a shape", f"({case.name})"
        return
    if case.parameters["model"][2] != VISIBLE_SEED:
        yield _figures(case, original, after, inputs)


def _left_alone(case: Case, evidence: Evidence) -> Iterator[tuple[str, str] | dict[str, Any]]:
    """The same where the graph that came back is the one that went: it computes the same and saves nothing."""
    yield {"changed": False}
    if not is_the_program(case, evidence.graphs["again"]):
        graphs = (decode(evidence.graphs[name]) for name in ("after", "again"))
        yield "not idempotent", _difference(*graphs)
    if evidence.values["changed"] is not False:
        yield "untrue report", f"it says changed={evidence.values['changed']}"
    if _is_model(case) and case.parameters["model"][2] != VISIBLE_SEED:
        before = _counted_before(case, decode(encoded(case), ours=True), as_sent(inputs_of(case)))
        gained = {"before": before, "after": before, "alone": 0.0, "beyond": 0.0, "places": 0, "shared": {}}
        yield gained | {"later": "later" in case.parameters, "model": case.parameters["model"][:2], "seconds": {}}


def _is_model(case: Case) -> bool:
    """Whether it is a model as it was made: no trap, no random program, no plant."""
    return "model" in case.parameters and "planted" not in case.parameters


def _wrong(
    case: Case,
    original: fx.GraphModule,
    after: fx.GraphModule,
    inputs: tuple[Any, ...],
    tolerance: float,
    keeps_gradients: bool,
) -> tuple[str, str] | None:
    """What the graph does otherwise than before, if anything."""
    trap = trap_of(case.parameters["trap"]) if "trap" in case.parameters else None
    wrong = differences(
        copy.deepcopy(original),
        copy.deepcopy(after),
        inputs,
        tolerance=tolerance,
        # What no node reads any more does not travel; a caller would still have it.
        keeps_state=False,
        # A pass that folds parameters keeps the old ones; whoever loads others has to run it again.
        state_may_change=keeps_gradients and (trap is None or trap.state_may_change),
        trains=keeps_gradients,
        # A random program may raise on all of the oracle's inputs.
        raises=trap is None or trap.raises,
        ask=ask,
    )
    halves = any(isinstance(value, torch.Tensor) and value.dtype in HALVES for value in inputs)
    if not wrong or (halves and "planted" in case.parameters and wrong[0].startswith("gradients: gradient of")):
        # In half precision gradients that are added up in another order differ by more than any tolerance stated.
        return None
    if "planted" in case.parameters:
        kind = case.parameters["planted"]
        if kind == "planted dtype" and _only_strides(wrong):
            kind = "planted strides"  # that of what comes out, whatever the dtype
        return kind, f"({case.name.removeprefix('plant, ')}; {'; '.join(wrong)}"[:400] + ")"
    about = f"{trap.about} " if trap is not None else ""
    folded = _in_training(after) < _in_training(original)
    return ("folds in training mode" if folded else kind_of(wrong)), f"{about}{'; '.join(wrong)}"[:400]


_TRAITS = re.compile(r"\((torch\.\w+, \([^)]*\)), (\([^)]*\)), .* instead of \((torch\.\w+, \([^)]*\)), (\([^)]*\)),")


def _only_strides(wrong: list[str]) -> bool:
    """Whether the first difference is one of strides, of the same dtype and shape."""
    found = _TRAITS.search(wrong[0])
    return found is not None and found[1] == found[3] and found[2] != found[4]


def _figures(case: Case, original: fx.GraphModule, after: fx.GraphModule, inputs: tuple[Any, ...]) -> dict[str, Any]:
    """What is gained on a model, where it was rewritten, and at which of these places each pass of the course is."""
    here = places(original, after)
    theirs = courses_places(case, original) if here else {}
    shared = {name: sum(place in own for place in here) for name, own in theirs.items()}
    shared["the presets together"] = sum(any(place in own for own in theirs.values()) for place in here)
    before, now = _counted_before(case, original, inputs), ask(counted, after, inputs)
    least = _left_over_before(case, original, inputs)
    most = ask(left_over, after, inputs) if here else least
    return {
        "before": before,
        "after": now,
        "alone": gain(before, now),
        "beyond": gain(least, most),
        "places": len(here),
        "shared": shared,
        "later": "later" in case.parameters,
        "model": case.parameters["model"][:2],
        "seconds": {} if "later" in case.parameters else ask(timed, original, after, inputs),
    }


_KNOWN: dict[tuple[str, str, str], Figures] = {}
"""Figures of models as they were before any candidate."""


def _counted_before(case: Case, original: fx.GraphModule, inputs: tuple[Any, ...]) -> Figures:
    return _known("counted", case, original, inputs)


def _left_over_before(case: Case, original: fx.GraphModule, inputs: tuple[Any, ...]) -> Figures:
    return _known("left over", case, original, inputs)


def _known(what: str, case: Case, original: fx.GraphModule, inputs: tuple[Any, ...]) -> Figures:
    key = (what, case.name, case.parameters["model"][2])
    if key not in _KNOWN:
        _KNOWN[key] = {"counted": counted, "left over": left_over}[what](original, inputs)
    return _KNOWN[key]


def follow_up(case: Case, evidence: Evidence) -> Case | None:
    """Of the plants for what a candidate rewrote in a model, the one with the number that the case asks for.

    `case.parameters["plant"]` is the number, and `None` comes after the last one. In `known` are the kinds with
    signatures of which there are enough.
    """
    number = case.parameters["plant"]
    if is_the_program(case, evidence.graphs["after"]):
        return None
    original, after = decode(encoded(case), ours=True), decode(evidence.graphs["after"])
    rewritten = set(places(original, after))
    key = (case.name, case.parameters["model"][2], tuple(sorted(rewritten)))
    if key not in _PLANTS:
        _PLANTS.clear()
        source = random.Random(f"{key}")
        known = {(kind, signature) for kind, signature in case.parameters["known"]}
        made = planted(original, as_sent(inputs_of(case)), rewritten, source, known) if rewritten else []
        _PLANTS[key] = [planted_case(case, one) for one in made[:MOST_PLANTS]]
    plants = _PLANTS[key]
    return plants[number] if number < len(plants) else None


_PLANTS: dict[Any, list[Case]] = {}
"""The plants for the model that was asked about last."""


def _in_training(graph_module: fx.GraphModule) -> int:
    """How many batch normalisations are called that are in training mode."""
    called = [module_of(node) for node in all_nodes(graph_module) if node.op == "call_module"]
    return sum(isinstance(module, _BatchNorm) and module.training for module in called)


def _serves_one_batch_only(
    original: fx.GraphModule, after: fx.GraphModule, inputs: tuple[Any, ...], trains: bool
) -> bool:
    """Whether the two differ on a batch that has one row more, in more than rounding."""
    larger = tuple(torch.cat([value, value[:1]]) for value in inputs)
    copies = copy.deepcopy(original), copy.deepcopy(after)
    return bool(
        differences(
            *copies,
            larger,
            tolerance=MOST_TOLERANCE,
            keeps_state=False,
            state_may_change=False,
            trains=trains,
            ask=ask,
        )
    )


def _lines(graph_module: fx.GraphModule) -> list[str]:
    """The graph, node by node, whatever the nodes are called."""
    names = {node: f"%{number}" for number, node in enumerate(all_nodes(graph_module))}
    return [
        f"{node.op} {node.target} {fx.node.map_arg((node.args, node.kwargs), names.__getitem__)}"
        for node in all_nodes(graph_module)
    ]


def _difference(one: fx.GraphModule, other: fx.GraphModule) -> str:
    first, second = len(list(all_nodes(one))), len(list(all_nodes(other)))
    return f"{first} nodes after the first run, {second} after the second"


def kind_of(wrong: list[str]) -> str:
    """The misconception that the words of the oracle tell of."""
    text = "; ".join(wrong)
    return next((kind for kind, words in KINDS if any(word in text for word in words)), "changes values")
