"""What strides and positions are: asked of PyTorch, on tensors without data."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, product
from math import prod
from operator import mul
from random import Random
from typing import Any

import torch

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.verdict import Agreement, Deviation
from autograder.exercises.day0.memory_layout.visible import visible_cases, with_layouts
from autograder.exercises.explaining import compared

MISCONCEPTIONS = {
    "asked PyTorch": "Your functions ask PyTorch. Work the numbers out: an allocator and a compiler have to, too.",
    "not whole numbers": (
        "`strides_of` returns a tuple of whole numbers, one for each dimension, and `position` returns one."
    ),
    "first dimension fastest": (
        "Your strides grow from left to right. In PyTorch the *last* dimension is the fastest: neighbours there are "
        "neighbours in memory, so its stride is 1."
    ),
    "sizes as strides": (
        "A stride is no size: it says how far you go in memory for the next index, which is the product of the sizes "
        "of all faster dimensions."
    ),
    "own size counted": (
        "You multiplied a dimension's own size into its stride. Only the sizes of the dimensions after it count, so "
        "the last one has stride 1."
    ),
    "layout ignored": "You ignored `channels_last`: in this layout the channels lie next to one another.",
    "strides in the order of memory": (
        "Channels last changes where elements lie, not the order of the dimensions: the strides still stand in the "
        "order (batch, channels, height, width), and the 1 belongs to the channels."
    ),
    "columns before rows": (
        "In the channels-last layout the pixels of a row lie side by side, and then comes the next row: a step in "
        "width is `channels` elements, a step in height is a whole row of pixels."
    ),
    "strides in bytes": "Your strides are counted in bytes of four-byte numbers. PyTorch counts them in elements.",
    "strides of ones": "A dimension of size 1 has a stride like any other: the product of the sizes that are faster.",
    "strides without dimensions": "A shape without dimensions has no strides: `strides_of(())` is `()`.",
    "one layout for both": (
        "With one channel, or with images of a single pixel, the elements lie in memory in one order, whichever layout "
        "it is. The strides still tell the layouts apart: a dimension of size 1 has a stride like any other, so work "
        "it out in the same way for all shapes."
    ),
    "an answer from before": (
        "You gave the answer to an earlier question, which differs from this one. If you keep results, look them up by "
        "*all* arguments."
    ),
    "wrong strides": "These are not the strides of a contiguous tensor.",
    "wrong channels-last strides": "These are not the strides of a tensor in the channels-last layout.",
    "position in bytes": "The position is counted in elements, not in bytes.",
    "position without strides": "You left the strides out: an index of 1 goes as far as the stride of its dimension.",
    "position counted from one": "Positions count from 0: the first element lies at position 0.",
    "position from sorted strides": (
        "You put the strides in order first. Each index belongs to the stride at its own place, whatever their order: "
        "in a transposed or channels-last tensor they do not fall from left to right."
    ),
    "stride of zero left out": (
        "A stride may be 0: then all indices of that dimension lie at the same place, and it adds nothing."
    ),
    "wrong position": "This is not the position: multiply each index by the stride of its dimension, then add.",
}

FROM_BEFORE = "an answer from before"
"""A mistake about several questions: a right answer to one of them does not speak against it."""

UNNAMED = ("wrong strides", "wrong channels-last strides", "wrong position")

PLACES: tuple[list[list[int]], ...] = (
    [[0, 0, 0], [12, 4, 1]],
    [[2, 0, 3], [1, 8, 2]],
    [[1, 2, 3, 1], [90, 1, 18, 3]],
    [[3, 2], [0, 1]],
    [[4, 1, 2], [5, 0, 0]],
    [[], []],
    [[9], [1]],
    [[2, 7, 1], [14, 2, 2]],
    [[2, 3, 6], [6, 4, 2]],
)
"""Indices of the first element, strides in every order, equal products, strides of 0, no dimensions at all."""


def hidden_cases(random: Random) -> list[Case]:
    """Sizes of 1 and no dimensions, then random shapes in both layouts, and random indices with others' strides."""
    cases = [
        Case(
            "hidden sizes of one",
            {
                "channels_last": False,
                "shapes": [[1], [], [3, 1], [1, 5], [6, 2, 1, 1, 3], [2, 2, 2, 2, 2, 2], *with_ones(random, 3)],
                "places": [list(place) for place in PLACES],
            },
        ),
        Case(
            "hidden channels last with ones",
            {
                "channels_last": True,
                "shapes": with_ones(random, 4),
                "places": [list(place) for place in PLACES[::-1]],
            },
        ),
        Case(
            "hidden equal sizes",
            {
                "channels_last": True,
                "shapes": [[2, 3, 4, 4], [3, 3, 5, 5], [4, 2, 2, 4], [2, 2, 2, 2], [5, 3, 3, 2]],
                "places": [list(place) for place in PLACES[:2]],
            },
        ),
    ]
    seen = {tuple(index) for case in (*cases, *visible_cases()) for index, _ in case.parameters["places"]}
    for number in range(4):
        channels_last = number % 2 == 1
        shapes, places = [], []
        for _ in range(4):
            shapes.append(random.sample(range(2, 12), 4 if channels_last else random.randint(2, 5)))
            other = random.sample(range(2, 12), random.randint(2, 5))
            steps = list(right_strides(other, False))
            random.shuffle(steps)
            index = [random.randrange(size) for size in other]
            while tuple(index) in seen:  # only `kept_apart` asks about one index twice
                index = [random.randrange(size) for size in other]
            seen.add(tuple(index))
            places.append([index, steps])
        parameters = {"channels_last": channels_last, "shapes": shapes, "places": places}
        cases.append(Case(f"hidden {number}", parameters))
    return [*cases, Case("hidden kept apart", kept_apart(random))]


