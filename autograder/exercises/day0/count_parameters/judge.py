"""What the counts are: asked of PyTorch's own layers, made without data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import torch
from torch import nn

from autograder.exchange.evidence import Case, Evidence
from autograder.exercises.day0.count_parameters.visible import conv, linear, norm

MISCONCEPTIONS = {
    "asked PyTorch": (
        "Your function makes the layers and asks PyTorch. Work the counts out from the numbers: that is how you see, "
        "before anything is built, where a network's parameters are."
    ),
    "not a list of counts": "Return a list of whole numbers, one for each layer in order.",
    "one number for all": "You added everything up: return a list with one count for each layer, also where it is 0.",
    "bias forgotten": "You left the bias out: where there is one, each output channel or feature has one number more.",
    "bias that is not there": "You counted a bias for layers that say `bias=False`.",
    "bias for each input": "The bias has one number for each *output*, not for each input.",
    "groups ignored": (
        "With groups, a filter looks at `in_channels / groups` channels only, so it has that many fewer weights."
    ),
    "kernel side only": "A kernel has height times width values, and the two may differ.",
    "running statistics counted": (
        "You counted the running mean and variance of the batch norm. They are buffers: nothing learns them, and they "
        "are no parameters."
    ),
    "batch norm has two": "A batch norm has two parameters for each channel: a scale and a shift.",
    "one filter only": "Each output channel has a filter of its own: multiply by `out_channels`.",
    "layers without parameters": "ReLU and pooling have nothing to learn: their count is 0, and it stands in the list.",
    "wrong counts": "These are not the counts.",
}

Layer = dict[str, Any]


def hidden_cases(random: Random) -> list[Case]:
    """Layers of every kind with random numbers."""
    cases = []
    for number in range(3):
        layers: list[Layer] = []
        for _ in range(3):
            groups = random.randint(2, 4)
            kernel = random.sample(range(1, 7), 2)
            layers.append(conv(groups * random.randint(2, 5), groups * random.randint(6, 9), kernel, groups))
            layers.append(conv(random.randint(2, 9), random.randint(10, 19), kernel, bias=random.random() < 0.3))
            layers.append(linear(random.randint(20, 99), random.randint(2, 19), random.random() < 0.5))
            layers.append(norm(random.randint(3, 40)))
            layers.append({"kind": "MaxPool2d", "kernel_size": random.sample(range(2, 5), 2)})
        layers.append({"kind": "ReLU"})
        random.shuffle(layers)
        cases.append(Case(f"hidden {number}", {"layers": layers}))
    return cases


def by_pytorch(layer: Layer) -> int:
    """The number of parameters of the layer itself."""
    arguments = {key: tuple(value) if isinstance(value, list) else value for key, value in layer.items()}
    kind = getattr(nn, str(arguments.pop("kind")))
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in kind(**arguments).parameters())


def by_numbers(
    layer: Layer,
    *,
    bias: Callable[[Layer], bool] = lambda layer: layer["bias"],
    bias_for: str = "out",
    groups: bool = True,
    kernel: Callable[[int, int], int] = lambda height, width: height * width,
    of_norm: int = 2,
    filters: bool = True,
) -> int:
    """The count from the numbers; each argument stands for one mistake."""
    if layer["kind"] == "BatchNorm2d":
        return of_norm * layer["num_features"]
    if layer["kind"] not in ("Conv2d", "Linear"):
        return 0
    unit = "channels" if layer["kind"] == "Conv2d" else "features"
    count = layer[f"in_{unit}"]
    if layer["kind"] == "Conv2d":
        count = count // (layer["groups"] if groups else 1) * kernel(*layer["kernel_size"])
    if filters or layer["kind"] == "Linear":
        count *= layer[f"out_{unit}"]
    return count + (layer[f"{bias_for}_{unit}"] if bias(layer) else 0)


MISTAKES: dict[str, dict[str, Any]] = {
    "bias forgotten": {"bias": lambda layer: False},
    "bias that is not there": {"bias": lambda layer: True},
    "bias for each input": {"bias_for": "in"},
    "groups ignored": {"groups": False},
    "kernel side only": {"kernel": lambda height, width: height * height},
    "running statistics counted": {"of_norm": 4},
    "batch norm has two": {"of_norm": 1},
    "one filter only": {"filters": False},
}


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """The one misconception that explains the counts best, if they are not right."""
    layers, found = case.parameters["layers"], evidence.values["counts"]
    wanted = [by_pytorch(layer) for layer in layers]
    if evidence.values["torch_calls"]:
        yield "asked PyTorch", f"(it called {', '.join(evidence.values['torch_calls'])})"
        return
    if found == wanted:
        return
    if found is None:
        yield "not a list of counts", f"(found {evidence.values['kind']})"
        return
    if isinstance(found, int):
        yield "one number for all", f"(found {found})"
        return
    yield _explain(layers, found, wanted), f"(found {found}, for layers with {len(wanted)} counts)"


def _explain(layers: list[Layer], found: list[int], wanted: list[int]) -> str:
    if found == [count for count in wanted if count] or len(found) != len(wanted):
        return "layers without parameters"
    for name, mistake in MISTAKES.items():
        if found == [by_numbers(layer, **mistake) for layer in layers]:
            return name
    return "wrong counts"
