"""The learner's side: stacks of layers described by their numbers, the probe and what the check shows."""

from __future__ import annotations

import re
from typing import Any

from autograder.exchange.evidence import Case, Evidence
from autograder.learner_side.probing import torch_calls

Layer = dict[str, Any]


def conv(inputs: int, outputs: int, kernel: int, stride: int = 1, padding: int = 0) -> Layer:
    """A square convolution as JSON values."""
    return {
        "kind": "Conv2d",
        "in_channels": inputs,
        "out_channels": outputs,
        "kernel_size": kernel,
        "stride": stride,
        "padding": padding,
    }


def pool(kernel: int, stride: int | None = None) -> Layer:
    """A max pooling as JSON values; without a stride it moves by its own size."""
    return {"kind": "MaxPool2d", "kernel_size": kernel, "stride": stride}


def linear(inputs: int, outputs: int) -> Layer:
    """A linear layer as JSON values."""
    return {"kind": "Linear", "in_features": inputs, "out_features": outputs}


RELU: Layer = {"kind": "ReLU"}
FLATTEN: Layer = {"kind": "Flatten"}


def visible_cases() -> list[Case]:
    """Stacks that fit, and stacks in which one layer does not."""
    head = [conv(3, 8, 3, padding=1), RELU, pool(2)]
    return [
        Case(
            "stacks that fit",
            {
                "stacks": [
                    [[2, 3, 16, 16], [*head, conv(8, 4, 3, stride=2), FLATTEN, linear(36, 10)]],
                    [[5, 3, 20, 12], [*head, pool(3, stride=1), linear(4, 7), RELU]],
                    [[1, 2, 9, 8], [pool(3, stride=1), pool(2)]],
                ]
            },
        ),
        Case(
            "one layer does not fit",
            {
                "stacks": [
                    [[2, 3, 16, 16], [*head, conv(6, 4, 3), RELU]],
                    [[2, 3, 16, 16], [*head, linear(512, 10)]],
                    [[2, 3, 6, 6], [*head, conv(8, 8, 5), RELU]],
                    [[2, 3, 8, 8], [*head, FLATTEN, conv(8, 8, 1)]],
                ]
            },
        ),
    ]


def probe(case: Case, shapes_through: Any) -> Evidence:
    """Ask for the shapes of each stack: a list of shapes, or the position that an error names."""
    answers: list[dict[str, Any]] = []
    lists: list[Any] = []
    left = True
    with torch_calls() as called:
        for shape, layers in case.parameters["stacks"]:
            given = [dict(layer) for layer in layers]
            try:
                lists.append(shapes_through(tuple(shape), given))
            except ValueError as error:
                position = re.match(r"layer (\d+)\b", str(error))
                answers.append({"refused": int(position[1]) if position else None, "text": str(error)[:200]})
            else:
                answers.append({"shapes": _as_lists(lists[-1])})
            left = left and given == layers
    own = {id(found) for found in lists if isinstance(found, list)}
    one_list = len(own) < sum(isinstance(found, list) for found in lists)
    return Evidence({"answers": answers, "torch_calls": called[:3], "layers left": left, "one list": one_list})


def _as_lists(found: Any) -> list[list[int]] | None:
    if not isinstance(found, (list, tuple)) or not all(isinstance(shape, (list, tuple)) for shape in found):
        return None
    if not all(isinstance(size, int) for shape in found for size in shape):
        return None
    return [[int(size) for size in shape] for shape in found]


def show(case: Case, evidence: Evidence) -> list[Any]:
    """The layers with the learner's shapes beside them."""
    lines = [f"{case.name}: your shapes"]
    for (shape, layers), answer in zip(case.parameters["stacks"], evidence.values["answers"], strict=False):
        shapes = answer.get("shapes")
        lines.append(
            f"  input {shape}" + ("" if shapes is not None else f": {answer.get('text', 'no list of shapes')}")
        )
        for position, layer in enumerate(layers):
            shown = shapes[position] if shapes is not None and position < len(shapes) else ""
            numbers = ", ".join(f"{key}={value}" for key, value in layer.items() if key != "kind")
            lines.append(f"    {position} {layer['kind']:10} {shown!s:18} {numbers}")
    return ["\n".join(lines)]
