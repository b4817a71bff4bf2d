"""What the shapes are: asked of PyTorch, on tensors without data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import torch
from torch.nn import functional

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.verdict import Agreement, Deviation
from autograder.exercises.day0.conv_output_shape.visible import ARGUMENTS, convolution
from autograder.exercises.explaining import compared

MISCONCEPTIONS = {
    "asked PyTorch": (
        "Your function asks PyTorch for the shape. Work it out from the numbers: you will need the rule when there is "
        "no tensor yet."
    ),
    "not four sizes": "Return four whole numbers: batch, channels, height, width. `//` keeps them whole, `/` does not.",
    "input channels kept": "The output has `out_channels` channels: each filter gives one.",
    "padding on one side": "Padding goes on both sides, so it counts twice in each direction.",
    "rounded up": "A last window that no longer fits is left out: round down, not up.",
    "forgot the first window": (
        "You counted the steps, not the windows: there is one window before the first step, so add one."
    ),
    "dilation ignored": (
        "With dilation d, a kernel of k values covers d * (k - 1) + 1 positions, because there are gaps between them."
    ),
    "one gap too many": (
        "You let each of the k values take d positions. There are only k - 1 gaps between k values, and none after the "
        "last: the kernel covers d * (k - 1) + 1 positions."
    ),
    "stride ignored": "With stride s you compute only every s-th window: divide the room to move by the stride.",
    "stride before room": (
        "You divided the padded size by the stride and then took the kernel off. Take the kernel off first: the stride "
        "divides the room that is left to move in."
    ),
    "kernel of one left alone": (
        "Where the kernel is 1, you left out the stride or the padding. Such a kernel moves in steps of `stride`, too, "
        "over an input that `padding` has made larger."
    ),
    "height for width": "You used one of the height's numbers for the width, too. They may differ.",
    "height and width swapped": "You have height and width the wrong way round: every pair is (height, width).",
    "an answer from before": (
        "You gave the answer to an earlier question, which differs from this one. If you keep results, look them up by "
        "*all* arguments: each of them has a say in the shape."
    ),
    "wrong shape": "This is not the shape that comes out.",
}

UNNAMED = ("wrong shape",)

SMALL = (
    ([3, 2, 7, 9], 4, [1, 1], [2, 3], [0, 0], [1, 1]),
    ([2, 3, 5, 6], 7, [1, 1], [1, 1], [2, 1], [1, 1]),
    ([1, 5, 4, 8], 6, [1, 1], [3, 2], [1, 2], [3, 2]),
    ([4, 6, 9, 9], 5, [1, 3], [2, 2], [1, 0], [1, 1]),
    ([2, 1, 10, 4], 3, [3, 1], [1, 4], [0, 1], [2, 1]),
)
"""Kernels of one, with strides, padding and dilation."""

TIGHT = (
    ([2, 3, 3, 5], 4, [3, 5], [1, 1], [0, 0], [1, 1]),
    ([1, 4, 5, 9], 2, [3, 3], [2, 5], [0, 0], [2, 4]),
    ([3, 2, 1, 1], 5, [3, 3], [1, 1], [1, 1], [1, 1]),
    ([6, 1, 2, 3], 3, [4, 2], [7, 9], [1, 0], [1, 1]),
    ([5, 7, 6, 8], 9, [2, 4], [5, 3], [0, 2], [1, 1]),
    ([2, 8, 12, 7], 1, [2, 2], [2, 2], [3, 4], [5, 6]),
    ([0, 3, 6, 7], 4, [3, 3], [1, 2], [0, 1], [1, 1]),
)
"""Windows that fit exactly, once, or with almost a whole step left over; even kernels; padding larger than a kernel.

