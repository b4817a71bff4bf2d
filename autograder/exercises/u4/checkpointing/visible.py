"""The learner's side: networks to checkpoint, the probe and what the check shows."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn import functional

from autograder.exchange.evidence import Case, Evidence

WIDTH = 4

Program = dict[str, Any]
"""A training step.

`pieces`: what is checkpointed, one after another, each a list of layers (names of `LAYERS`). `x` and `weights`:
whether they ask for gradients. `nested`: whether the pieces lie in one another. `times`: backward passes. `draws`:
whether random numbers are drawn between and after. `more`: whether each piece gets a second tensor, which asks for
gradients, and a number.
`records`: whether autograd is on. `fails`: whether the second run raises. `repeated`: how often in a row each piece
is called, all with a checkpoint of its own. `seed`: for the numbers.
"""


class _Cube(torch.autograd.Function):
    """A cube whose backward reads what it saved twice, as any node may."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        (once_more,) = ctx.saved_tensors
        return gradient * 3 * x * once_more


LAYERS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "linear": lambda x, weight: functional.linear(x, weight),
    "tanh": lambda x, weight: torch.tanh(x),
    "sin": lambda x, weight: torch.sin(x),
    "dropout": lambda x, weight: functional.dropout(x, 0.5),
    "noise": lambda x, weight: x * torch.randn(x.shape, dtype=x.dtype),
    "double": lambda x, weight: x * 2,
    "cube": lambda x, weight: _Cube.apply(x),
}


def program(*pieces: str, **more: Any) -> Program:
    """A program; each piece is a text with the names of its layers. See `Program`."""
    usual = {"x": True, "weights": True, "nested": False, "times": 1, "draws": False, "more": False}
    usual |= {"records": True, "fails": False, "repeated": 1, "seed": 0}
    return {"pieces": [piece.split() for piece in pieces], **usual, **more}


def visible_cases() -> list[Case]:
    """Layers, random numbers in them, two pieces, and an input that asks for nothing."""
    return [
        Case("a few layers", program("linear tanh linear sin")),
        Case("dropout", program("linear dropout tanh linear dropout sin", draws=True, seed=1)),
        Case("two pieces", program("linear tanh dropout", "linear sin", seed=2)),
        Case("only the weights ask", program("linear tanh linear tanh", x=False, seed=3)),
    ]


class _FailedError(Exception):
    """What the second run of a piece may raise."""


@dataclass
class Piece:
    """A function to checkpoint, which counts its calls and remembers what it computed.

    Attributes:
        layers: names of `LAYERS`.
        weight: of its linear layers.
        within: a piece that is checkpointed at the end of this one, and by what.
        fails: whether it raises when it is called again.
        calls: how often it was called.
        storages: of the results of its layers, in the first call.
    """

    layers: list[str]
    weight: torch.Tensor
    within: tuple[Any, Piece] | None = None
    fails: bool = False
    calls: int = 0
    storages: list[StorageWeakRef] = field(default_factory=list)

    def __call__(self, x: torch.Tensor, shift: torch.Tensor | None = None, factor: float = 1.0) -> torch.Tensor:
        """Run the layers."""
        self.calls += 1
        if shift is not None:
            x = x * factor + shift
        for name in self.layers:
            x = LAYERS[name](x, self.weight)
            if self.calls == 1:
                self.storages.append(StorageWeakRef(x.untyped_storage()))
        if self.within is not None:
            checkpoint, piece = self.within
            x = checkpoint(piece, x)
        if self.fails and self.calls > 1:
            raise _FailedError
        return x


def run(given: Program, checkpoint: Callable[..., torch.Tensor]) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """Train one step with every piece checkpointed; what was counted, and what came out."""
    generator = torch.Generator().manual_seed(given["seed"])

    def drawn(*sizes: int) -> torch.Tensor:
        return torch.randn(sizes, generator=generator, dtype=torch.float64)

    x = drawn(3, WIDTH).requires_grad_(given["x"])
    shift = drawn(WIDTH).requires_grad_(given["more"])
    pieces = [Piece(layers, drawn(WIDTH, WIDTH).requires_grad_(given["weights"])) for layers in given["pieces"]]
    for piece in pieces:
        piece.fails = given["fails"]
    torch.manual_seed(given["seed"])
    # The input of a checkpoint is seldom a leaf.
    value = x * 1 if given["x"] else x
    if given["nested"]:
        for outer, inner in pairwise(pieces):
            outer.within = checkpoint, inner
    with torch.set_grad_enabled(given["records"]):
        for piece in pieces[:1] if given["nested"] else pieces:
            for _ in range(given["repeated"]):
                value = checkpoint(piece, value, shift, 0.5) if given["more"] else checkpoint(piece, value)
    results = [one for piece in pieces for one in piece.storages if one != StorageWeakRef(value.untyped_storage())]
    # What goes into the next checkpoint is kept by right.
    edges = [piece.storages[-1] for piece in pieces]
    counted: dict[str, Any] = {
        "kept": sum(not one.expired() for one in results if one not in edges),
        "calls before": [piece.calls for piece in pieces],
    }
    tensors = {"value": value.detach().clone()}
    if given["draws"]:
        tensors["drawn between"] = torch.rand(4, dtype=torch.float64)
    if value.requires_grad:
        loss, result = (value * drawn(3, WIDTH)).sum(), StorageWeakRef(value.untyped_storage())
        del value
        # The caller has let go of the result, and what comes after it needs it no more.
        counted["kept"] += not result.expired()
        for _ in range(given["times"]):
            with suppress(_FailedError):
                loss.backward(retain_graph=given["times"] > 1)
    counted["calls"] = [piece.calls for piece in pieces]
    if given["draws"]:
        tensors["drawn after"] = torch.rand(4, dtype=torch.float64)
    leaves = {"x": x, "the second tensor": shift}
    leaves |= {f"weight {number}": piece.weight for number, piece in enumerate(pieces)}
    tensors |= {f"gradient of {name}": one.grad for name, one in leaves.items() if one.grad is not None}
    return counted, tensors


def probe(case: Case, checkpoint: Any) -> Evidence:
    """Run a program with the learner's checkpoints."""
    counted, tensors = run(case.parameters, checkpoint)
    return Evidence(counted, {name: one.detach() for name, one in tensors.items()})


def show(case: Case, evidence: Evidence) -> list[Any]:
    """What was kept, how often each piece ran, and which gradients came out."""
    gradients = [name.removeprefix("gradient of ") for name in evidence.tensors if name.startswith("gradient")]
    return [
        f"{case.name}:\n"
        f"  kept after the forward pass: {evidence.values['kept']} results of layers\n"
        f"  calls of each piece: {evidence.values['calls before']}, after the backward pass "
        f"{evidence.values['calls']}\n  gradients of: {', '.join(gradients) or 'nothing'}"
    ]
