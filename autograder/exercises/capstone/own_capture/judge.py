"""The judge: does each graph do what its model does, also on other values and at a second call? To refuse is right."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

from torch import fx, nn

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.graph_form import ask, decode
from autograder.exchange.graph_form.parcels import as_sent
from autograder.exchange.verdict import one_line
from autograder.exercises.capstone.capture_models import model_of
from autograder.exercises.capstone.own_capture.visible import cases_from
from autograder.exercises.capstone.own_pass.judge import REGISTERS_NOTHING, kind_of
from autograder.traps.oracle import differences, fresh

TOLERANCE = 1e-5
"""Error allowed, as a share of the largest magnitude: a graph may round in another order."""

LEAST_REASON = 10
"""Fewest characters of a reason."""

HIDDEN_SEEDS = 2

MISCONCEPTIONS = {
    "registers nothing": REGISTERS_NOTHING,
    "registers several": (
        "Your package registers several capture tools. A capstone is one: register the one that counts."
    ),
    "no graph": (
        "Your tool returned no `torch.fx.GraphModule`. Where it cannot capture a model it must refuse: raise "
        "`ValueError` with the reason. What is printed reaches no program."
    ),
    "refuses without a reason": (
        "Your tool refuses without saying why. `ValueError` needs a text from which a reader learns what stood in the "
        "way."
    ),
    "model changed": (
        "After the capture the caller's model is another one: parameters, buffers, modes or attributes have changed. "
        "Work on a copy, and put back what you switch."
    ),
    "graph cannot travel": (
        "The graph holds something that is not plain data: a Python function, or a module of the model's own class. "
        "Trace into modules that are not torch's."
    ),
    "does not run": "A graph that your tool returned raises an error when it is called, also where the model does not.",
    "froze the example": (
        "On the example's values the graph is right, and on others, or when it is called once more, it is not: "
        "something that was decided or computed during the capture stands in it as a constant. Where the model asks "
        "a value (`if x.mean() > 0`) or changes a number of Python, capture all of it or refuse."
    ),
    "changes draws": (
        "The graph draws other random numbers than the model, or none: a draw was made once, during the capture, and "
        "became a constant, or dropout was lost with the training mode. Keep draws as nodes, or refuse."
    ),
    "loses a write": (
        "The model writes to a buffer or to its input, and the graph does not, or not as often. A write belongs to "
        "the graph; where your tool loses it, refuse."
    ),
    "changes sharing": "Results of the graph share memory with other tensors than those of the model.",
    "changes gradients": "The results are right, and gradients do not reach the inputs and parameters as in the model.",
    "changes layout": (
        "The graph returns another structure, dtype, shape or stride than the model: a dictionary stays one, with its "
        "keys, and each input of the model is an input of the graph."
    ),
    "changes values": "The graph computes something else than the model, even on the example.",
}


def hidden_cases(source: random.Random) -> list[Case]:
    """Models of all families, in sizes that nobody has seen."""
    return [case for _ in range(HIDDEN_SEEDS) for case in cases_from(f"{source.getrandbits(64):x}")]


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str] | dict[str, Any]]:
    """What is wrong with the graph that came back, and whether the model is captured where `symbolic_trace` fails."""
    values = evidence.values
    if len(values["tools"]) != 1:
        yield ("registers several" if values["tools"] else "registers nothing"), ""
        return
    family = case.parameters["family"]
    if values["model kept"] is not True:
        yield "model changed", f"(the model: {family})"
        return
    captured = False
    if "refused" in values:
        if len(str(values["refused"]).strip()) < LEAST_REASON:
            yield "refuses without a reason", f"(the model: {family})"
            return
    elif "returned" in values:
        yield "no graph", f"(for the model: {family}; it returned {one_line(values['returned'], 60)})"
        return
    elif "cannot travel" in values:
        yield "graph cannot travel", f"({family}: {values['cannot travel']})"
        return
    else:
        wrong = wrong_in(case, decode(evidence.graphs["captured"]))
        if wrong:
            yield wrong[0], f"(the model: {family}) {wrong[1]}"
            return
        captured = True
    before = traced(case)
    yield {
        "changed": captured,
        "before": {"captured": int(before)},
        "after": {"captured": int(captured)},
        "gain": float(captured - before),
        "seconds": {},
    }


def traced(case: Case) -> bool:
    """Whether `torch.fx.symbolic_trace`, the tool to beat, captures the model of a case, and rightly."""
    model, _ = model_of(case.parameters["family"], case.parameters["seed"])
    try:
        graph_module = fx.symbolic_trace(model)
    except Exception:  # tracing runs the model's own Python code, which may raise anything on a proxy
        return False
    return not wrong_in(case, graph_module)


def wrong_in(case: Case, captured: nn.Module) -> tuple[str, str] | None:
    """The first thing that a graph does otherwise than the model of a case: its misconception, and in words."""
    model, inputs = model_of(case.parameters["family"], case.parameters["seed"])
    inputs = as_sent(inputs)
    # Signs decide the choices of the models; both have to occur whatever is drawn.
    for number, pool in enumerate((None, (0.5, 1.0, 2.0), (-0.5, -1.0, -2.0))):
        given = inputs if pool is None else fresh(inputs, number, pool)
        copies = copy.deepcopy(model), copy.deepcopy(captured)
        found = differences(*copies, given, tolerance=TOLERANCE, keeps_state=False, state_may_change=False, ask=ask)
        if found:
            kind = kind_of(found)
            frozen = kind == "changes values" and (pool is not None or not found[0].startswith("first call"))
            return ("froze the example" if frozen else kind), "; ".join(found)[:400]
    return None