def with_ones(random: Random, dimensions: int) -> list[list[int]]:
    """A shape for each choice of the dimensions that have size 1."""
    return [
        [size if other else 1 for size, other in zip(random.sample(range(2, 8), dimensions), choice, strict=True)]
        for choice in product((True, False), repeat=dimensions)
    ]


def kept_apart(random: Random) -> dict[str, Any]:
    """Questions that share an argument with an earlier one: who keeps answers by that one alone gives them again."""
    shapes = [random.sample(range(2, 12), 4) for _ in range(2)]
    index, steps = (random.sample(range(12, 22), 3) for _ in range(2))
    turned = [steps[1], steps[2], steps[0]]
    return {
        "channels_last": False,
        "shapes": [shape for shape in shapes for _ in range(2)],
        "layouts": [False, True, True, False],
        "places": [[index, steps], [index, turned], [[index[1], index[0], index[2]], steps]],
    }


def right_strides(shape: list[int], channels_last: bool) -> tuple[int, ...]:
    """What PyTorch says."""
    layout = torch.channels_last if channels_last else torch.contiguous_format
    return tuple(torch.empty(shape, device="meta", memory_format=layout).stride())


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str] | Deviation | Agreement]:
    """Strides and positions one by one, each with the mistakes that would have given it."""
    given, values = case.parameters, evidence.values
    if values["torch_calls"]:
        yield "asked PyTorch", f"(it called {', '.join(map(str, values['torch_calls']))})"
        return
    asked_before = [list(question) for visible in visible_cases() for question in with_layouts(visible)]
    asked_here: list[tuple[list[int], list[int]]] = []
    for (shape, channels_last), found in zip(with_layouts(case), values["strides"], strict=True):
        wanted, asked = list(right_strides(shape, channels_last)), f"for {tuple(shape)}, {channels_last}"
        if not isinstance(found, list):
            yield "not whole numbers", f"({asked}: expected {tuple(wanted)})"
            return
        # Who keeps answers gives that of a question which has something in common with this one.
        before = [answer for other, answer in asked_here if sorted(other) == sorted(shape)]
        under = strides_under_mistakes(shape, channels_last) | {FROM_BEFORE: [*before, wanted]}
        if channels_last and [shape, False] in asked_before:
            under[FROM_BEFORE].append(by_products(shape))
        asked_here.append((shape, wanted))
        question = "wrong channels-last strides" if channels_last else "wrong strides"
        yield compared(question, found, wanted, under, asked, sum(shape))
    places_here: list[tuple[list[int], list[int], int]] = []
    for (index, strides), found in zip(given["places"], values["positions"], strict=True):
        place, asked = position_of(index, strides), f"for {tuple(index)} and strides {tuple(strides)}"
        if not isinstance(found, int):
            yield "not whole numbers", f"({asked}: expected {place})"
            return
        known = [
            answer
            for other, steps, answer in places_here
            if sorted(other) == sorted(index) or sorted(steps) == sorted(strides)
        ]
        mistaken = positions_under_mistakes(index, strides) | {FROM_BEFORE: [*known, place]}
        places_here.append((index, strides, place))
        yield compared("wrong position", found, place, mistaken, asked, sum(strides))


def position_of(index: list[int], strides: list[int]) -> int:
    """How many elements lie before the one at `index`."""
    return sum(i * stride for i, stride in zip(index, strides, strict=True))


def by_products(shape: list[int]) -> list[int]:
    """The strides of a contiguous tensor, computed from its sizes."""
    return [prod(shape[axis + 1 :]) for axis in range(len(shape))]


def strides_under_mistakes(shape: list[int], channels_last: bool) -> dict[str, list[list[int]]]:
    """The strides that would come out under each mistake."""
    right = list(right_strides(shape, channels_last))
    under = {
        "first dimension fastest": [list(accumulate([1, *shape[:-1]], mul)) if shape else []],
        "sizes as strides": [shape, [*shape[1:], 1]],
        "own size counted": [[prod(shape[axis:]) for axis in range(len(shape))]],
        "strides in bytes": [[4 * stride for stride in right]],
        "strides of ones": [
            [value if size == 1 else stride for size, stride in zip(shape, right, strict=True)] for value in (0, 1)
        ],
        "strides without dimensions": [right] if shape else [[1], [0]],
    }
    if channels_last:
        batch, channels, height, width = shape
        under |= {
            "layout ignored": [by_products(shape)],
            "strides in the order of memory": [by_products([batch, height, width, channels])],
            "one layout for both": [
                by_products(shape) if same else right
                for same in (height == width == 1, channels == 1, channels == 1 or height == width == 1)
            ],
            "columns before rows": [[height * width * channels, 1, channels, height * channels]],
        }
    return under


def positions_under_mistakes(index: list[int], strides: list[int]) -> dict[str, list[int]]:
    """The positions that would come out under each mistake."""
    right = position_of(index, strides)
    return {
        "position in bytes": [4 * right],
        "position counted from one": [right + 1],
        "position without strides": [prod(index), sum(index)],
        "position from sorted strides": [position_of(index, sorted(strides, reverse=True))],
        "stride of zero left out": [position_of(index, [stride or 1 for stride in strides])],
    }
