"""The truth by trying: which sizes can be changed alone, which together, which not at all."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from random import Random
from typing import Any

import torch

from autograder.exchange.evidence import Case, Evidence
from autograder.exercises.day5.dynamic_sizes.visible import MODELS, make_example

MISCONCEPTIONS = {
    "no sizes": (
        "Return a dictionary from each input's name to a list with one entry for each dimension: the number where the "
        "size is fixed, else a name (a string)."
    ),
    "weights among the inputs": (
        "There are names in your answer that are not in the example. An exported program has placeholders for weights, "
        "too: leave them out."
    ),
    "froze the first dimension": (
        "You report dimension 0 as fixed, though the model takes any batch. An example of size 1 makes the exporter "
        "believe that 1 is meant: repeat it before you export. One size that must stay 1 doesn't keep the others at 1. "
        "And without `dynamic_shapes` every size is fixed."
    ),
    "ones tried alone": (
        "You report sizes of 1 as fixed that may vary, but only together: when one of them becomes 2, the other has "
        "to. Try several at a time: all of them, else all but one, and so on."
    ),
    "not tried together": (
        "You report sizes as fixed that may vary, but only together: of those that have to be equal, all change at a "
        "time, in one input or in several."
    ),
    "first dimension only": "You looked at dimension 0 only: the length and others may vary, too.",
    "everything varies": (
        "You report a size as variable that the model holds fixed, by its weights or by a number in its program. The "
        "exporter knows: such a size is a plain number in the exported graph. Return it as an `int`: '5' is a name."
    ),
    "independent sizes": (
        "Two sizes that must be equal have different names in your answer. Sizes with the same symbol are one size: "
        "called with different values, the model fails."
    ),
    "tied by chance": (
        "Two sizes have the same name in your answer, though the model takes different values for them. Equal in the "
        "example is not equal always."
    ),
    "one tensor under two names": (
        "Two sizes have the same name in your answer, though the model takes different values for them. In this "
        "example one tensor has two names, and the exporter takes it for one input wherever it stands: give it a copy "
        "for each name (`copy.deepcopy` of the dictionary makes only one). Equal in the example is not equal always."
    ),
    "equal though one is larger": (
        "Two sizes have the same name in your answer, though one is always larger, twice the other, say: they vary "
        "together, and are never equal. The exporter writes `s0` for one and `2*s0` for the other; take the whole text."
    ),
    "varies with another": (
        "You report a size as fixed that may vary together with another one, which has to be twice as large or half as "
        "large. Change both at a time."
    ),
    "range with an end": (
        "You report a size as fixed that may vary within a range: this model takes any length up to a limit, or from a "
        "limit on. To try a single size is not enough, and a range with an end is still a range."
    ),
    "wrong number": "A fixed size is not the number that the model needs.",
}


FIXED: dict[str, dict[str, Any]] = {
    "up to the end of a table": {"model": "placed", "width": 3, "sizes": [4, 6]},
    "up to the end of a table, one row": {"model": "placed", "width": 5, "sizes": [1, 11]},
    "weights of width one, one row": {"model": "dense", "width": 1, "sizes": [1, 4]},
    "two sizes of one input": {"model": "square", "width": 3, "sizes": [4, 4]},
    "three inputs": {"model": "three", "width": 3, "sizes": [2, 6]},
    "three inputs, one row": {"model": "three", "width": 3, "sizes": [1, 6]},
    "one row for each row": {"model": "shifted", "width": 3, "sizes": [3, 5]},
    "one row for one row": {"model": "shifted", "width": 3, "sizes": [1, 5]},
    "an inner size of one": {"model": "matched", "width": 1, "sizes": [3, 5]},
    "equal by chance": {"model": "dense", "width": 4, "sizes": [4, 4]},
    "equal by chance, each with each": {"model": "matched", "width": 5, "sizes": [5, 5]},
    "equal by chance, a mask": {"model": "masked", "width": 4, "sizes": [4, 4]},
    "one size twice the other": {"model": "paired", "width": 3, "sizes": [3, 5]},
    "three sizes in proportion": {"model": "proportional", "width": 3, "sizes": [3, 5]},
    "from the fourth place on": {"model": "windowed", "width": 3, "sizes": [3, 4]},
    "two weights of width one, one row": {"model": "both", "width": 1, "sizes": [1, 1]},
    "last and first": {"model": "product", "width": 4, "sizes": [3, 5]},
    "in another order": {"model": "masked", "width": 3, "sizes": [3, 5], "reversed": True},
}
"""Cases that are the same for every seed."""


def hidden_cases(random: Random) -> list[Case]:
    """Other sizes, some of them 1, some equal by chance; and a case for each way in which sizes can depend."""
    cases = []
    for model in ("dense", "masked", "matched", "reshaped"):
        first, second = random.sample(range(3, 9), 2)
        sizes = random.choice([[1, second], [first, first], [first, second]])
        cases.append(Case(f"hidden {model}", {"model": model, "width": random.randint(10, 14), "sizes": sizes}))
    rows, width = random.sample(range(3, 9), 2)
    shared: dict[str, dict[str, Any]] = {
        "one tensor twice": {"model": "matched", "width": width, "sizes": [rows, rows]},
        "one matrix twice": {"model": "product", "width": width, "sizes": [width, width]},
        "one row twice": {"model": "matched", "width": width, "sizes": [1, 1]},
    }
    cases += [Case(f"hidden {name}", given) for name, given in FIXED.items()]
    return [*cases, *(Case(f"hidden {name}", given | {"same": True}) for name, given in shared.items())]


Place = tuple[str, int]
"""An input and one of its dimensions."""

Shapes = dict[str, list[int]]


def runs(case: Case, shapes: Shapes) -> bool:
    """Whether the model takes inputs of these shapes."""
    example = make_example(case)
    inputs = {name: torch.ones(shapes[name], dtype=value.dtype) for name, value in example.items()}
    try:
        MODELS[case.parameters["model"]](case.parameters["width"])(**inputs)
    except (RuntimeError, IndexError, ValueError):
        return False
    return True


def without_ones(case: Case) -> Shapes:
    """The example's shapes, where as many sizes of 1 as the model lets are 2: a size of 1 would be broadcast."""
    shapes = {name: list(value.shape) for name, value in make_example(case).items()}
    ones = [(name, i) for name, shape in shapes.items() for i, size in enumerate(shape) if size == 1]
    for kept in range(len(ones) + 1):
        for left in itertools.combinations(ones, kept):
            found = {name: list(shape) for name, shape in shapes.items()}
            for name, i in ones:
                found[name][i] = 1 if (name, i) in left else 2
            if runs(case, found):
                return found
    return shapes


