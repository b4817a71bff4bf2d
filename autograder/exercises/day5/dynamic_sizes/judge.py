"""The truth by trying: which sizes can be changed alone, which together, which not at all."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from random import Random

import torch

from autograder.exchange.evidence import Case, Evidence
from autograder.exercises.day5.dynamic_sizes.visible import MODELS, make_example

MISCONCEPTIONS = {
    "no sizes": (
        "Return a dictionary from each input's name to a list with one entry a dimension: the number where the size is "
        "fixed, else a name (a string)."
    ),
    "froze the first dimension": (
        "You report dimension 0 as fixed, though the model takes any batch. An example of size 1 makes the exporter "
        "believe that 1 is meant: repeat it before you export. And without `dynamic_shapes` every size is fixed."
    ),
    "first dimension only": "You looked at dimension 0 only: the length and others may vary, too.",
    "everything varies": (
        "You report a size as variable that the model holds fixed, by its weights or by a number in its program. The "
        "exporter knows: such a size is a plain number in the exported graph."
    ),
    "independent sizes": (
        "Two sizes that must be equal have different names in your answer. Sizes with the same symbol are one size: "
        "called with different values, the model fails."
    ),
    "tied by chance": (
        "Two sizes have the same name in your answer, though the model takes different values for them. Equal in the "
        "example is not equal always."
    ),
    "wrong number": "A fixed size is not the number that the model needs.",
}


def hidden_cases(random: Random) -> list[Case]:
    """Other sizes, some of them 1, some equal by chance."""
    cases = []
    for model in MODELS:
        first, second = random.sample(range(3, 9), 2)
        sizes = random.choice([[1, second], [first, first], [first, second]])
        cases.append(Case(f"hidden {model}", {"model": model, "width": random.randint(10, 14), "sizes": sizes}))
    return cases


def varies_together(case: Case) -> dict[tuple[str, int], frozenset[tuple[str, int]]]:
    """For each size the smallest set of sizes, itself among them, that can be changed while the rest stays.

    A size without an entry is fixed.
    """
    model, example = MODELS[case.parameters["model"]](case.parameters["width"]), make_example(case)
    # No size 1: it would be broadcast, and all others distinct where the model lets them.
    start = {name: [size if size > 1 else 2 for size in value.shape] for name, value in example.items()}
    places = [(name, i) for name, shape in start.items() for i in range(len(shape))]
    found: dict[tuple[str, int], frozenset[tuple[str, int]]] = {}
    for number in (1, 2):
        for together in itertools.combinations(places, number):
            if any(place in found for place in together):
                continue
            shapes = {name: list(shape) for name, shape in start.items()}
            if len({shapes[name][i] for name, i in together}) > 1:
                continue
            for name, i in together:
                shapes[name][i] += 17
            inputs = {name: torch.ones(shapes[name], dtype=value.dtype) for name, value in example.items()}
            try:
                model(**inputs)
            except (RuntimeError, IndexError):
                continue
            found |= dict.fromkeys(together, frozenset(together))
    return found


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """Names of misconceptions with the figures of this case, the most telling first."""
    sizes, example = evidence.values["sizes"], make_example(case)
    if sizes is None or any(
        not isinstance(sizes.get(name), list) or len(sizes[name]) != value.dim() for name, value in example.items()
    ):
        yield "no sizes", ""
        return
    truth = varies_together(case)
    said = {(name, i): sizes[name][i] for name, value in example.items() for i in range(value.dim())}
    for (name, i), size in said.items():
        detail = f"(dimension {i} of {name}: {size})"
        if (name, i) not in truth:
            if isinstance(size, str):
                yield "everything varies", detail
                return
            if size != example[name].shape[i]:
                yield "wrong number", detail
                return
        elif not isinstance(size, str):
            yield ("froze the first dimension" if i == 0 else "first dimension only"), detail
            return
    for one, other in itertools.combinations(truth, 2):
        tied = other in truth[one]
        if tied != (said[one] == said[other]):
            names = f"(dimension {one[1]} of {one[0]} and dimension {other[1]} of {other[0]})"
            yield ("independent sizes" if tied else "tied by chance"), names
            return
