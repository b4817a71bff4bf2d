"""The learner's side: layers described by their numbers, the probe and what the check shows."""

from __future__ import annotations

from typing import Any

from autograder.exchange.evidence import Case, Evidence
from autograder.learner_side.probing import torch_calls


def conv(inputs: int, outputs: int, kernel: list[int], groups: int = 1, bias: bool = True) -> dict[str, Any]:
    """A convolution as JSON values."""
    return {
        "kind": "Conv2d",
        "in_channels": inputs,
        "out_channels": outputs,
        "kernel_size": kernel,
        "groups": groups,
        "bias": bias,
    }


def linear(inputs: int, outputs: int, bias: bool = True) -> dict[str, Any]:
    """A linear layer as JSON values."""
    return {"kind": "Linear", "in_features": inputs, "out_features": outputs, "bias": bias}


def norm(features: int) -> dict[str, Any]:
    """A batch norm as JSON values."""
    return {"kind": "BatchNorm2d", "num_features": features}


def visible_cases() -> list[Case]:
    """A small network, then what is easily forgotten."""
    return [
        Case(
            "a small network",
            {
                "layers": [
                    conv(3, 8, [3, 3]),
                    {"kind": "ReLU"},
                    {"kind": "MaxPool2d", "kernel_size": [2, 2]},
                    conv(8, 16, [3, 3]),
                    linear(64, 10),
                ]
            },
        ),
        Case(
            "groups, no bias, batch norm",
            {"layers": [conv(6, 12, [5, 1], groups=3), conv(12, 4, [3, 5], bias=False), norm(4), linear(7, 5, False)]},
        ),
    ]


def build(case: Case) -> list[dict[str, Any]]:
    """The layers as the learner's function gets them; one that is `"the same as": n` is the n-th dictionary itself."""
    layers: list[dict[str, Any]] = []
    for layer in case.parameters["layers"]:
        known = layer.get("the same as")
        made = {key: tuple(value) if isinstance(value, list) else value for key, value in layer.items()}
        layers.append(made if known is None else layers[known])
    return layers


def widen(layers: list[dict[str, Any]]) -> None:
    """What somebody does between two calls: layers get twice the outputs, in the dictionaries themselves."""
    for layer in {id(layer): layer for layer in layers}.values():
        for key in layer.keys() & {"out_channels", "out_features", "num_features"}:
            layer[key] *= 2


def _alike(layers: list[Any], given: list[dict[str, Any]]) -> bool:
    """Whether the layers are what was given, with values of the same types: `1` is not `True`."""
    if layers != given:
        return False
    pairs = zip(layers, given, strict=True)
    return all(type(layer[key]) is type(value) for layer, was in pairs for key, value in was.items())


def probe(case: Case, count_parameters: Any) -> Evidence:
    """Ask for the counts, twice, and once more of changed layers; watch whether torch is asked meanwhile."""
    layers, given = build(case), build(case)
    found = None
    with torch_calls() as called:
        found = count_parameters(layers)
    values: dict[str, Any] = {"kind": type(found).__name__, "counts": _counts(found), "torch_calls": called[:3]}
    values["layers left"] = _alike(layers, given)
    again = None
    try:
        again = count_parameters(layers)
        values["again"] = _counts(again)
    except Exception as error:  # an answer that takes the layers apart finds nothing in them the second time
        values["again"] = f"{type(error).__name__}: {error}"[:200]
    values["one list"] = isinstance(found, list) and again is found
    if values["again"] == values["counts"] and values["layers left"]:
        widen(layers)
        values["widened"] = _counts(count_parameters(layers))
    return Evidence(values)


def _counts(found: Any) -> int | list[int] | None:
    if isinstance(found, int):
        return int(found)
    whole = isinstance(found, (list, tuple)) and all(isinstance(count, int) for count in found)
    return [int(count) for count in found] if whole else None


def show(case: Case, evidence: Evidence) -> list[Any]:
    """The layers and the learner's counts as a table."""
    counts = evidence.values["counts"]
    lines = [f"{case.name}: your counts"]
    for position, layer in enumerate(build(case)):
        numbers = ", ".join(f"{key}={value}" for key, value in layer.items() if key != "kind")
        count = counts[position] if isinstance(counts, list) and position < len(counts) else counts
        lines.append(f"  {layer['kind']:12} {count!s:>8}  {numbers}")
    return ["\n".join(lines)]
