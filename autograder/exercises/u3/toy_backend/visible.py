"""The learner's side: small networks on a device of the learner's, the probe and what the check shows."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch.nn import functional

from autograder.exchange.evidence import Case, Evidence

LONGEST = 200
"""Characters of an error's message that become evidence."""

Network = dict[str, Any]
"""`sizes` of the layers, `rows` of the batch, `spread` of the numbers in ticks, `seed`, `steps` of training, `rate`,
`body` (a name of `BODIES`), and `unknown`: names of `UNKNOWN` that are called on the output."""

BODIES: dict[str, Callable[[Any], Any]] = {
    "relu": functional.relu,
    "square": lambda x: x * x,
    "halved": lambda x: functional.relu(x) / 2,
    # Infinity, which is beyond the last tick like any number that is too large.
    "over nothing": lambda x: (x * x + 1) / 0,
    "turned": lambda x: functional.relu(-x) * 0.37 - x,
    # The derivative multiplies by `alpha`, with an operator of its own, whose result is no whole number of ticks.
    "shifted": lambda x: torch.add(functional.relu(x), x, alpha=2.5),
    "with its sums": lambda x: x + x.sum(1) - x.sum(1, keepdim=True) / 4,
    # 0 everywhere but at the lower limit, which has no opposite.
    "taken from itself": lambda x: -x + x,
}
"""What stands between two layers."""

UNKNOWN: dict[str, Callable[[Any], Any]] = {
    "aten.sin.default": torch.sin,
    "aten.exp.default": torch.exp,
    "aten._softmax.default": lambda x: functional.softmax(x, -1),
    "aten.sigmoid_.default": torch.sigmoid_,
    # One of a name that the device has, in an overload that it does not have.
    "aten.div.Tensor_mode": lambda x: torch.div(x, 3, rounding_mode="floor"),
    "aten.native_layer_norm.default": lambda x: functional.layer_norm(x, x.shape[-1:]),
}
"""Operators that the device does not have, and what calls them."""


def network(*sizes: int, seed: int, **more: Any) -> Network:
    """A network with layers of these sizes."""
    given = {"rows": 2, "spread": 400, "steps": 1, "rate": 0.25, "body": "relu", "unknown": []}
    return {"sizes": list(sizes), "seed": seed, **given, **more}


def visible_cases() -> list[Case]:
    """One layer, a network with its gradients, two steps of training, and an operator that the device does not have."""
    return [
        Case("one layer", {"network": network(3, 2, seed=1, steps=0)}),
        Case("gradients", {"network": network(3, 4, 2, seed=2, rate=0.0)}),
        Case("two steps", {"network": network(3, 4, 2, seed=3, steps=2)}),
        Case("not on this device", {"network": network(2, 2, seed=4, steps=0, unknown=["aten.sin.default"])}),
    ]


def run(given: Network, device: Any) -> dict[str, Any]:
    """What a network gives on a device.

    Args:
        given: the network.
        device: the class of its tensors.
    """
    generator = torch.Generator().manual_seed(given["seed"])

    def drawn(*shape: int, requires_grad: bool = False) -> Any:
        ticks = torch.randint(-given["spread"], given["spread"] + 1, shape, generator=generator)
        return device(ticks, requires_grad)

    sizes = given["sizes"]
    weights = [drawn(size, before, requires_grad=True) for before, size in pairwise(sizes)]
    biases = [drawn(size, requires_grad=True) for size in sizes[1:]]
    x, target = drawn(given["rows"], sizes[0]), drawn(given["rows"], sizes[-1])
    parameters = [*weights, *biases]

    def forward() -> Any:
        found = x
        for number, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
            found = functional.linear(BODIES[given["body"]](found) if number else found, weight, bias)
        return found

    seen: dict[str, Any] = {"outputs": [_ticks(forward())], "losses": [], "gradients": []}
    for _ in range(given["steps"]):
        difference = forward() - target
        loss = (difference * difference).sum() / given["rows"]
        loss.backward()
        seen["losses"].append(_ticks(loss))
        seen["gradients"].append([_ticks(one.grad) for one in parameters])
        with torch.no_grad():
            for one in parameters:
                if one.grad is not None:
                    one.sub_(one.grad, alpha=given["rate"])
                one.grad = None
        seen["outputs"].append(_ticks(forward()))
    seen["parameters"] = [_ticks(one) for one in parameters]
    seen["unknown"] = [_refusal(UNKNOWN[name], forward()) for name in given["unknown"]]
    return seen


def _ticks(found: Any) -> list[Any] | None:
    ticks = getattr(found, "ticks", None)
    if not isinstance(ticks, torch.Tensor) or ticks.dtype != torch.int64:
        return None
    return [list(ticks.shape), ticks.flatten().tolist()]


def _refusal(calls: Callable[[Any], Any], found: Any) -> str | None:
    try:
        with torch.no_grad():
            calls(found)
    except NotImplementedError as error:
        return str(error)[:LONGEST]
    return None


def probe(case: Case, fixed: Any) -> Evidence:
    """Run the network on the learner's device."""
    return Evidence(run(case.parameters["network"], fixed))


def show(case: Case, evidence: Evidence) -> list[Any]:
    """What the network gave, in ticks."""
    seen = evidence.values
    lines = [f"{case.name}: in ticks"]
    for number, output in enumerate(seen["outputs"]):
        lines.append(f"  output {'before training' if not number else f'after step {number}'}: {_in_words(output)}")
    for loss in seen["losses"]:
        lines.append(f"  loss: {_in_words(loss)}")
    lines += [
        f"  {name}: {told or 'not refused'}"
        for name, told in zip(case.parameters["network"]["unknown"], seen["unknown"], strict=True)
    ]
    return ["\n".join(lines)]


def _in_words(found: Any) -> str:
    return "no ticks" if found is None else f"{found[1][:8]}{' …' if len(found[1]) > 8 else ''}"
