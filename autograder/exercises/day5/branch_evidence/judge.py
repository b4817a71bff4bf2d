"""The truth by the judge's own tracing and scripting."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import Any

import torch
from torch import nn

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.verdict import Agreement, Deviation
from autograder.exercises.day5.branch_evidence.visible import MODELS, SHOWN, make_inputs

MISCONCEPTIONS = {
    "no evidence": (
        "Return `{'trace': {'branches': …, 'wrong': […]}, 'script': {…}}`: a number, and positions among the inputs."
    ),
    "branches in a trace": (
        "You report branches in the trace. It recorded one run: the decision was made while recording, by Python, and "
        "is not in the graph. Count in the graph of each result, not in the source of the model."
    ),
    "outermost level only": (
        "You missed branches of the scripted model. They may stand inside other branches and loops, or in a module "
        "that is called: `inlined_graph` opens the calls, `findAllNodes` looks into the blocks."
    ),
    "wrong number of branches": "That is not how many `prim::If` the scripted graph has.",
    "blames scripting": (
        "You call the scripted model wrong where it agrees with the model: it has both sides of each branch. "
        "Compare with the model on the same input, up to rounding."
    ),
    "traced on each input": (
        "You found no wrong input for the trace. Traced anew on each input it is always right: trace once, on the "
        "first input, and try the *others*."
    ),
    "traced on another input": "You traced on another input than the first: the wrong answers are those of that trace.",
    "looked at one number": (
        "You missed inputs on which the trace is wrong: compare every value of the answer, not one of them."
    ),
    "stopped at the first": "You report one wrong input, and there are more: go on after the first one.",
    "counts of wrong answers": "`wrong` is the list of *positions* of the inputs, from 0.",
    "not a number": (
        "You report an input on which both answers are NaN in the same places. They agree: compare with "
        "`equal_nan=True`."
    ),
    "NaN excuses the rest": (
        "You take two answers for equal as soon as both hold NaN somewhere. NaN has to stand in the same places, and "
        "the numbers beside it have to agree: `torch.allclose` with `equal_nan=True` asks for both."
    ),
    "NaN taken for 0": (
        "You put 0 in the place of NaN before you compare: then NaN agrees with a model that gives 0. Compare with "
        "`equal_nan=True`."
    ),
    "another tolerance": (
        "You judge too loosely or too strictly: answers up to 1e-4 apart agree, answers further apart do not."
    ),
    "another shape": (
        "You missed an input on which the trace returns another shape. Compared by broadcasting, one value agrees with "
        "a whole row of the same value: look at the shapes, too."
    ),
    "took tracing for branchless": (
        "You report no branch for the trace, and its graph has one: a function that is a script already is called, and "
        "its branch survives the tracing. Count in the graph of the trace, and in what it calls (`inlined_graph`)."
    ),
    "loops are no branches": "You counted more than `prim::If`: a loop (`prim::Loop`) is no branch.",
    "took scripting for right": (
        "You report no wrong input for the script, and it answers otherwise than the model: this model asks whether it "
        "is scripted (`torch.jit.is_scripting`). Compare; do not take the answer for granted."
    ),
    "wrong inputs": "Those are not the inputs on which the result answers otherwise than the model.",
}


FIXED = {
    "slight": [1.0, -1.0, 8.0, -30.0, 2.0],
    "undefined": [1.0, -1.0, 8.0, -3.0, 0.5],
    "scripted": [1.0, -1.0, 8.0, -30.0, 6.0],
    "knows": [-20.0, 1.0, -1.0, -30.0, 8.0],
    "nearly": [1.0, 55.0, 30.0, 15.0, 6.0],
    "looped": [1.0, -1.0, 30.0, -7.0],
    "vanishing": [1.0, -1.0, 2.0, -3.0, -1.0],
    "zeroed": [1.0, -1.0, 2.0, -3.0],
    "partly": [1.0, -1.0, 8.0, -30.0, 6.0],
    "endless": [1.0, -1.0, 2.0, -3.0],
    "chosen": [1.0, -1.0, 8.0],
    "moved": [1.0, -1.0, 8.0],
    "folded": [-1.0, 1.0, 8.0, -2.0],
}
"""Models that no visible case has, with the levels of their inputs; the same for every seed."""


def hidden_cases(random: Random) -> list[Case]:
    """Other orders of inputs, so that the trace saw another side; models whose answers nobody can take for granted."""
    cases = []
    for name in SHOWN:
        levels = [random.uniform(0.3, 1.2), random.uniform(6, 9), random.uniform(-3, -0.5), random.uniform(-40, -12)]
        random.shuffle(levels)
        cases.append(Case(f"hidden {name}", {"model": name, "levels": levels, "batch": random.randint(1, 4)}))
    fixed = [Case(f"hidden {name}", {"model": name, "levels": FIXED[name], "batch": 3}) for name in FIXED]
    return [*cases, *fixed]


Same = Callable[[torch.Tensor, torch.Tensor], bool]


def the_same(found: torch.Tensor, wanted: torch.Tensor, relative: float = 1e-4, absolute: float = 1e-4) -> bool:
    """Whether two answers agree: in shape, in NaN, and up to 1e-4."""
    return found.shape == wanted.shape and torch.allclose(found, wanted, rtol=relative, atol=absolute, equal_nan=True)


def by_broadcasting(found: torch.Tensor, wanted: torch.Tensor) -> bool:
    """Whether they agree for somebody who does not look at the shapes."""
    try:
        return torch.allclose(found, wanted, rtol=1e-4, atol=1e-4, equal_nan=True)
    except RuntimeError:  # of shapes that do not go together
        return False


TOLERANCES = [(each, each) for each in (0.0, 1e-8, 1e-7, 2e-4, 1e-3, 1e-2, 0.1)]
TOLERANCES += [(0.0, 1e-4), (1e-5, 1e-4), (2e-4, 1e-4), (1e-4, 0.0), (1e-4, 1e-8), (1e-4, 2e-4), (1e-5, 1e-8)]
"""Relative and absolute ones that somebody might take instead: one of the two alone, and what `allclose` takes."""


def traced_on(model: nn.Module, x: torch.Tensor) -> Any:
    """The trace that one input leaves."""
    return torch.jit.trace(model, (x,), check_trace=False)


def wrong_inputs(result: Any, model: nn.Module, inputs: list[torch.Tensor], same: Same = the_same) -> list[int]:
    """On which inputs a trace or a script of the model answers otherwise."""
    return [i for i, x in enumerate(inputs) if not same(result(x), model(x))]


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str] | Deviation | Agreement]:
    """Names of misconceptions with the figures of this case, the most telling first."""
    found = {method: evidence.values[method] for method in ("trace", "script")}
    if None in found.values():
        yield "no evidence", ""
        return
    model, inputs = MODELS[case.parameters["model"]]().eval(), make_inputs(case)
    results: dict[str, Any] = {"trace": traced_on(model, inputs[0]), "script": torch.jit.script(model)}
    branches = {method: len(result.inlined_graph.findAllNodes("prim::If")) for method, result in results.items()}
    for method in ("trace", "script"):
        told, there = found[method][0], branches[method]
        if told != there:
            loops = len(results[method].inlined_graph.findAllNodes("prim::Loop"))
            yield _why_branches(method, told, branches, loops), f"({method}: found {told}, there are {there})"
            return
    for method in ("trace", "script"):
        wanted, told = wrong_inputs(results[method], model, inputs), found[method][1]
        mistakes = _mistakes(method, wanted, results[method], model, inputs)
        if told == wanted:
            yield Agreement("wrong inputs", tuple(name for name, lists in mistakes.items() if wanted not in lists))
        else:
            fits = tuple(name for name, lists in mistakes.items() if told in lists)
            yield Deviation(
                "wrong inputs", fits, f"({case.name}, {method}: found {told}, wanted {wanted})", len(inputs)
            )


def _why_branches(method: str, told: int, branches: dict[str, int], loops: int) -> str:
    """The misconception under which one would count so many branches, in a graph with so many loops."""
    if method == "script" and told > branches["script"] and loops and told <= branches["script"] + loops:
        return "loops are no branches"
    if method == "script":
        return "outermost level only" if told < branches["script"] else "wrong number of branches"
    if branches["trace"]:
        return "took tracing for branchless" if told == 0 else "wrong number of branches"
    return "branches in a trace"


def _mistakes(
    method: str, wanted: list[int], result: Any, model: nn.Module, inputs: list[torch.Tensor]
) -> dict[str, list[list[int]]]:
    """For each misconception the lists of inputs that come of it."""

    answers = [(result(x), model(x)) for x in inputs]

    def under(same: Same) -> list[int]:
        return [i for i, (found, right) in enumerate(answers) if not same(found, right)]

    last = under(lambda one, other: the_same(one.flatten()[-1:], other.flatten()[-1:]))
    strictly = [under(lambda one, other: one.shape == other.shape and torch.allclose(one, other, rtol=1e-4, atol=1e-4))]
    loosely = [under(partial(the_same, relative=one, absolute=other)) for one, other in TOLERANCES]
    if method == "script":
        of_trace = wrong_inputs(traced_on(model, inputs[0]), model, inputs)
        blamed = {"blames scripting": [of_trace]} if of_trace else {}
        return blamed | {
            "took scripting for right": [[]],
            "not a number": strictly,
            "another tolerance": loosely,
        }
    return {
        "traced on each input": [[]],
        "traced on another input": [wrong_inputs(traced_on(model, x), model, inputs) for x in inputs[1:]],
        "counts of wrong answers": [[len(wanted)] if wanted else []],
        "not a number": strictly,
        "another tolerance": loosely,
        "another shape": [under(by_broadcasting)],
        "looked at one number": [last],
        "stopped at the first": [wanted[:1]],
        "NaN taken for 0": [under(lambda one, other: the_same(one.nan_to_num(), other.nan_to_num()))],
        "NaN excuses the rest": [
            under(lambda one, other: bool(one.isnan().any() and other.isnan().any()) or the_same(one, other)),
        ],
    }
