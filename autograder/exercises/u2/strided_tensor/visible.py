"""The learner's side: programs of operations on a strided tensor, the probe and what the check shows."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

from autograder.exchange.evidence import Case, Evidence
from autograder.exercises.u2.reading import ask, whole_number, whole_numbers
from autograder.learner_side.probing import torch_calls

MOST_ELEMENTS = 500
"""Elements of a result that are read one by one; no right result has more."""

Operation = list[Any]
"""A method's name and its arguments, as JSON values."""


def program(sizes: list[int], *operations: Operation, strides: list[int] | None = None, offset: int = 0) -> Any:
    """A tensor over a list of numbers, and what is done to it one after the other.

    Args:
        sizes: of the tensor at the start.
        operations: to be applied in order; one that refuses leaves the tensor as it was.
        strides: of the tensor at the start; those of a contiguous one unless given.
        offset: of the tensor at the start.
    """
    if strides is None:
        strides = [prod(max(size, 1) for size in sizes[dim + 1 :]) for dim in range(len(sizes))]
    last = offset + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True) if size)
    # No two numbers are equal, and none is its own position.
    data = [(7 * place + 3) % (last + 2003) + 100 for place in range(last + 1)]
    return {"data": data, "sizes": sizes, "strides": strides, "offset": offset, "operations": [*operations]}


def visible_cases() -> list[Case]:
    """Each operation by itself, several in a row, and what must be refused."""
    return [
        Case(
            "one operation each",
            {
                "programs": [
                    program([2, 3, 4], ["select", 1, 2]),
                    program([2, 3, 4], ["slice", 2, 1, 4, 2]),
                    program([2, 3, 4], ["transpose", 0, 2]),
                    program([3, 1], ["expand", [2, 3, 4]]),
                    program([2, 3, 4], ["element", [1, 2, 3]]),
                ]
            },
        ),
        Case(
            "several in a row",
            {
                "programs": [
                    program([4, 5, 6], ["slice", 0, 1, None, 2], ["transpose", 0, 1], ["select", 2, -1]),
                    program([4, 1, 6], ["select", 0, 3], ["expand", [3, -1]], ["slice", 1, -4, 100, 3]),
                    program([3, 4], ["slice", 1, 3, 1, 1], ["transpose", -1, -2], strides=[5, 1], offset=2),
                ]
            },
        ),
        Case(
            "to be refused",
            {
                "programs": [
                    program([3, 4], ["slice", 0, None, None, -1], ["select", 0, 3], ["transpose", 0, 2]),
                    program([3, 4], ["expand", [6, 4]], ["expand", [4]], ["element", [1]], ["element", [1, -5]]),
                ]
            },
        ),
    ]


def probe(case: Case, strided: Any) -> Evidence:
    """Run each program, and note the state of the tensor after each operation."""
    runs = []
    with torch_calls() as called:
        for given in case.parameters["programs"]:
            data = list(given["data"])
            # As in the example of the text, a tensor that begins at the beginning is made without an offset.
            offset = [given["offset"]] if given["offset"] else []
            now = strided(data, tuple(given["sizes"]), tuple(given["strides"]), *offset)
            states = [state(now, data) | {"new": True}]
            for name, *arguments in given["operations"]:
                arguments = [tuple(one) if isinstance(one, list) else one for one in arguments]
                made: list[Any] = []

                def apply(
                    now: Any = now, name: str = name, arguments: Any = arguments, data: Any = data, made: Any = made
                ) -> dict[str, Any]:
                    before = numbers(now)
                    found = getattr(now, name)(*arguments)
                    if numbers(now) != before:
                        return {"changed": True}
                    if name == "element":
                        return {"value": whole_number(found)}
                    if not isinstance(found, strided):
                        return {"kind": type(found).__name__}
                    made.append(found)
                    return state(found, data) | {"new": found is not now}

                states.append(ask(apply))
                now = made[0] if made else now
            runs.append(states)
    return Evidence({"runs": runs, "torch_calls": called[:3]})


def numbers(tensor: Any) -> tuple[Any, ...]:
    """What no operation on a tensor may change."""
    return tensor.data, tuple(tensor.sizes), tuple(tensor.strides), tensor.offset


def state(tensor: Any, data: list[int]) -> dict[str, Any]:
    """What a tensor of the learner's says about itself, and every element that it hands out."""
    sizes, contiguous = whole_numbers(tensor.sizes), tensor.is_contiguous()
    elements = None
    if sizes is not None and all(size >= 0 for size in sizes) and prod(sizes) <= MOST_ELEMENTS:
        indices = product(*(range(size) for size in sizes))
        try:
            elements = [whole_number(tensor.element(index)) for index in indices]
        except (ValueError, LookupError):
            elements = None  # The numbers beside it say why.
    return {
        "sizes": sizes,
        "strides": whole_numbers(tensor.strides),
        "offset": whole_number(tensor.offset),
        "contiguous": contiguous if isinstance(contiguous, bool) else None,
        "elements": elements,
        "shares": tensor.data is data,
    }


def show(case: Case, evidence: Evidence) -> list[Any]:
    """Each program with what the tensor looks like after each step."""
    lines = [f"{case.name}: your tensors"]
    for given, states in zip(case.parameters["programs"], evidence.values["runs"], strict=True):
        for step, found in zip([["start"], *given["operations"]], states, strict=True):
            name, *arguments = step
            call = name if name == "start" else f"{name}({', '.join(map(str, arguments))})"
            lines.append(f"  {call:32} {_in_words(found)}")
        lines.append("")
    return ["\n".join(lines[:-1])]


def _in_words(found: dict[str, Any]) -> str:
    if "refused" in found:
        return f"refused ({found.get('kind', 'ValueError')}): {found['refused']}"
    if "value" in found:
        return f"{found['value']}"
    if "changed" in found:
        return "changed the tensor itself"
    if "kind" in found:
        return f"no Strided but {found['kind']}"
    return (
        f"sizes {found['sizes']}, strides {found['strides']}, offset {found['offset']}, "
        f"{'' if found['contiguous'] else 'not '}contiguous"
    )
