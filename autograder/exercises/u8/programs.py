"""Small programs on matrices that fail somewhere, as data, and what running one says. Holds no faults."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

Step = dict[str, Any]
"""One line: `{"out": "c", "op": "add", "inputs": ["a", "b"]}`, or `{"out": "a", "op": "ones", "size": [2, 3]}`."""

CREATES = ("ones",)
ONE_INPUT = ("relu", "t", "half", "float", "detach", "track", "contiguous", "exp")
TWO_INPUTS = ("add", "mul", "mm", "cat")

MOST_STEPS, LARGEST = 200, 1024
"""Steps of a program, and rows or columns of a matrix."""


class FailsError(Exception):
    """The program fails; the text is the error message."""


@dataclass(frozen=True)
class Matrix:
    """What is known of a matrix without computing it.

    Attributes:
        rows: number of rows.
        columns: number of columns.
        transposed: whether it is read column by column in memory.
        half: whether it is in half precision.
        tracked: whether autograd records it.
        joined: whether it is made of several that were put together.
    """

    rows: int
    columns: int
    transposed: bool = False
    half: bool = False
    tracked: bool = False
    joined: bool = False


Fault = Callable[[str, list[Matrix]], str | None]
"""The message with which an operator fails on its inputs, by a fault of ours."""


def run(program: Any, fault: Fault) -> str:
    """What running a program says: the message of its first error, or "" when there is none."""
    if not isinstance(program, (list, tuple)) or len(program) > MOST_STEPS:
        return "SyntaxError: a program is a list of steps"
    known: dict[str, Matrix] = {}
    try:
        for step in program:
            _run_step(step, known, fault)
    except FailsError as error:
        return str(error)
    return ""


def _run_step(step: Any, known: dict[str, Matrix], fault: Fault) -> None:
    if not isinstance(step, dict) or not isinstance(step.get("out"), str):
        raise FailsError("SyntaxError: a step is a dictionary with out and op")
    op, names = str(step.get("op")), step.get("inputs", [])
    wanted = 0 if op in CREATES else 1 if op in ONE_INPUT else 2 if op in TWO_INPUTS else None
    if wanted is None:
        raise FailsError("AttributeError: no operator has this name")
    if not isinstance(names, (list, tuple)) or len(names) != wanted:
        raise FailsError(f"TypeError: {op} takes {wanted} inputs")
    inputs = []
    for name in names:
        if not isinstance(name, str) or name not in known:
            raise FailsError("NameError: a name is not defined")
        inputs.append(known[name])
    if op in CREATES:
        known[step["out"]] = _created(step.get("size"))
        return
    message = fault(op, inputs)
    if message is not None:
        raise FailsError(message)
    known[step["out"]] = _computed(op, inputs)


def _created(size: Any) -> Matrix:
    if not (isinstance(size, (list, tuple)) and len(size) == 2):
        raise FailsError("TypeError: ones needs a size of two numbers")
    rows, columns = size
    if not all(isinstance(one, int) and not isinstance(one, bool) and 1 <= one <= LARGEST for one in (rows, columns)):
        raise FailsError("ValueError: rows and columns are between 1 and 1024")
    return Matrix(rows, columns)


def _computed(op: str, inputs: Sequence[Matrix]) -> Matrix:
    first = inputs[0]
    if op == "t":
        return replace(first, rows=first.columns, columns=first.rows, transposed=not first.transposed)
    if op in ("half", "float"):
        return replace(first, half=op == "half")
    if op == "track":
        return replace(first, tracked=True)
    if op == "detach":
        return replace(first, tracked=False)
    if op == "contiguous":
        return replace(first, transposed=False)
    if len(inputs) == 1:
        return first
    second = inputs[1]
    if first.half != second.half:
        raise FailsError("RuntimeError: expected both inputs to have the same dtype")
    tracked = first.tracked or second.tracked
    if op == "mm":
        if first.columns != second.rows:
            raise FailsError("RuntimeError: the sizes of the inputs don't fit")
        return Matrix(first.rows, second.columns, half=first.half, tracked=tracked)
    if op == "cat":
        if first.columns != second.columns:
            raise FailsError("RuntimeError: the sizes of the inputs don't fit")
        return Matrix(first.rows + second.rows, first.columns, False, first.half, tracked, True)
    if (first.rows, first.columns) != (second.rows, second.columns):
        raise FailsError("RuntimeError: the sizes of the inputs don't fit")
    return replace(first, transposed=first.transposed and second.transposed, tracked=tracked)


def smaller(program: Sequence[Step]) -> list[tuple[str, list[Step]]]:
    """Every program that is one edit smaller, with the kind of edit. Steps that are malformed can only be left out.

    - "step": a step is left out;
    - "detour": a step is left out, and whoever read its result reads its first input;
    - "size": a number in a size is less by one, or half as large, in one place or wherever it stands.
    """
    found: list[tuple[str, list[Step]]] = []
    for number, step in enumerate(program):
        rest = [dict(one) for place, one in enumerate(program) if place != number]
        found.append(("step", rest))
        if step.get("inputs") and "out" in step:
            later = program[number + 1 :]
            found.append(("detour", [*map(dict, program[:number]), *renamed(later, step["out"], step["inputs"][0])]))
    places = [(number, side) for number, step in enumerate(program) if _is_creation(step) for side in (0, 1)]
    groups = [[place] for place in places]
    numbers = {program[number]["size"][side] for number, side in places}
    groups += [[(n, side) for n, side in places if program[n]["size"][side] == value] for value in sorted(numbers)]
    for group in groups:
        value = program[group[0][0]]["size"][group[0][1]]
        for less in sorted({value - 1, value // 2} - {0}):
            found.append(("size", resized(program, group, less)))
    return found


def _is_creation(step: Step) -> bool:
    size = step.get("size")
    fits = isinstance(size, (list, tuple)) and len(size) == 2 and all(isinstance(one, int) for one in size)
    return step.get("op") in CREATES and fits


def resized(program: Sequence[Step], places: Sequence[tuple[int, int]], value: int) -> list[Step]:
    """The program with another number in some places, each given by the step and 0 for rows or 1 for columns."""
    found = [{**step, "size": list(step["size"])} if _is_creation(step) else dict(step) for step in program]
    for number, side in places:
        found[number]["size"][side] = value
    return found


def renamed(steps: Sequence[Step], old: str, new: str) -> list[Step]:
    """The steps with another name for an input, up to where the old name is given anew."""
    found: list[Step] = []
    current = True
    for step in steps:
        one = dict(step)
        if current and "inputs" in one:
            one["inputs"] = [new if name == old else name for name in one["inputs"]]
        found.append(one)
        current = current and step.get("out") != old
    return found


def in_words(program: Sequence[Step]) -> str:
    """The program as one would write it."""
    lines = []
    for step in program:
        given = ", ".join(map(str, step.get("inputs") or step.get("size", ())))
        lines.append(f"{step['out']} = {step['op']}({given})")
    return "\n".join(lines)
