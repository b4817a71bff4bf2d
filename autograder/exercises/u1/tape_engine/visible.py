"""The learner's side: programs that calculate with values, the probe and what the check shows."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy

from autograder.exchange.evidence import Case, Evidence
from autograder.exercises.u1.arrays import as_array, in_words
from autograder.learner_side.probing import torch_calls

Step = list[Any]
"""`[operation, *numbers of values]`, which adds a value; or one that steers or asks:

- `["doubled", i, limit]`: value i, added to itself once or more, until the size of its sum is at least `limit`;
- `["chosen", c, i, j]`: value i times itself if the sum of value c is above 0, else value j negated;
- `["repeated", i, j, n]`: value j is added to value i, n times in a row;
- `["folded", i, n]`: value i is added to itself, the result to itself, and so on, n times;
- `["backward", i]`: asks for gradients.
"""

OPERATIONS: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "neg": lambda a: -a,
    "matmul": lambda a, b: a @ b,
    "relu": lambda a: a.relu(),
    "tanh": lambda a: a.tanh(),
    "sum": lambda a: a.sum(),
}
"""What a value can do. The judge runs the same functions on tensors."""

CALLS_A_STEP = 300
"""Calls of Python functions that a backward pass may make for each operation; a good one makes about ten."""

MOST_BUILT_IN_CALLS = 300_000
"""Calls of built-in functions that a backward pass may make; a good one makes ten thousand on the longest tape."""

MOST_DOUBLINGS = 60

LONGEST = 200
"""Characters of an error's message that become evidence."""


def leaf(data: Any, needs_gradient: bool = True) -> dict[str, Any]:
    """A value to begin with. A number is given as it stands, a list as an array of floats (see `_leaf`)."""
    return {"data": data, "needs_gradient": needs_gradient}


def program(leaves: list[dict[str, Any]], *steps: Step) -> dict[str, Any]:
    """Values to begin with, and what is done with them. Their numbers count up; `backward` makes no value."""
    return {"leaves": leaves, "steps": list(steps)}


def visible_cases() -> list[Case]:
    """Operations one by one, a value used twice, shapes that are stretched, a small network, and a loop."""
    matrix = [[1.0, -2.0, 0.5], [3.0, 0.25, -1.0]]
    return [
        Case(
            "one operation each",
            {
                "programs": [
                    program([leaf([1.0, -2.0]), leaf([3.0, 0.5])], [name, *range(count)], ["sum", 2], ["backward", 3])
                    for name, count in (("add", 2), ("mul", 2), ("neg", 1), ("relu", 1), ("tanh", 1))
                ]
                + [program([leaf(matrix), leaf([[1.0], [2.0], [-1.0]])], ["matmul", 0, 1], ["sum", 2], ["backward", 3])]
            },
        ),
        Case(
            "used twice",
            {
                "programs": [
                    program([leaf(3.0)], ["mul", 0, 0], ["backward", 1]),
                    program([leaf(2.0), leaf(5.0)], ["mul", 0, 1], ["add", 2, 0], ["mul", 3, 2], ["backward", 4]),
                ]
            },
        ),
        Case(
            "stretched",
            {
                "programs": [
                    program([leaf(matrix), leaf([10.0, 20.0, 30.0])], ["mul", 0, 1], ["sum", 2], ["backward", 3]),
                    program([leaf(matrix), leaf([[2.0], [3.0]])], ["add", 0, 1], ["sum", 2], ["backward", 3]),
                ]
            },
        ),
        Case(
            "a network",
            {
                "programs": [
                    program(
                        [leaf(matrix, False), leaf([[0.5, -1.0], [1.0, 0.5], [0.25, 1.0]]), leaf([0.1, -0.2])],
                        *(["matmul", 0, 1], ["add", 3, 2], ["tanh", 4], ["mul", 5, 5], ["sum", 6], ["backward", 7]),
                    )
                ]
            },
        ),
        Case(
            "Python decides",
            {
                "programs": [
                    program([leaf([0.5, 0.25])], ["doubled", 0, 10.0], ["sum", 1], ["backward", 2]),
                    program(
                        [leaf(1.5), leaf(-2.0)],
                        ["chosen", 0, 1, 1],
                        ["chosen", 1, 0, 0],
                        ["mul", 2, 3],
                        ["backward", 4],
                    ),
                ]
            },
        ),
        Case(
            "refusals", {"programs": [program([leaf([1.0, 2.0]), leaf(1.0, False)], ["backward", 0], ["backward", 1])]}
        ),
    ]


def run(given: dict[str, Any], make: Callable[[Any, bool], Any], total: Callable[[Any], float]) -> Iterator[Any]:
    """Run a program; yields each value as it comes, and the number of the value that `backward` was asked for.

    Args:
        given: the program.
        make: makes a value to begin with from its data, and says whether it needs a gradient.
        total: the sum of a value's data, by which the program decides.
    """
    values = [make(one["data"], one["needs_gradient"]) for one in given["leaves"]]
    yield from values
    for kind, *rest in given["steps"]:
        if kind == "backward":
            yield rest[0]
            continue
        values.append(_made(kind, rest, values, total))
        yield values[-1]