def varies_together(case: Case, more: int = 1) -> dict[Place, frozenset[Place]]:
    """For each size the smallest set of sizes, itself among them, that can be changed while the rest stays.

    Sizes of a set that are equal change by as much, and one that is twice another by twice as much. A size without an
    entry is fixed.

    Args:
        case: the case.
        more: by how much the smallest are changed. A size that may vary up to a limit takes one more, and not many.
    """
    start = without_ones(case)
    places = [(name, i) for name, shape in start.items() for i in range(len(shape)) if shape[i] > 1]
    found: dict[Place, frozenset[Place]] = {}
    for number in range(1, 4):
        for together in itertools.combinations(places, number):
            if any(place in found for place in together):
                continue
            shapes = {name: list(shape) for name, shape in start.items()}
            common = math.gcd(*(start[name][i] for name, i in together))
            for name, i in together:
                shapes[name][i] += more * (start[name][i] // common)
            if runs(case, shapes):
                found |= dict.fromkeys(together, frozenset(together))
    return found


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """Names of misconceptions with the figures of this case, the most telling first."""
    sizes, example = evidence.values["sizes"], make_example(case)
    if sizes is None:
        yield "no sizes", ""
        return
    for name, value in example.items():
        if not isinstance(sizes.get(name), list) or len(sizes[name]) != value.dim():
            yield "no sizes", f"({name} has {value.dim()} dimensions; found {sizes.get(name, 'nothing')})"
            return
    others = [name for name in sizes if name not in example]
    if others:
        yield "weights among the inputs", f"({', '.join(others)[:200]})"
        return
    truth, start = varies_together(case), without_ones(case)
    said = {(name, i): sizes[name][i] for name, value in example.items() for i in range(value.dim())}
    for (name, i), size in said.items():
        detail = f"(dimension {i} of {name}: {size!r})"
        if (name, i) not in truth:
            if isinstance(size, str):
                yield "everything varies", detail
                return
            if size != example[name].shape[i]:
                yield "wrong number", detail
                return
        elif not isinstance(size, str):
            if len({start[place[0]][place[1]] for place in truth[name, i]}) > 1:
                yield "varies with another", detail
                return
            if any((name, i) not in varies_together(case, more) for more in (17, -1)):
                yield "range with an end", detail
                return
            together = truth[name, i]
            if len(together) > 1 and all(said[place] == example[place[0]].shape[place[1]] == 1 for place in together):
                yield "ones tried alone", detail
                return
            if len(together) > 1:
                yield "not tried together", detail
                return
            yield ("froze the first dimension" if i == 0 else "first dimension only"), detail
            return
    for one, other in itertools.combinations(truth, 2):
        bound = other in truth[one]
        tied = bound and start[one[0]][one[1]] == start[other[0]][other[1]]
        if tied != (said[one] == said[other]):
            names = f"(dimension {one[1]} of {one[0]} and dimension {other[1]} of {other[0]})"
            if tied:
                yield "independent sizes", names
            elif bound:
                yield "equal though one is larger", names
            else:
                yield ("one tensor under two names" if case.parameters.get("same") else "tied by chance"), names
            return
