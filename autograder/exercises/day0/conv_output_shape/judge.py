"""What the shapes are: asked of PyTorch, on tensors without data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import torch
from torch.nn import functional

from autograder.exchange.evidence import Case, Evidence
from autograder.exercises.day0.conv_output_shape.visible import convolution

MISCONCEPTIONS = {
    "asked PyTorch": (
        "Your function asks PyTorch for the shape. Work it out from the numbers: you will need the rule when there is "
        "no tensor yet."
    ),
    "not four sizes": "Return four whole numbers: batch, channels, height, width; `//` keeps them whole, `/` does not.",
    "input channels kept": "The output has `out_channels` channels: each of the filters gives one channel.",
    "padding on one side": "Padding is added on both sides: it counts twice in each direction.",
    "rounded up": "A last window that does not fit any more is left out: round down, not up.",
    "forgot the first window": (
        "You counted the steps, not the windows: there is one window before the first step, so add one."
    ),
    "dilation ignored": (
        "With dilation d a kernel of k values spans d * (k - 1) + 1 positions, since there are gaps between the values."
    ),
    "stride ignored": "With stride s only every s-th window is computed: divide the room to move by the stride.",
    "stride before room": (
        "You divided the padded size by the stride and then took the kernel off. Take the kernel off first: the stride "
        "divides the room that is left to move in."
    ),
    "height and width swapped": "You have height and width the wrong way round: every pair is (height, width).",
    "wrong shape": "These are not the shapes.",
}


def hidden_cases(random: Random) -> list[Case]:
    """Convolutions with every number drawn at random, so that the output has at least one position."""
    cases = []
    for number in range(3):
        convolutions = []
        for _ in range(6):
            kernel, stride, padding, dilation = (
                [random.randint(low, high) for _ in range(2)] for low, high in ((2, 5), (1, 4), (0, 3), (1, 3))
            )
            shape = [random.randint(1, 9), random.randint(1, 9), random.randint(14, 60), random.randint(14, 60)]
            convolutions.append(convolution(shape, random.randint(10, 30), kernel, stride, padding, dilation))
        cases.append(Case(f"hidden {number}", {"convolutions": convolutions}))
    return cases


def shape_of(given: dict[str, Any]) -> list[int]:
    """What PyTorch says."""
    values = torch.empty(given["input_shape"], device="meta")
    weight = torch.empty(given["out_channels"], values.shape[1], *given["kernel_size"], device="meta")
    return list(functional.conv2d(values, weight, None, given["stride"], given["padding"], given["dilation"]).shape)


Rule = Callable[[int, int, int, int, int], float]
"""Output size of one direction from size, kernel, stride, padding and dilation."""

MISTAKES: dict[str, Rule] = {
    "padding on one side": lambda n, k, s, p, d: (n + p - d * (k - 1) - 1) // s + 1,
    "rounded up": lambda n, k, s, p, d: math.ceil((n + 2 * p - d * (k - 1) - 1) / s) + 1,
    "forgot the first window": lambda n, k, s, p, d: (n + 2 * p - d * (k - 1) - 1) // s,
    "dilation ignored": lambda n, k, s, p, d: (n + 2 * p - k) // s + 1,
    "stride ignored": lambda n, k, s, p, d: n + 2 * p - d * (k - 1),
    "stride before room": lambda n, k, s, p, d: (n + 2 * p) // s - d * (k - 1),
}


def by_rule(given: dict[str, Any], rule: Rule) -> list[float]:
    """The shape under a rule for one direction."""
    directions = zip(
        given["input_shape"][2:],
        given["kernel_size"],
        given["stride"],
        given["padding"],
        given["dilation"],
        strict=True,
    )
    return [given["input_shape"][0], given["out_channels"], *(rule(*direction) for direction in directions)]


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """The one misconception that explains the answers best, if they are not right."""
    asked, found = case.parameters["convolutions"], evidence.values["shapes"]
    wanted = [shape_of(given) for given in asked]
    if evidence.values["torch_calls"]:
        yield "asked PyTorch", f"(it called {', '.join(evidence.values['torch_calls'])})"
        return
    if found == wanted:
        return
    first = next(i for i, (answer, right) in enumerate(zip(found, wanted, strict=True)) if answer != right)
    yield _explain(asked, found, wanted), f"(for {asked[first]}: found {found[first]})"


def _explain(asked: list[dict[str, Any]], found: list[Any], wanted: list[list[int]]) -> str:
    if any(not isinstance(answer, list) or len(answer) != 4 for answer in found):
        return "not four sizes"
    if found == [[right[0], given["input_shape"][1], *right[2:]] for given, right in zip(asked, wanted, strict=True)]:
        return "input channels kept"
    if found == [[*right[:2], right[3], right[2]] for right in wanted]:
        return "height and width swapped"
    for name, rule in MISTAKES.items():
        if found == [by_rule(given, rule) for given in asked]:
            return name
    return "wrong shape"