def _made(kind: str, rest: list[Any], values: list[Any], total: Callable[[Any], float]) -> Any:
    if kind == "doubled":
        value, limit = values[rest[0]], rest[1]
        for _ in range(MOST_DOUBLINGS):
            value = value + value
            if abs(total(value)) >= limit:
                break
        return value
    if kind == "chosen":
        condition, first, second = (values[index] for index in rest)
        return first * first if total(condition) > 0 else -second
    if kind == "repeated":
        value, other, times = values[rest[0]], values[rest[1]], rest[2]
        for _ in range(times):
            value = value + other
        return value
    if kind == "folded":
        value = values[rest[0]]
        for _ in range(rest[1]):
            value = value + value
        return value
    return OPERATIONS[kind](*(values[index] for index in rest))


def probe(case: Case, value_class: Any) -> Evidence:
    """Run the programs with the learner's values, and look at what a value without gradient keeps alive."""
    with torch_calls() as called:
        runs = [_run(given, value_class) for given in case.parameters.get("programs", [])]
        kept = _kept(value_class, case.parameters["constants"]) if "constants" in case.parameters else None
    return Evidence({"runs": runs, "kept": kept, "torch_calls": called[:3]})


class _TooManyError(Exception):
    """A backward pass calls more functions than any walk over the operations needs."""


def _run(given: dict[str, Any], value_class: Any) -> dict[str, Any]:
    values: list[Any] = []
    asked: list[str] = []
    for one in run(given, lambda data, needs: _leaf(value_class, data, needs), _total):
        if isinstance(one, int):
            asked.append(_backward(values[one], _operations(given)))
        else:
            values.append(one)
    return {
        "data": [as_array(getattr(value, "data", None)) for value in values],
        "dtypes": [str(getattr(getattr(value, "data", None), "dtype", "none")) for value in values],
        "needs_gradient": [getattr(value, "needs_gradient", None) is True for value in values],
        "gradients": [as_array(getattr(value, "gradient", None)) for value in values],
        "asked": asked,
    }


def _leaf(value_class: Any, data: Any, needs: bool) -> Any:
    """A value as one would write it: `Value(3.0, True)`, `Value(2)`, or with an array."""
    if isinstance(data, list):
        return value_class(numpy.array(data, dtype=float), needs)
    return value_class(data, True) if needs else value_class(data)


def _total(value: Any) -> float:
    return float(numpy.sum(value.data))


def _operations(given: dict[str, Any]) -> int:
    many = {"doubled": lambda rest: MOST_DOUBLINGS, "repeated": lambda rest: rest[2], "folded": lambda rest: rest[1]}
    return sum(int(many.get(kind, lambda rest: 1)(rest)) for kind, *rest in given["steps"])


def _backward(value: Any, operations: int) -> str:
    """What became of asking for gradients: `done`, `refused: why`, `too deep` or `path by path`."""
    try:
        with _counting(CALLS_A_STEP * (operations + 5)):
            value.backward()
    except _TooManyError:
        return "path by path"
    except RecursionError:
        return "too deep"
    except ValueError as error:
        return f"refused: {error}"[:LONGEST]
    return "done"


@contextmanager
def _counting(most: int) -> Iterator[None]:
    left = {"call": most, "c_call": MOST_BUILT_IN_CALLS}

    def count(frame: Any, event: str, argument: Any) -> None:
        if event in left:
            left[event] -= 1
            if left[event] < 0:
                sys.setprofile(None)
                raise _TooManyError

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        yield
    finally:
        sys.setprofile(before)


def _kept(value_class: Any, operations: list[str]) -> list[str]:
    """Operations that kept their inputs or a result alive after its last use, although nothing needs a gradient."""
    kept = []
    for name in operations:
        count = 2 if name in ("add", "mul", "matmul") else 1
        inputs = [value_class(numpy.full((2, 2), 0.5), False) for _ in range(count)]
        between = OPERATIONS[name](*inputs)
        watched = [seen for one in (*inputs, between) for seen in _watched(one)]
        result = OPERATIONS[name](*[between] * count)
        del inputs, between
        gc.collect()
        if any(one() is not None for one in watched):
            kept.append(name)
        del result
    return kept


def _watched(value: Any) -> list[Callable[[], Any]]:
    """Give the value and its array for as long as others keep them alive; the value's class may allow no reference."""
    found: list[Callable[[], Any]] = []
    for one in (value, getattr(value, "data", None)):
        try:
            found.append(weakref.ref(one))
        except TypeError:
            continue  # A single number of NumPy's cannot be watched either; other operations give arrays.
    return found


def show(case: Case, evidence: Evidence) -> list[Any]:
    """The gradients that each program ended with."""
    lines = [f"{case.name}: what your engine computed"]
    for given, found in zip(case.parameters.get("programs", []), evidence.values["runs"], strict=True):
        steps = ", ".join(" ".join(map(str, step)) for step in given["steps"])
        lines.append(f"  {steps}: {' and '.join(found['asked']) or 'no gradients asked for'}")
        for number, one in enumerate(given["leaves"]):
            if one["needs_gradient"]:
                lines.append(f"    gradient of value {number}: {in_words(found['gradients'][number])}")
    return ["\n".join(lines)]
