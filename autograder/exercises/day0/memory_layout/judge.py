"""What strides and positions are: asked of PyTorch, on tensors without data."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from math import prod
from random import Random
from typing import Any

import torch

from autograder.exchange.evidence import Case, Evidence

MISCONCEPTIONS = {
    "asked PyTorch": "Your functions ask PyTorch. Work the numbers out: an allocator and a compiler have to, too.",
    "not whole numbers": (
        "`strides_of` returns a tuple of whole numbers, one for each dimension, and `position` returns one."
    ),
    "first dimension fastest": (
        "Your strides grow from left to right. In PyTorch the *last* dimension is the fastest: its neighbours are "
        "neighbours in memory, so its stride is 1."
    ),
    "sizes as strides": (
        "A stride is not the size of its own dimension: it is how far one must go for the next index, which is the "
        "product of the sizes of all faster dimensions."
    ),
    "layout ignored": "You ignored `channels_last`: in this layout the channels lie next to one another.",
    "strides in the order of memory": (
        "Channels last changes where elements lie, not the order of the dimensions: the strides still stand in the "
        "order (batch, channels, height, width), and the 1 belongs to the channels."
    ),
    "wrong strides": "These are not the strides.",
    "position in bytes": "The position is counted in elements, not in bytes.",
    "position without strides": "You left the strides out: an index of 1 goes as far as the stride of its dimension.",
    "position counted from one": "Positions count from 0: the first element lies at position 0.",
    "wrong position": "These are not the positions: multiply each index by the stride of its dimension, then add.",
}


def hidden_cases(random: Random) -> list[Case]:
    """Random shapes in both layouts, and random indices with the strides of other shapes."""
    cases = []
    for number in range(4):
        channels_last = number % 2 == 1
        shapes, places = [], []
        for _ in range(4):
            shapes.append(random.sample(range(2, 12), 4 if channels_last else random.randint(2, 5)))
            other = random.sample(range(2, 12), random.randint(2, 5))
            places.append([[random.randrange(1, size) for size in other], list(right_strides(other, False))])
        parameters = {"channels_last": channels_last, "shapes": shapes, "places": places}
        cases.append(Case(f"hidden {number}", parameters))
    return cases


def right_strides(shape: list[int], channels_last: bool) -> tuple[int, ...]:
    """What PyTorch says."""
    made = torch.empty(shape, device="meta")
    if channels_last:
        made = made.contiguous(memory_format=torch.channels_last)
    return tuple(made.stride())


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """The misconceptions that explain strides and positions best, where they are not right."""
    given, values = case.parameters, evidence.values
    wanted = [list(right_strides(shape, given["channels_last"])) for shape in given["shapes"]]
    places = [_sum_of_products(index, strides) for index, strides in given["places"]]
    if values["torch_calls"]:
        yield "asked PyTorch", f"(it called {', '.join(values['torch_calls'])})"
        return
    if None in values["strides"] or None in values["positions"]:
        yield "not whole numbers", ""
        return
    if values["strides"] != wanted:
        yield _why_these_strides(given, values["strides"]), f"(for {given['shapes'][0]}: found {values['strides'][0]})"
    if values["positions"] != places:
        yield _why_these_positions(given, places, values["positions"]), f"(found {values['positions']})"


def _sum_of_products(index: list[int], factors: list[int]) -> int:
    return sum(i * factor for i, factor in zip(index, factors, strict=True))


def _why_these_strides(given: dict[str, Any], found: list[list[int]]) -> str:
    shapes, channels_last = given["shapes"], given["channels_last"]
    if channels_last:
        if found == [list(right_strides(shape, False)) for shape in shapes]:
            return "layout ignored"
        in_memory = [[shape[0], shape[2], shape[3], shape[1]] for shape in shapes]
        if found == [list(right_strides(shape, False)) for shape in in_memory]:
            return "strides in the order of memory"
    if found == [list(accumulate([1, *shape[:-1]], lambda a, b: a * b)) for shape in shapes]:
        return "first dimension fastest"
    if found in (shapes, [[*shape[1:], 1] for shape in shapes]):
        return "sizes as strides"
    return "wrong strides"


def _why_these_positions(given: dict[str, Any], wanted: list[int], found: list[int]) -> str:
    if found == [4 * place for place in wanted]:
        return "position in bytes"
    if found == [place + 1 for place in wanted]:
        return "position counted from one"
    if found == [prod(index) for index, _ in given["places"]] or found == [sum(index) for index, _ in given["places"]]:
        return "position without strides"
    return "wrong position"
