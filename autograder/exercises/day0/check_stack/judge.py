"""Which stacks fit: asked of PyTorch's own layers, made and run without data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from random import Random
from typing import Any

import torch
from torch import nn

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.verdict import Agreement, Deviation
from autograder.exercises.day0.check_stack.visible import FLATTEN, RELU, Layer, conv, linear, pool

MISCONCEPTIONS = {
    "asked PyTorch": "Your function runs the layers. Work the shapes out from the numbers, as in the tasks before.",
    "not a list of shapes": "Return a list with one shape (a tuple of whole numbers) for each layer.",
    "error without position": (
        "Where a layer does not fit, raise a `ValueError` whose message begins with its position, such as "
        "`layer 3: …`, counted from 0."
    ),
    "did not notice": "A layer that does not fit went through. PyTorch, or the table of the task, would stop there.",
    "channels not checked": "A convolution fits only if its `in_channels` are the channels of what comes in.",
    "features not checked": "A linear layer fits only if its `in_features` are the *last* size of what comes in.",
    "too small not noticed": (
        "A window that is larger than the (padded) input fits nowhere: no size that comes out may be below 1."
    ),
    "nothing left went through": (
        "You let a layer through of which nothing comes out: a size of 0. A window that is larger than the input by "
        "even one position fits nowhere, so each size that comes out is at least 1."
    ),
    "only the height checked": "A window must fit in both directions: you looked at the height and not at the width.",
    "only the width checked": "A window must fit in both directions: you looked at the width and not at the height.",
    "one direction is not enough": (
        "You refuse a window only when it fits in neither direction. It must fit in height *and* in width."
    ),
    "exact fit refused": (
        "You refused a window that fits exactly. When the window is as large as the padded input, there is one place "
        "for it, and a size of 1 comes out."
    ),
    "padding forgotten": "A window has to fit into the *padded* input: padding is added on both sides before it moves.",
    "refused what fits": "You refused a stack in which every layer fits.",
    "linear flattens": (
        "A linear layer works on the last size and leaves the others as they are. It does not flatten: that is what "
        "`Flatten` is for."
    ),
    "batch flattened": "`Flatten` leaves the batch as it is and merges all other sizes into one.",
    "pool moves by one": "A pooling without a stride moves by its own kernel size, not by 1.",
    "pool's stride ignored": "A pooling that names a stride moves by it, not by its kernel size.",
    "counted from one": "You count the layers from 1. The first layer is layer 0.",
    "layers changed": (
        "You wrote into the layers or into their list. Whoever reads them next must find them as they were: only look."
    ),
    "one list for all answers": (
        "Your function returns the very list that it returned before: whoever writes into one answer changes the "
        "other. Make a new list in each call."
    ),
    "an answer from before": (
        "You gave the answer to an earlier stack. The shapes depend on the layers *and* on what comes in: if you keep "
        "results, look them up by both."
    ),
    "wrong position": "You named another layer than the first one that does not fit.",
    "wrong shapes": "These are not the shapes.",
}

UNNAMED = ("did not notice", "refused what fits", "wrong position", "wrong shapes")

WORKS = {"shapes", "refused"}

FIXED: dict[str, list[list[Any]]] = {
    "windows that fit exactly": [
        [[1, 2, 3, 5], [conv(2, 4, 3), RELU]],
        [[2, 3, 4, 9], [pool(4), FLATTEN, linear(6, 5)]],
        [[3, 2, 1, 1], [conv(2, 2, 1), conv(2, 3, 3, padding=1)]],
        [[2, 1, 5, 2], [pool(2, 7), conv(1, 2, 1, stride=4)]],
        [[2, 5, 2, 2], [conv(5, 6, 4, stride=3, padding=1), pool(1)]],
        [[1, 2, 3, 3], [pool(3, 1), RELU]],
    ],
    "windows that fit in one direction only": [
        [[2, 3, 2, 9], [conv(3, 4, 3), RELU]],
        [[2, 3, 9, 2], [conv(3, 4, 3), RELU]],
        [[2, 3, 2, 9], [RELU, pool(3)]],
        [[2, 3, 9, 2], [RELU, pool(3, 1)]],
    ],
    "layers equal to an earlier one": [
        [[2, 3, 8, 8], [conv(3, 4, 3), RELU, conv(3, 4, 3)]],
        [[2, 3, 6, 6], [conv(3, 3, 1), FLATTEN, linear(108, 5), linear(108, 5)]],
        [[1, 1, 5, 5], [pool(2), RELU, pool(2), pool(2)]],
    ],
    "windows that are too large by one": [
        [[2, 3, 2, 2], [conv(3, 4, 3)]],
        [[2, 3, 4, 4], [conv(3, 4, 3), pool(3)]],
        [[2, 3, 2, 2], [conv(3, 4, 5, stride=2, padding=1)]],
        [[1, 1, 6, 6], [pool(2), pool(2), pool(2)]],
        [[1, 1, 5, 5], [pool(3, 2), pool(3, 2)]],
    ],
    "not four sizes": [
        [[4, 3, 8, 8], [FLATTEN, conv(192, 2, 1)]],
        [[3, 8, 8], [conv(3, 4, 3)]],
        [[2, 3, 8], [conv(3, 4, 3)]],
        [[3, 8, 8], [RELU, pool(2)]],
        [[2, 3, 4, 8, 8], [conv(3, 4, 3)]],
        [[2, 3, 4, 8, 8], [pool(2), RELU]],
        [[5, 8], [linear(8, 4), pool(2)]],
        [[6], [conv(6, 6, 1)]],
    ],
    "other numbers of sizes": [
        [[5, 8], [linear(8, 4), RELU, linear(4, 4), FLATTEN]],
        [[2, 7, 3], [RELU, linear(3, 6), FLATTEN, linear(42, 1)]],
        [[2, 3, 4, 2, 5], [FLATTEN, linear(120, 8)]],
        [[9], [linear(9, 3), RELU]],
        [[2, 1, 3, 2, 5], [linear(5, 4), RELU]],
        [[3, 1, 1, 1], [FLATTEN, FLATTEN, linear(1, 2)]],
    ],
    "the same stack twice": [
        [[2, 4], [linear(4, 3), RELU]],
        [[2, 3, 8, 6], [conv(3, 4, 3), pool(2)]],
        [[2, 4], [linear(4, 3), RELU]],
    ],
    "images behind a linear layer": [
        [[2, 3, 8, 6], [linear(6, 9), conv(3, 4, 3), RELU, linear(7, 5), pool(2), linear(2, 3)]],
        [[2, 3, 8, 6], [linear(6, 2), conv(3, 4, 3)]],
    ],
    "more than what fits by a factor": [
        [[2, 6, 5, 5], [conv(3, 4, 3)]],
        [[2, 3, 5, 5], [conv(6, 4, 3)]],
        [[2, 3, 8], [linear(4, 2)]],
        [[2, 6], [linear(12, 1)]],
    ],
    "equal layers": [
        [[2, 4, 12, 12], [conv(4, 4, 3), RELU, conv(4, 4, 3), RELU, conv(4, 4, 3), pool(2), pool(2)]],
        [[2, 4, 9, 9], [conv(4, 4, 3), RELU, conv(4, 4, 3), RELU, conv(4, 4, 3), RELU, conv(4, 4, 3), conv(4, 4, 3)]],
        [[2, 6], [linear(6, 6), linear(6, 6), linear(6, 3), linear(6, 6)]],
        [[1, 1, 8, 8], [RELU, pool(2), RELU, pool(2), RELU, pool(2), RELU, pool(2)]],
    ],
    "several that do not fit": [
        [[2, 3, 8, 8], [conv(4, 8, 3), linear(7, 2), pool(99)]],
        [[2, 3, 8, 8], [RELU, linear(8, 2), RELU, linear(3, 3), conv(1, 1, 1)]],
        [[2, 3, 8, 8], [RELU] * 11 + [linear(9, 9), FLATTEN]],
        [[2, 8], [linear(2, 8), RELU]],
    ],
    "many channels": [
        [[2, 300, 4, 4], [conv(300, 1000, 3), RELU, conv(1000, 2, 1)]],
        [[2, 300, 4, 4], [conv(301, 1000, 3)]],
        [[2, 5000], [linear(5000, 700), linear(700, 5000), linear(5000, 1)]],
        [[300, 3, 5, 5], [conv(300, 3, 3)]],
    ],
    "an empty batch": [
        [[0, 3, 8, 8], [conv(3, 4, 3), RELU, pool(2), FLATTEN, linear(36, 5)]],
        [[0, 7, 3], [linear(3, 6), FLATTEN, linear(42, 1)]],
        [[0, 6], [FLATTEN, linear(7, 2)]],
    ],
    "the same layers for other inputs": [
        [[2, 3, 9, 9], [conv(3, 4, 3), RELU]],
        [[2, 3, 8, 12], [conv(3, 4, 3), RELU]],
        [[2, 3, 2, 9], [conv(3, 4, 3), RELU]],
        [[4, 8], [linear(8, 5), FLATTEN]],
        [[4, 3, 8], [linear(8, 5), FLATTEN]],
        [[4, 7], [linear(8, 5), FLATTEN]],
    ],
    "the same input for other layers": [
        [[2, 3, 9, 9], [conv(3, 4, 3), RELU]],
        [[2, 3, 9, 9], [conv(3, 4, 3, stride=2), RELU]],
        [[2, 3, 9, 9], [conv(3, 4, 3, padding=2), RELU]],
        [[2, 3, 9, 9], [conv(3, 6, 3), RELU]],
        [[2, 3, 9, 9], [pool(3), RELU]],
        [[2, 3, 9, 9], [pool(3, 1), RELU]],
    ],
    "no layers": [[[2, 3, 4, 4], []], [[7], []]],
    "numbers for height and width": [
        [[2, 3, 30, 17], [conv(3, 4, 5, stride=3, padding=2), pool(2, 1), pool(3, 2), RELU]],
        [[2, 3, 11, 26], [pool(3, 5), conv(3, 2, 2, padding=3), linear(10, 2)]],
        [[2, 3, 10, 6], [linear(10, 6)]],
        [[2, 6, 5, 5], [linear(6, 5)]],
    ],
}
"""Stacks of a hidden case for each class, the same for every seed."""


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
    """The fixed ones, then random stacks that fit, with and without flattening, and with one layer that does not."""
    cases = [Case(f"hidden {name}", {"stacks": stacks}) for name, stacks in FIXED.items()]
    for number in range(2):
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
        refused = position + 1 if mistake == "counted from one" else position
        found = _image(now, layer, mistake) if layer["kind"] in ("Conv2d", "MaxPool2d") else _other(now, layer, mistake)
        if found is None:
            return {"refused": refused}
        now = found
        shapes.append(list(now))
    return {"shapes": shapes}


TOO_SMALL: dict[str, Callable[[list[int]], bool]] = {
    "too small not noticed": lambda room: False,
    "nothing left went through": lambda room: min(room) < -1,
    "only the height checked": lambda room: room[0] < 0,
    "only the width checked": lambda room: room[1] < 0,
    "one direction is not enough": lambda room: max(room) < 0,
    "exact fit refused": lambda room: min(room) < 1,
}
"""When a window is refused under each mistake, by the room that it has to move in height and in width."""


def _image(now: list[int], layer: Layer, mistake: str) -> list[int] | None:
    """What a convolution or a pooling makes of a shape; `None` where it does not fit."""
    if len(now) != 4:
        return None
    kernel, stride, padding = layer["kernel_size"], layer["stride"], layer.get("padding", 0)
    if layer["kind"] == "MaxPool2d":
        if mistake == "pool's stride ignored":
            stride = kernel
        stride = stride or (1 if mistake == "pool moves by one" else kernel)
    room = [size + (0 if mistake == "padding forgotten" else 2 * padding) - kernel for size in now[2:]]
    refused = TOO_SMALL.get(mistake, lambda room: min(room) < 0)(room)
    if layer["kind"] == "Conv2d" and mistake != "channels not checked":
        refused = refused or now[1] != layer["in_channels"]
    if refused:
        return None
    return [now[0], layer.get("out_channels", now[1]), *((size // stride) + 1 for size in room)]


def _other(now: list[int], layer: Layer, mistake: str) -> list[int] | None:
    """What another layer makes of a shape; `None` where it does not fit."""
    if layer["kind"] == "Flatten":
        return [prod(now)] if mistake == "batch flattened" else [now[0], prod(now[1:])]
    if layer["kind"] != "Linear":
        return now
    wanted = prod(now[1:]) if mistake == "linear flattens" else now[-1]
    if wanted != layer["in_features"] and mistake != "features not checked":
        return None
    return [*(now[:1] if mistake == "linear flattens" else now[:-1]), layer["out_features"]]


MISTAKES = (
    "pool moves by one",
    "pool's stride ignored",
    "linear flattens",
    "batch flattened",
    "channels not checked",
    "features not checked",
    "padding forgotten",
    "counted from one",
    *TOO_SMALL,
)


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str] | Deviation | Agreement]:
    """The stacks one by one, each with the mistakes that would have given the answer."""
    if evidence.values["torch_calls"]:
        yield "asked PyTorch", f"(it called {', '.join(map(str, evidence.values['torch_calls']))})"
        return
    rightly = 0
    before: list[tuple[list[int], list[Layer], dict[str, Any]]] = []
    for (shape, layers), given in zip(case.parameters["stacks"], evidence.values["answers"], strict=True):
        answer = {key: value for key, value in given.items() if key in WORKS}
        right = by_pytorch(shape, layers)
        asked = f"for {tuple(shape)} through {_described(layers)}"
        if "shapes" in answer and answer["shapes"] is None:
            yield "not a list of shapes", f"({asked}: expected {_told(right)})"
            return
        if "refused" in answer and answer["refused"] is None and "refused" in right:
            yield "error without position", f"({asked}: expected {_told(right)}, found {given.get('text')!r})"
            return
        under = {name: by_numbers(shape, layers, name) for name in MISTAKES}
        if answer == right:
            rightly += 1
            excluded = tuple(name for name, found in under.items() if found != right)
            yield from (Agreement(question, excluded) for question in UNNAMED)
        else:
            # A right answer says nothing against this one: answers may be kept by some of the numbers.
            kept = [known for *stack, known in before if _taken_for_one(answer, (shape, layers), stack)]
            under |= {"an answer from before": answer} if answer in kept + _of_other_inputs(layers) else {}
            fits = tuple(name for name, found in under.items() if found == answer)
            figures = f"{asked}: expected {_told(right)}, found {_told(answer)}"
            yield Deviation(_what_happened(answer, right), fits, figures, 100 * len(layers) + sum(shape))
        before.append((shape, layers, right))
    if rightly == len(case.parameters["stacks"]):
        if not evidence.values["layers left"]:
            yield "layers changed", ""
        if evidence.values["one list"]:
            yield "one list for all answers", ""


def _taken_for_one(answer: dict[str, Any], stack: Sequence[Any], other: Sequence[Any]) -> bool:
    """Whether who keeps answers may have taken one stack for another, and given its answer.

    By chance many stacks are refused at the same layer: there, the layers must be of the same kinds, too.
    """
    (shape, layers), (other_shape, others) = stack, other
    alike = "shapes" in answer or [layer["kind"] for layer in layers] == [layer["kind"] for layer in others]
    return bool(layers == others or (shape == other_shape and alike))


def _of_other_inputs(layers: list[Layer]) -> list[dict[str, Any]]:
    """The right answers for these layers in the other cases, one of which may have been given before."""
    return [by_pytorch(shape, same) for stacks in FIXED.values() for shape, same in stacks if same == layers]


def _described(layers: list[Layer]) -> str:
    return "; ".join(
        " ".join(str(value) if key == "kind" else f"{key}={value}" for key, value in layer.items()) for layer in layers
    )


def _told(answer: dict[str, Any]) -> str:
    if "refused" not in answer:
        return str([tuple(shape) for shape in answer["shapes"]])
    return "an error" if answer["refused"] is None else f"an error at layer {answer['refused']}"


def _what_happened(answer: dict[str, Any], right: dict[str, Any]) -> str:
    if "refused" in right:
        return "did not notice" if "shapes" in answer else "wrong position"
    return "refused what fits" if "refused" in answer else "wrong shapes"
