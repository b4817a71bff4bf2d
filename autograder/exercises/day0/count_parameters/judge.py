"""What the counts are: asked of PyTorch's own layers, made without data."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import torch
from torch import nn

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.verdict import Agreement, Deviation
from autograder.exercises.day0.count_parameters.visible import build, conv, linear, norm, widen
from autograder.exercises.explaining import compared

MISCONCEPTIONS = {
    "asked PyTorch": (
        "Your function makes the layers and asks PyTorch. Work the counts out from the numbers: that is how you see, "
        "before anything is built, where a network's parameters are."
    ),
    "not a list of counts": "Return a list of whole numbers, one for each layer in order.",
    "one number for all": "You added everything up: return a list with one count for each layer, also where it is 0.",
    "bias forgotten": "You left the bias out: where there is one, each output channel or feature has one number more.",
    "bias that is not there": "You counted a bias for layers that say `bias=False`.",
    "bias counted once": "A bias is not one number for the whole layer: it has one for each output channel or feature.",
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
    "layers without parameters": "A layer with nothing to learn counts 0, and its 0 stands in the list like any count.",
    "not one count a layer": "The list has one count for each layer, in order: it is as long as `layers`.",
    "one list for all answers": (
        "Your function returns the very list that it returned before: whoever writes into one answer changes the "
        "other. Make a new list in each call."
    ),
    "another answer the second time": (
        "Asked a second time about the same list, your function answers something else. Leave the layers as they are, "
        "and keep nothing from one call to the next."
    ),
    "an answer from before": (
        "After your answer the numbers of some layers were changed, and your function answered as before. Count what "
        "stands in the dictionaries now, and keep nothing from one call to the next."
    ),
    "layers changed": (
        "You wrote into the layers' dictionaries. Whoever reads them next must find them as they were: only look."
    ),
    "taken for an earlier layer": (
        "A layer got the count of an earlier one that is almost, but not quite, the same. If you keep results, look "
        "them up by *every* number that has a say in the count, `bias` included."
    ),
    "wrong count of a Conv2d": "This is not how many parameters the `Conv2d` has.",
    "wrong count of a Linear": "This is not how many parameters the `Linear` has.",
    "wrong count of a BatchNorm2d": "This is not how many parameters the `BatchNorm2d` has.",
    "counted what does not learn": (
        "You counted parameters of a layer that has none. Only `Conv2d`, `Linear` and `BatchNorm2d` learn here; every "
        "other kind counts 0, whatever numbers stand in its dictionary."
    ),
}

UNNAMED = (
    "wrong count of a Conv2d",
    "wrong count of a Linear",
    "wrong count of a BatchNorm2d",
    "counted what does not learn",
    "not one count a layer",
)

Layer = dict[str, Any]

OTHERS: tuple[Layer, ...] = (
    {"kind": "InstanceNorm2d", "num_features": 8},
    {"kind": "AvgPool2d", "kernel_size": [3, 2]},
    {"kind": "Dropout", "p": 0.5},
    {"kind": "Flatten"},
    {"kind": "Softmax", "dim": 1},
    {"kind": "Identity"},
    {"kind": "MaxPool2d", "kernel_size": [2, 5]},
    {"kind": "FrozenBatchNorm2d", "num_features": 8},
    {"kind": "BatchNorm1d", "num_features": 6},
    {"kind": "BatchNorm3d", "num_features": 5},
    {"kind": "FrozenLinear", "in_features": 3, "out_features": 4, "bias": True},
    conv(2, 4, [3, 3]) | {"kind": "FrozenConv2d"},
    conv(2, 4, [3, 3]) | {"kind": "Conv2dOfConstants"},
    linear(3, 4) | {"kind": "LinearOfConstants"},
    norm(4) | {"kind": "BatchNorm2dOfConstants"},
)
"""Layers without parameters, some with the numbers or the name of one that has them."""

RELATIVES: tuple[Layer, ...] = (
    conv(2, 4, [3, 1]) | {"kind": "Conv1d"},
    conv(2, 4, [3, 3]) | {"kind": "Conv3d"},
    conv(2, 4, [3, 3]) | {"kind": "ConvTranspose2d"},
    linear(3, 4) | {"kind": "LazyLinear"},
    norm(4) | {"kind": "SyncBatchNorm"},
    {"kind": "LayerNorm", "normalized_shape": 6},
    {"kind": "GroupNorm", "num_groups": 2, "num_channels": 4},
    {"kind": "Embedding", "num_embeddings": 5, "embedding_dim": 3},
    {"kind": "PReLU", "num_parameters": 3},
)
"""Kinds that learn elsewhere: the task names the three that do so here."""

FIXED: dict[str, tuple[Layer, ...]] = {
    "without parameters": OTHERS,
    "kinds that learn elsewhere": RELATIVES,
    "numbers in another order": tuple(
        dict(reversed(layer.items())) for layer in (conv(4, 6, [3, 1], groups=2), linear(3, 5), norm(7))
    ),
    "only one kind of layer": (norm(1), norm(7)),
    "no layers": (),
    "ones and exact fits": (
        conv(1, 1, [1, 1]),
        conv(1, 1, [1, 1], bias=False),
        conv(4, 4, [3, 2], groups=4),
        conv(3, 9, [2, 3], groups=3),
        conv(6, 6, [1, 3], groups=6, bias=False),
        conv(9, 3, [2, 1], groups=3),
        conv(5, 2, [1, 4]),
        linear(1, 1),
        linear(1, 6, bias=False),
        linear(6, 1),
        norm(1),
    ),
    "equal layers": (
        linear(4, 4),
        conv(4, 4, [3, 3]),
        linear(4, 4),
        conv(4, 4, [3, 3]),
        norm(4),
        {"kind": "ReLU"},
        norm(4),
        {"kind": "ReLU"},
        {"the same as": 0},
        {"the same as": 1},
        {"the same as": 4},
        {"the same as": 0},
    ),
}
"""Layers of a hidden case for each class, the same for every seed."""


def hidden_cases(random: Random) -> list[Case]:
    """What is easily overlooked, then layers of every kind with random numbers."""
    cases = []
    for number in range(2):
        layers: list[Layer] = []
        for _ in range(3):
            groups = random.randint(2, 4)
            kernel = random.sample(range(1, 7), 2)
            layers.append(conv(groups * random.randint(2, 5), groups * random.randint(6, 9), kernel, groups))
            layers.append(conv(random.randint(2, 9), random.randint(10, 19), kernel, bias=random.random() < 0.3))
            layers.append(linear(random.randint(20, 99), random.randint(2, 19), random.random() < 0.5))
            layers.append(norm(random.randint(3, 40)))
            layers.append(random.choice(OTHERS))
        layers.append({"kind": "ReLU"})
        random.shuffle(layers)
        cases.append(Case(f"hidden {number}", {"layers": layers}))
    cases += [Case(f"hidden {name}", {"layers": list(layers)}) for name, layers in FIXED.items()]
    return [*cases, Case("hidden one number at a time", {"layers": one_number_at_a_time(random)})]


def one_number_at_a_time(random: Random) -> list[Layer]:
    """A layer of each kind, then others that differ from it in one number each."""
    inputs, outputs, kernel, features = 4 * random.randint(2, 4), 4 * random.randint(5, 7), [3, 4], random.randint(5, 9)
    firsts = [conv(inputs, outputs, kernel, groups=2), linear(inputs + 1, outputs + 1), norm(features)]
    others = [
        conv(inputs + 4, outputs, kernel, groups=2),
        conv(inputs, outputs + 4, kernel, groups=2),
        conv(inputs, outputs, [kernel[0] + 2, kernel[1]], groups=2),
        conv(inputs, outputs, [kernel[0], kernel[1] + 1], groups=2),
        conv(inputs, outputs, kernel, groups=4),
        conv(inputs, outputs, kernel, groups=2, bias=False),
        linear(inputs + 2, outputs + 1),
        linear(inputs + 1, outputs + 2),
        linear(inputs + 1, outputs + 1, bias=False),
        norm(features + 1),
    ]
    random.shuffle(others)
    return [*firsts, *others]


LEARNING: dict[str, type[nn.Module]] = {"Conv2d": nn.Conv2d, "Linear": nn.Linear, "BatchNorm2d": nn.BatchNorm2d}
"""The kinds that have parameters in this task."""


def by_pytorch(layer: Layer) -> int:
    """The number of parameters of the layer itself."""
    arguments = dict(layer)
    kind = LEARNING.get(str(arguments.pop("kind")))
    if kind is None:
        return 0
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
    one_bias: bool = False,
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
    return count + (bias(layer) and (1 if one_bias else layer[f"{bias_for}_{unit}"]))


MISTAKES: dict[str, dict[str, Any]] = {
    "bias forgotten": {"bias": lambda layer: False},
    "bias that is not there": {"bias": lambda layer: True},
    "bias for each input": {"bias_for": "in"},
    "groups ignored": {"groups": False},
    "kernel side only": {"kernel": lambda height, width: height * height},
    "bias counted once": {"one_bias": True},
    "running statistics counted": {"of_norm": 4},
    "batch norm has two": {"of_norm": 1},
    "one filter only": {"filters": False},
}


def _differ_in_one_number(layer: Layer, other: Layer) -> bool:
    return sum(layer[name] != other.get(name) for name in layer) == 1


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str] | Deviation | Agreement]:
    """The counts one by one, each with the mistakes that would have given it."""
    layers, found = build(case), evidence.values["counts"]
    wanted = [by_pytorch(layer) for layer in layers]
    if evidence.values["torch_calls"]:
        yield "asked PyTorch", f"(it called {', '.join(map(str, evidence.values['torch_calls']))})"
        return
    if found is None:
        yield "not a list of counts", f"(found {evidence.values['kind']})"
        return
    if not isinstance(found, list):
        yield "one number for all" if found == sum(wanted) else "not a list of counts", f"(found {found})"
        return
    if len(found) != len(wanted):
        skipped = found == [count for count in wanted if count]
        name = "layers without parameters" if skipped else "not one count a layer"
        yield name, f"(expected {wanted}, found {found})"
        return
    before: list[tuple[Layer, int]] = []
    for layer, count, right in zip(layers, found, wanted, strict=True):
        kind = str(layer["kind"])
        question = f"wrong count of a {kind}" if right else "counted what does not learn"
        under = {name: [by_numbers(layer, **mistake)] for name, mistake in MISTAKES.items()} if right else {}
        # A right count says nothing against it: only some numbers may be left out of what counts are kept by.
        # And of layers that differ in more than one number, two may have the same count by chance.
        known = [of_it for other, of_it in before if other["kind"] == kind and _differ_in_one_number(layer, other)]
        under["taken for an earlier layer"] = [*known, right]
        before.append((layer, right))
        yield compared(question, count, right, under, f"for {layer}", right)
    if found == wanted and evidence.values["again"] == wanted and not evidence.values["layers left"]:
        yield "layers changed", ""
    if found == wanted == evidence.values["again"] and evidence.values["one list"]:
        yield "one list for all answers", ""
    if found == wanted and evidence.values["again"] != wanted:
        yield "another answer the second time", f"(the second time: {evidence.values['again']})"
    if found == wanted and isinstance(widened := evidence.values.get("widened"), list):
        widen(layers)
        now = [by_pytorch(layer) for layer in layers]
        # Who takes the numbers wrongly answers otherwise than before, too, and is told so by another case.
        if any(count == before != right for count, before, right in zip(widened, wanted, now, strict=False)):
            yield "an answer from before", f"(with twice the outputs: expected {now}, found {widened})"
