"""Which stacks fit: asked of PyTorch's own layers, made and run without data."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import torch
from torch import nn

from autograder.exchange.evidence import Case, Evidence
from autograder.exercises.day0.check_stack.visible import FLATTEN, RELU, Layer, conv, linear, pool

MISCONCEPTIONS = {
    "asked PyTorch": "Your function runs the layers. Work the shapes out from the numbers, as in the tasks before.",
    "not a list of shapes": "Return a list with one shape (a tuple of whole numbers) for each layer.",
    "error without position": (
        "Where a layer does not fit, raise a `ValueError` whose message begins with its position, such as "
        "`layer 3: …`, counted from 0."
    ),
    "did not notice": "A layer that does not fit went through: PyTorch would stop there.",
    "channels not checked": "A convolution fits only if its `in_channels` are the channels of what comes in.",
    "features not checked": "A linear layer fits only if its `in_features` are the *last* size of what comes in.",
    "too small not noticed": (
        "A window that is larger than the (padded) input fits nowhere: no size may fall below 1."
    ),
    "refused what fits": "You refused a stack that PyTorch runs.",
    "linear flattens": (
        "A linear layer works on the last size and leaves the others as they are. It does not flatten: that is what "
        "`Flatten` is for."
    ),
    "batch flattened": "`Flatten` leaves the batch as it is and merges all other sizes into one.",
    "pool moves by one": "A pooling without a stride moves by its own kernel size, not by 1.",
    "wrong position": "You named another layer than the first that does not fit.",
    "wrong shapes": "These are not the shapes.",
}

WORKS = {"shapes", "refused"}


def _stack(random: Random) -> tuple[list[int], list[Layer]]:
    """A stack that fits, of random sizes."""
    shape = [random.randint(2, 5), random.randint(2, 6), random.randint(60, 90), random.randint(60, 90)]
    channels, layers = shape[1], []
    for _ in range(random.randint(1, 2)):
        wider = channels + random.randint(1, 9)
        layers += [conv(channels, wider, random.choice([3, 5]), random.randint(1, 2), random.randint(0, 2)), RELU]
        channels = wider
        layers.append(pool(random.randint(2, 3), random.choice([None, 1])))
    return shape, layers


def hidden_cases(random: Random) -> list[Case]:
    """Random stacks that fit, with and without flattening, and the same with one layer that does not."""
    cases = []
    for number in range(3):
        stacks: list[list[Any]] = []
        for _ in range(2):
            shape, layers = _stack(random)
            last = by_pytorch(shape, layers)["shapes"][-1]
            flat = last[1] * last[2] * last[3]
            stacks.append([shape, [*layers, FLATTEN, linear(flat, random.randint(2, 9)), RELU]])
            stacks.append([shape, [*layers, linear(last[3], random.randint(2, 9))]])
        spoiled = random.choice(
            [
                [*layers, conv(last[1] + 1, 4, 1), RELU],
                [*layers, FLATTEN, pool(2)],
                [*layers, pool(min(last[2:]) + 1), FLATTEN],
                [*layers, linear(flat, 10), RELU],
            ]
        )
        stacks.append([shape, spoiled])
        stacks.append([shape, [*layers, FLATTEN, linear(flat + 1, 10), RELU]])
        cases.append(Case(f"hidden {number}", {"stacks": stacks}))
    return cases


def by_pytorch(shape: list[int], layers: list[Layer]) -> dict[str, Any]:
    """What running the layers on a tensor without data comes to."""
    shapes: list[list[int]] = []
    with torch.device("meta"):
        value = torch.empty(shape)
        for position, layer in enumerate(layers):
            numbers = {key: number for key, number in layer.items() if key != "kind"}
            if layer["kind"] in ("Conv2d", "MaxPool2d") and value.dim() != 4:
                # PyTorch would take three sizes for one image without batch; the task does not.
                return {"refused": position}
            try:
                value = getattr(nn, layer["kind"])(**numbers)(value)
            except RuntimeError:
                return {"refused": position}
            shapes.append(list(value.shape))
    return {"shapes": shapes}


def by_numbers(shape: list[int], layers: list[Layer], mistake: str = "") -> dict[str, Any]:
    """The same from the numbers; `mistake` is what is done wrong."""
    shapes: list[list[int]] = []
    now = list(shape)
    for position, layer in enumerate(layers):
        kind = layer["kind"]
        refused = False
        if kind in ("Conv2d", "MaxPool2d"):
            if len(now) != 4:
                return {"refused": position}
            stride = layer["stride"] or (1 if mistake == "pool moves by one" else layer["kernel_size"])
            sizes = [(n + 2 * layer.get("padding", 0) - layer["kernel_size"]) // stride + 1 for n in now[2:]]
            refused = min(sizes) < 1 and mistake != "too small not noticed"
            if kind == "Conv2d" and mistake != "channels not checked":
                refused = refused or now[1] != layer["in_channels"]
            now = [now[0], layer.get("out_channels", now[1]), *sizes]
        elif kind == "Flatten":
            merged = 1
            for size in now[1:]:
                merged *= size
            now = [now[0] * merged] if mistake == "batch flattened" else [now[0], merged]
        elif kind == "Linear":
            flat = 1
            for size in now[1:]:
                flat *= size
            wanted = flat if mistake == "linear flattens" else now[-1]
            refused = wanted != layer["in_features"] and mistake != "features not checked"
            kept = now[:1] if mistake == "linear flattens" else now[:-1]
            now = [*kept, layer["out_features"]]
        if refused:
            return {"refused": position}
        shapes.append(list(now))
    return {"shapes": shapes}


MISTAKES = (
    "pool moves by one",
    "linear flattens",
    "batch flattened",
    "channels not checked",
    "features not checked",
    "too small not noticed",
)


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """The one misconception that explains the first wrong answer best."""
    stacks = case.parameters["stacks"]
    answers = [{key: value for key, value in answer.items() if key in WORKS} for answer in evidence.values["answers"]]
    wanted = [by_pytorch(shape, layers) for shape, layers in stacks]
    if evidence.values["torch_calls"]:
        yield "asked PyTorch", f"(it called {', '.join(evidence.values['torch_calls'])})"
        return
    if answers == wanted:
        return
    for name in MISTAKES:
        if answers == [by_numbers(shape, layers, name) for shape, layers in stacks]:
            yield name, ""
            return
    for (shape, _), answer, right in zip(stacks, answers, wanted, strict=True):
        if answer != right:
            yield _explain(answer, right), f"(for the input {shape}: found {answer}, wanted {right})"
            return


def _explain(answer: dict[str, Any], right: dict[str, Any]) -> str:
    if "shapes" in answer and answer["shapes"] is None:
        return "not a list of shapes"
    if "refused" in answer and answer["refused"] is None:
        return "error without position" if "refused" in right else "refused what fits"
    if "refused" in right:
        return "did not notice" if "shapes" in answer else "wrong position"
    return "refused what fits" if "refused" in answer else "wrong shapes"
