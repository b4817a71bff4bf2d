"""The truth by the judge's own tracing and scripting."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import torch
from torch import nn

from autograder.exchange.evidence import Case, Evidence, agrees
from autograder.exercises.day5.branch_evidence.visible import MODELS, make_inputs

MISCONCEPTIONS = {
    "no evidence": (
        "Return `{'trace': {'branches': …, 'wrong': […]}, 'script': {…}}`: a number, and positions among the inputs."
    ),
    "branches in a trace": (
        "You report branches in the trace. It recorded one run: the decision was made while recording, by Python, and "
        "is not in the graph. Count in the graph of each result, not in the source of the model."
    ),
    "outermost level only": (
        "You missed branches of the scripted model. They may stand inside other branches, or in a module that is "
        "called: `inlined_graph` opens the calls, `findAllNodes` looks into the blocks."
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
        "You missed inputs on which the trace is wrong: compare every input and every value of the answer."
    ),
    "counts of wrong answers": "`wrong` is the list of *positions* of the inputs, from 0.",
    "wrong inputs": "Those are not the inputs on which the trace answers otherwise than the model.",
}


def hidden_cases(random: Random) -> list[Case]:
    """Other orders of inputs, so that the trace saw another side."""
    cases = []
    for name in MODELS:
        levels = [random.uniform(0.3, 1.2), random.uniform(6, 9), random.uniform(-3, -0.5), random.uniform(-40, -12)]
        random.shuffle(levels)
        cases.append(Case(f"hidden {name}", {"model": name, "levels": levels, "batch": random.randint(1, 4)}))
    return cases


def wrong_inputs(model: nn.Module, inputs: list[torch.Tensor], position: int) -> list[int]:
    """On which inputs a trace of the model, made on the input at `position`, answers otherwise."""
    traced = torch.jit.trace(model, (inputs[position],), check_trace=False)
    return [i for i, x in enumerate(inputs) if not agrees(traced(x), model(x), relative=1e-4, absolute=1e-4)]


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """Names of misconceptions with the figures of this case, the most telling first."""
    traced, scripted = evidence.values["trace"], evidence.values["script"]
    if traced is None or scripted is None:
        yield "no evidence", ""
        return
    model, inputs = MODELS[case.parameters["model"]]().eval(), make_inputs(case)
    inlined: Any = torch.jit.script(model).inlined_graph
    branches = len(inlined.findAllNodes("prim::If"))
    if traced[0]:
        yield "branches in a trace", f"({traced[0]})"
        return
    if scripted[0] != branches:
        name = "outermost level only" if scripted[0] < branches else "wrong number of branches"
        yield name, f"(found {scripted[0]}, there are {branches})"
        return
    wanted = wrong_inputs(model, inputs, 0)
    if traced[1] != wanted:
        yield _why(traced[1], wanted, model, inputs), f"(found {traced[1]}, wanted {wanted})"
        return
    if scripted[1]:
        yield "blames scripting", f"(inputs {scripted[1]})"


def _why(found: list[int], wanted: list[int], model: nn.Module, inputs: list[torch.Tensor]) -> str:
    """The misconception under which one would get these inputs."""
    if not found:
        return "traced on each input"
    others = [wrong_inputs(model, inputs, position) for position in range(1, len(inputs))]
    if found in others:
        return "traced on another input"
    if found == [len(wanted)] and not set(found) < set(wanted):
        return "counts of wrong answers"
    return "looked at one number" if set(found) < set(wanted) else "wrong inputs"
