"""One training step on a private copy: what it computes, what it allocates, how long it takes."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from fxopt_core.costs import AllocationRecord, record_allocations
from fxopt_core.devices import synchronize
from fxopt_core.verification.isolation import private_copy, same_random_state

Loss = Callable[[Any], torch.Tensor]
"""From what the model returns to a scalar."""


@dataclass(frozen=True)
class TrainingStep:
    """Forward, loss, backward and, where there is an optimiser, its step. Gradients are `None` before each.

    Attributes:
        model: in the mode (`train` or `eval`) in which it is to be measured.
        args: positional inputs.
        kwargs: keyword inputs.
        loss: from the model's output to a scalar; `None` for outputs that are a scalar or have one as `loss`.
        optimizer: over the parameters of `model`.
    """

    model: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    loss: Loss | None
    optimizer: torch.optim.Optimizer | None

    def copy(self) -> TrainingStep:
        """The same step on a copy of model, inputs and optimiser, which belong together like the originals.

        Raises:
            CaptureError: something cannot be copied.
        """
        rest = {"kwargs": self.kwargs, "optimizer": self.optimizer}
        model, args, copied = private_copy(self.model, self.args, rest, "recomputation")
        assert isinstance(model, nn.Module)
        return TrainingStep(model, args, copied["kwargs"], self.loss, copied["optimizer"])

    def run(self, before_backward: Callable[[], None] = lambda: None) -> torch.Tensor:
        """Take the step. The model's output is dropped before backward, as in `model(...).loss.backward()`."""
        value = scalar_loss(self.model(*self.args, **self.kwargs), self.loss)
        before_backward()
        value.backward()
        if self.optimizer is not None:
            self.optimizer.step()
        return value.detach()

    def clear_gradients(self) -> None:
        """Set every gradient to `None`."""
        for tensor in self._leaves():
            tensor.grad = None

    def record(self, before_backward: Callable[[], None] = lambda: None) -> tuple[torch.Tensor, AllocationRecord]:
        """Take the step; the loss and what it allocated on the model's device."""
        self.clear_gradients()
        return record_allocations(lambda: self.run(before_backward), self.device)

    @property
    def device(self) -> torch.device:
        """Where the first parameter lives."""
        return next(self.model.parameters()).device

    def lasting(self) -> list[torch.Tensor]:
        """Parameters, buffers, inputs, their gradients and the optimiser's state: what the budget leaves out."""
        return [tensor for _, tensor in self.state()]

    def state(self) -> Iterator[tuple[str, torch.Tensor]]:
        """The same, each with a name, in a fixed order."""
        for number, tensor in enumerate(self._leaves()):
            yield f"tensor {number}", tensor
            if tensor.grad is not None:
                yield f"gradient {number}", tensor.grad
        if self.optimizer is not None:
            for key, value in enumerate(tree_leaves(self.optimizer.state_dict()["state"])):
                if isinstance(value, torch.Tensor):
                    yield f"optimiser state {key}", value

    def _leaves(self) -> list[torch.Tensor]:
        inputs = [value for value in tree_leaves((self.args, self.kwargs)) if isinstance(value, torch.Tensor)]
        return [*self.model.parameters(), *self.model.buffers(), *inputs]


@dataclass(frozen=True)
class Trial:
    """What was measured of one variant of a step.

    Attributes:
        peak_bytes: most bytes that the step holds at a time beyond parameters, buffers, inputs, gradients and
            optimiser state.
        seconds: median of the timed steps.
        state: the loss and everything that lasts, after all steps of the trial.
    """

    peak_bytes: int
    seconds: float
    state: Mapping[str, torch.Tensor]


def try_step(step: TrainingStep, change: Callable[[nn.Module], object], repeats: int) -> Trial:
    """Copy the step, change the copied model and take one step to warm up, `repeats` timed ones and a recorded one.

    The random generators are put back at the end, so that all trials draw the same numbers.
    """
    copied = step.copy()
    change(copied.model)
    seconds = []
    with same_random_state(copied.model):
        for _ in range(1 + repeats):
            copied.clear_gradients()
            synchronize(copied.device)
            start = time.perf_counter()
            copied.run()
            synchronize(copied.device)
            seconds.append(time.perf_counter() - start)
        loss, record = copied.record()
    peak = record.peak_bytes(without=copied.lasting())
    return Trial(peak, statistics.median(seconds[1:]), {"the loss": loss, **dict(copied.state())})


def scalar_loss(output: Any, loss: Loss | None) -> torch.Tensor:
    """The scalar to differentiate.

    Raises:
        TypeError: it is not a scalar that needs gradients.
    """
    value = loss(output) if loss is not None else output
    if loss is None and not isinstance(output, torch.Tensor):
        value = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    if isinstance(value, torch.Tensor) and value.numel() == 1 and value.requires_grad:
        return value
    what = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, torch.Tensor) else f"{type(value).__name__}"
    raise TypeError(
        f"the loss is {what}; expected a scalar tensor that needs gradients. Pass loss=..., a function from the "
        "model's output to one."
    )


def first_difference(found: Mapping[str, torch.Tensor], expected: Mapping[str, torch.Tensor], *, exact: bool) -> str:
    """The name of the first tensor that differs, `""` where all agree: bit by bit, or to torch's usual tolerances."""
    for name in expected.keys() | found.keys():
        if name not in found or name not in expected:
            return name
        left, right = (tensor.detach().contiguous().view(-1) for tensor in (found[name], expected[name]))
        if found[name].shape != expected[name].shape or left.dtype != right.dtype:
            return name
        if exact and not torch.equal(left.view(torch.uint8), right.view(torch.uint8)):
            return name
        if not exact and not torch.allclose(left, right, rtol=1e-4, atol=1e-5, equal_nan=True):
            return name
    return ""


def check_budget(budget: float) -> float:
    """The budget, if it is a fraction above 0 and at most 1.

    Raises:
        BudgetError: it is not.
    """
    if isinstance(budget, bool) or not isinstance(budget, (int, float)) or not (0 < budget <= 1) or math.isnan(budget):
        raise BudgetError(f"the budget is {budget!r}; expected a fraction of the step's peak, above 0 and at most 1.")
    return float(budget)


class BudgetError(ValueError):
    """A budget is out of range or below what can be reached.

    Attributes:
        minimum: the least budget that can be reached, where that is known.
    """

    def __init__(self, message: str, minimum: float | None = None) -> None:
        super().__init__(message)
        self.minimum = minimum