The last has no image at all.
"""

UNEVEN = (
    ([2, 3, 20, 20], 5, [3, 3], [2, 1], [1, 1], [1, 1]),
    ([2, 3, 21, 21], 5, [3, 3], [1, 1], [2, 0], [1, 1]),
    ([2, 3, 22, 22], 5, [3, 3], [1, 1], [0, 0], [1, 3]),
    ([2, 3, 23, 23], 5, [2, 7], [1, 1], [0, 0], [1, 1]),
    ([2, 3, 14, 31], 5, [3, 3], [1, 1], [1, 1], [1, 1]),
)
"""Height and width differ in one number at a time."""

SAME = (
    ([2, 3, 18, 18], 5, [2, 4], [1, 1], [1, 2], [1, 1]),
    ([2, 3, 18, 18], 5, [2, 4], [2, 2], [1, 2], [1, 1]),
    ([2, 3, 18, 18], 5, [2, 4], [2, 2], [0, 1], [1, 1]),
    ([2, 3, 18, 18], 5, [3, 3], [1, 1], [1, 1], [2, 3]),
    ([2, 3, 18, 18], 6, [3, 3], [1, 1], [1, 1], [1, 1]),
    ([2, 3, 2, 1], 6, [3, 5], [1, 2], [4, 3], [1, 1]),
)
"""One input for many layers: padding of half a kernel, which keeps the size of odd kernels only; padding beyond it."""


def hidden_cases(random: Random) -> list[Case]:
    """What is easily overlooked, then convolutions with every number drawn at random, whose windows fit."""
    cases = [
        Case(f"hidden {name}", {"convolutions": [convolution(*given) for given in fixed]})
        for name, fixed in (("kernels of one", SMALL), ("tight", TIGHT), ("uneven", UNEVEN), ("half a kernel", SAME))
    ]
    for number in range(2):
        convolutions = []
        for _ in range(6):
            kernel, stride, padding, dilation = (
                [random.randint(low, high) for _ in range(2)] for low, high in ((1, 5), (1, 4), (0, 3), (1, 3))
            )
            shape = [random.randint(1, 9), random.randint(1, 9), random.randint(14, 60), random.randint(14, 60)]
            convolutions.append(convolution(shape, random.randint(10, 30), kernel, stride, padding, dilation))
        cases.append(Case(f"hidden {number}", {"convolutions": convolutions}))
    return [*cases, Case("hidden one number at a time", {"convolutions": one_number_at_a_time(random)})]


def one_number_at_a_time(random: Random) -> list[dict[str, Any]]:
    """A convolution, then others that differ from it in one number each, and in the shape that comes out.

    Who keeps results and looks them up by some of the numbers gives the first answer again.
    """
    shape = [random.randint(2, 5), random.randint(2, 5), random.randint(30, 40), random.randint(30, 40)]
    first = convolution(shape, random.randint(6, 9), [3, 4], [2, 3], [1, 2], [2, 1])
    others = [{**first, "out_channels": first["out_channels"] + random.randint(1, 9)}]
    for name in ("input_shape", *ARGUMENTS):
        for place in (0, 2, 3) if name == "input_shape" else (0, 1):
            one = {**first, name: list(first[name])}
            while by_rule(one, by_formula) == by_rule(first, by_formula):
                one[name][place] += 1
            others.append(one)
    random.shuffle(others)
    return [first, *others]


def shape_of(given: dict[str, Any]) -> list[int]:
    """What PyTorch says."""
    values = torch.empty(given["input_shape"], device="meta")
    weight = torch.empty(given["out_channels"], values.shape[1], *given["kernel_size"], device="meta")
    return list(functional.conv2d(values, weight, None, given["stride"], given["padding"], given["dilation"]).shape)


Rule = Callable[[int, int, int, int, int], int]
"""Output size of one direction from size, kernel, stride, padding and dilation."""


def by_formula(n: int, k: int, s: int, p: int, d: int) -> int:
    """The size of one direction, computed from the numbers."""
    return (n + 2 * p - d * (k - 1) - 1) // s + 1


MISTAKES: dict[str, tuple[Rule, ...]] = {
    "padding on one side": (lambda n, k, s, p, d: by_formula(n - p, k, s, p, d),),
    "rounded up": (lambda n, k, s, p, d: math.ceil((n + 2 * p - d * (k - 1) - 1) / s) + 1,),
    "forgot the first window": (lambda n, k, s, p, d: by_formula(n, k, s, p, d) - 1,),
    "dilation ignored": (lambda n, k, s, p, d: by_formula(n, k, s, p, 1),),
    "one gap too many": (lambda n, k, s, p, d: (n + 2 * p - d * k) // s + 1,),
    "stride ignored": (lambda n, k, s, p, d: by_formula(n, k, 1, p, d),),
    "stride before room": (lambda n, k, s, p, d: (n + 2 * p) // s - d * (k - 1),),
    "kernel of one left alone": (
        lambda n, k, s, p, d: n if k == 1 else by_formula(n, k, s, p, d),
        lambda n, k, s, p, d: math.ceil(n / s) if k == 1 else by_formula(n, k, s, p, d),
        lambda n, k, s, p, d: n + 2 * p if k == 1 else by_formula(n, k, s, p, d),
    ),
}
"""The sizes that come out under a mistake about one direction, one rule for each way to make it."""


def by_rule(given: dict[str, Any], rule: Rule) -> list[int]:
    """The shape under a rule for one direction."""
    directions = zip(given["input_shape"][2:], *(given[name] for name in ARGUMENTS), strict=True)
    return [given["input_shape"][0], given["out_channels"], *(rule(*direction) for direction in directions)]


def under_mistakes(given: dict[str, Any]) -> dict[str, list[list[int]]]:
    """The shapes that would come out under each mistake."""
    right = by_rule(given, by_formula)
    turned = {**given, **{name: given[name][::-1] for name in ARGUMENTS}}
    both = [{**given, name: [given[name][0]] * 2} for name in ARGUMENTS]
    both.append({**given, **{name: [given[name][0]] * 2 for name in ARGUMENTS}})
    return {name: [by_rule(given, rule) for rule in rules] for name, rules in MISTAKES.items()} | {
        "input channels kept": [[right[0], given["input_shape"][1], *right[2:]]],
        "height and width swapped": [[*right[:2], right[3], right[2]], by_rule(turned, by_formula)],
        "height for width": [by_rule(one, by_formula) for one in both],
    }


def have_much_in_common(given: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether kept answers may take one question for the other: equal inputs, or equal in all arguments but one.

    Elsewhere that two shapes are equal is chance, and says nothing about why one of them was given.
    """
    return given["input_shape"] == other["input_shape"] or sum(given[name] != other[name] for name in given) == 1


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str] | Deviation | Agreement]:
    """The shapes one by one, each with the mistakes that would have given it."""
    if evidence.values["torch_calls"]:
        yield "asked PyTorch", f"(it called {', '.join(map(str, evidence.values['torch_calls']))})"
        return
    asked_here: list[tuple[dict[str, Any], list[int]]] = []
    for given, found in zip(case.parameters["convolutions"], evidence.values["shapes"], strict=True):
        wanted = shape_of(given)
        asked = ", ".join(f"{name} {value}" for name, value in given.items())
        if not isinstance(found, list) or len(found) != 4:
            yield "not four sizes", f"(for {asked}: expected {wanted}, found {found})"
            return
        # A right answer says nothing against it: only some numbers may be left out of what answers are kept by.
        before = [answer for other, answer in asked_here if have_much_in_common(given, other)]
        under = under_mistakes(given) | {"an answer from before": [*before, wanted]}
        yield compared("wrong shape", found, wanted, under, f"for {asked}", sum(given["input_shape"]))
        asked_here.append((given, wanted))
