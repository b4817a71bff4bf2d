"""The learner's side: convolutions to work out, the probe and what the check shows."""

from __future__ import annotations

from typing import Any

from autograder.exchange.evidence import Case, Evidence
from autograder.learner_side.probing import torch_calls

ARGUMENTS = ("kernel_size", "stride", "padding", "dilation")
"""Pairs of (height, width), in the order in which the learner's function takes them."""


def convolution(shape: list[int], out_channels: int, *pairs: list[int]) -> dict[str, Any]:
    """A convolution as JSON values: input shape, output channels, then kernel, stride, padding and dilation."""
    return {"input_shape": shape, "out_channels": out_channels, **dict(zip(ARGUMENTS, pairs, strict=True))}


def visible_cases() -> list[Case]:
    """First what every network has, then what distinguishes height from width."""
    return [
        Case(
            "square convolutions",
            {
                "convolutions": [
                    convolution([2, 3, 32, 32], 8, [3, 3], [1, 1], [1, 1], [1, 1]),
                    convolution([2, 8, 32, 32], 16, [3, 3], [2, 2], [1, 1], [1, 1]),
                    convolution([1, 16, 16, 16], 4, [1, 1], [1, 1], [0, 0], [1, 1]),
                    convolution([1, 4, 15, 15], 6, [3, 3], [1, 1], [0, 0], [2, 2]),
                ]
            },
        ),
        Case(
            "height and width differ",
            {
                "convolutions": [
                    # Each of the height's numbers in place of the width's would give another width.
                    convolution([4, 3, 20, 32], 5, [3, 5], [2, 3], [1, 2], [2, 1]),
                    convolution([1, 6, 41, 18], 2, [5, 1], [3, 1], [1, 3], [2, 1]),
                ]
            },
        ),
    ]


def ask(conv_output_shape: Any, given: dict[str, Any]) -> Any:
    """The learner's answer to one convolution as JSON values; `None` where it is no sequence of whole numbers."""
    pairs = (tuple(given[name]) for name in ARGUMENTS)
    found = conv_output_shape(tuple(given["input_shape"]), given["out_channels"], *pairs)
    whole = isinstance(found, (tuple, list)) and all(isinstance(size, int) for size in found)
    return [int(size) for size in found] if whole else None


def probe(case: Case, conv_output_shape: Any) -> Evidence:
    """Ask for each output shape, and watch whether torch is asked meanwhile."""
    shapes: list[Any] = []
    with torch_calls() as called:
        shapes += [ask(conv_output_shape, given) for given in case.parameters["convolutions"]]
    return Evidence({"shapes": shapes, "torch_calls": called[:3]})


def show(case: Case, evidence: Evidence) -> list[Any]:
    """The convolutions and the learner's answers as a table."""
    lines = [
        f"{case.name}: your shapes",
        f"  {'input':18} {'kernel':8} {'stride':8} {'padding':8} {'dilation':8} output",
    ]
    for given, found in zip(case.parameters["convolutions"], evidence.values["shapes"], strict=False):
        pairs = " ".join(f"{'x'.join(map(str, given[name])):8}" for name in ARGUMENTS)
        lines.append(f"  {'x'.join(map(str, given['input_shape'])):18} {pairs} {found}")
    return ["\n".join(lines)]
