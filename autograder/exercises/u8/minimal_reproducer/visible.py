"""The learner's side: programs that fail, a machine outside that runs them, and what the check shows."""

from __future__ import annotations

from typing import Any

from autograder.exchange.evidence import Case, Evidence
from autograder.exercises.u8.programs import MOST_STEPS, Fault, Matrix, Step, in_words, run
from autograder.learner_side.outside import held

LONGEST = 40
"""Length of a name that becomes evidence."""


class Machine:
    """Runs programs: `answer(program)` is the error message, or "". `record` is how long each was, and what it said."""

    def __init__(self, faults: list[dict[str, Any]]) -> None:
        self._fault = fault_of(faults)
        self.record: list[list[Any]] = []

    def answer(self, question: Any) -> str:
        """Run one program."""
        said = run(question, self._fault)
        self.record.append([len(question) if isinstance(question, list) else -1, said])
        return said


def fault_of(faults: list[dict[str, Any]]) -> Fault:
    """Operators that fail where all conditions hold, each a property, an input, and the least number for sizes.

    A property is one of `Matrix`, or `even`: the number of rows is even.
    """

    def fault(op: str, inputs: list[Matrix]) -> str | None:
        for one in faults:
            if one["op"] == op and all(_holds(condition, inputs) for condition in one["conditions"]):
                return str(one["message"])
        return None

    return fault


def _holds(condition: list[Any], inputs: list[Matrix]) -> bool:
    name, number, least = condition
    if number >= len(inputs):
        return False
    value = inputs[number].rows % 2 == 0 if name == "even" else getattr(inputs[number], name)
    return bool(value >= least) if name in ("rows", "columns") else bool(value) == bool(least)


def steps(text: str) -> list[Step]:
    """A program from text: `a = ones(2, 3)` or `b = add(a, a)`, a line each."""
    found: list[Step] = []
    for line in text.strip().splitlines():
        out, _, rest = line.strip().partition(" = ")
        op, _, given = rest.rstrip(")").partition("(")
        parts = [one.strip() for one in given.split(",")]
        if op == "ones":
            found.append({"out": out, "op": op, "size": [int(one) for one in parts]})
        else:
            found.append({"out": out, "op": op, "inputs": parts})
    return found


def fault(op: str, message: str, *conditions: tuple[str, int, int]) -> dict[str, Any]:
    """An operator that fails where all conditions hold."""
    return {"op": op, "message": message, "conditions": [list(one) for one in conditions]}


def case(name: str, program: list[Step], *faults: dict[str, Any]) -> Case:
    """A program and what is wrong with the machine, which only the judge knows."""
    said = run(program, fault_of(list(faults)))
    return Case(name, {"program": program, "message": said}, kept={"faults": list(faults)})


def visible_cases() -> list[Case]:
    """A program with much that's beside the point, a detour, and two failures in one program."""
    return [
        case(
            "beside the point",
            steps("a = ones(8, 4)\nb = relu(a)\nc = ones(3, 3)\nd = exp(c)\ne = t(a)\nf = exp(e)\ng = add(f, f)"),
            fault("exp", "RuntimeError: exp went wrong", ("transposed", 0, 1)),
        ),
        case(
            "sizes",
            steps("x = ones(40, 24)\ny = ones(24, 40)\nz = relu(x)\nw = mm(z, y)\nv = add(w, w)"),
            fault("mm", "RuntimeError: mm went wrong", ("columns", 0, 9)),
        ),
        case(
            "another failure below",
            steps("a = ones(6, 6)\nb = track(a)\nc = half(b)\nd = exp(c)\ne = mul(d, d)\nf = relu(e)"),
            fault("mul", "RuntimeError: mul went wrong", ("half", 0, 1), ("tracked", 0, 1)),
            fault("exp", "RuntimeError: exp went wrong", ("half", 0, 0)),
        ),
    ]


def instrument(case: Case) -> Machine:
    """The machine of a case, as new."""
    return Machine(case.kept["faults"])


def probe(case: Case, shrink: Any) -> Evidence:
    """Let the learner make the program smaller; it is run outside."""
    ask, seen = held(lambda: instrument(case))
    program = [{key: list(one) if isinstance(one, list) else one for key, one in step.items()} for step in _given(case)]
    found = shrink(program, lambda other: ask(_as_json(other)))
    return Evidence({"program": _as_json(found), "seen": seen})


def _given(case: Case) -> list[Step]:
    given: list[Step] = case.parameters["program"]
    return given


def _as_json(program: Any) -> list[Any] | None:
    """A program in plain data, whatever a learner made of it."""
    if not isinstance(program, (list, tuple)):
        return None
    return [_step(step) for step in list(program)[: MOST_STEPS + 1]]


def _step(step: Any) -> Any:
    if not isinstance(step, dict):
        return None
    found: Step = {key: str(step[key])[:LONGEST] for key in ("out", "op") if isinstance(step.get(key), str)}
    if isinstance(step.get("inputs"), (list, tuple)):
        found["inputs"] = [str(one)[:LONGEST] for one in list(step["inputs"])[:4]]
    if isinstance(step.get("size"), (list, tuple)):
        found["size"] = [one if isinstance(one, int) else None for one in list(step["size"])[:4]]
    return found


def show(case: Case, evidence: Evidence) -> list[Any]:
    """How many runs it took, and what is left."""
    program = evidence.values["program"]
    try:
        left = in_words(program).replace("\n", "\n    ")
    except (TypeError, KeyError, AttributeError):
        left = "no program"
    before = len(case.parameters["program"])
    return [
        f"{case.name}: {case.parameters['message']}\n  {before} steps, {len(evidence.values['seen'])} runs\n    {left}"
    ]
