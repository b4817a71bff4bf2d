"""`recompute`: segments of a model that are recomputed in backward, so that a training step stays within a budget."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from fxopt_core.passes.base import Refusal
from fxopt_core.passes.recomputation.checkpointing import recompute_segments
from fxopt_core.passes.recomputation.ladder import Rung, ladder
from fxopt_core.passes.recomputation.segments import Survey, survey
from fxopt_core.passes.recomputation.training_step import (
    BudgetError,
    Loss,
    TrainingStep,
    Trial,
    check_budget,
    first_difference,
    try_step,
)
from fxopt_core.verification.isolation import ExampleInputs, split_example_inputs


@dataclass(frozen=True)
class ParetoPoint:
    """One choice that no other beats in both cost and peak.

    Attributes:
        budget: the least budget for which it is taken: its measured peak as a fraction of the baseline.
        predicted_bytes: peak that was expected.
        measured_bytes: peak from allocation events.
        seconds: measured time of a step, a median.
        segments: names of the submodules that are recomputed.
    """

    budget: float
    predicted_bytes: int
    measured_bytes: int
    seconds: float
    segments: tuple[str, ...]


@dataclass(frozen=True)
class RecomputationResult:
    """A model that keeps a budget.

    Attributes:
        module: a copy of the model, with weights of its own, whose chosen segments are recomputed in backward.
        curve: the Pareto curve, from the unchanged model down to the least peak.
        point: the point of the curve that was taken.
        segments: names of the submodules that are recomputed.
        baseline_bytes: measured peak of the unchanged step: budget 1.
        minimum_budget: the least budget that is not refused.
        exact: whether gradients agreed bit by bit; `False` where the unchanged step does not agree with itself
            either, and gradients were compared with a tolerance.
        refusals: submodules that would save memory and were left alone, with the reason.
    """

    module: nn.Module
    curve: tuple[ParetoPoint, ...]
    point: ParetoPoint
    baseline_bytes: int
    minimum_budget: float
    exact: bool
    refusals: tuple[Refusal, ...]

    @property
    def segments(self) -> tuple[str, ...]:
        """Names of the submodules that are recomputed."""
        return self.point.segments


class RecomputationPlanner:
    """Measures once what can be recomputed, then answers for any budget.

    The curve does not depend on the budget asked for, and of its points the cheapest within the budget is taken:
    so a lower budget never has a higher measured peak.

    Every point was run: loss, gradients, buffers, parameters and optimiser state agree with those of the unchanged
    step. What a submodule does beyond tensors, its attributes and its arguments (a file, a global list) is not seen,
    and happens again when it is recomputed.

    Args:
        model: in the mode in which it is to be trained; never changed.
        example_inputs: of one step: a tuple or list of positional, or a dictionary of keyword inputs. Never changed.
        loss: from the model's output to a scalar; not needed where the output is a scalar or has one as `loss`.
            It must not hold the model: it is called with the output of copies.
        optimizer: over the model's parameters, to make its step part of the training step; never changed.
        rungs: most choices to measure. Each takes `repeats` + 2 steps and a copy of the model.
        repeats: timed steps of each.

    Raises:
        TypeError: the model is no module, or there is no scalar loss.
        ValueError: the model has no parameters, lives on a device without allocation events, or shares parameters
            with what `loss` holds.
        CaptureError: model, inputs or optimiser cannot be copied.
    """

    def __init__(
        self,
        model: nn.Module,
        example_inputs: ExampleInputs,
        *,
        loss: Loss | None = None,
        optimizer: torch.optim.Optimizer | None = None,
        rungs: int = 24,
        repeats: int = 1,
    ) -> None:
        if not isinstance(model, nn.Module):
            raise TypeError(f"the model is of type {type(model).__name__}; expected a torch.nn.Module.")
        if not any(parameter.requires_grad for parameter in model.parameters()):
            raise ValueError("no parameter of the model needs a gradient; expected a model to train.")
        if rungs < 2 or repeats < 1:
            raise ValueError(f"rungs={rungs} and repeats={repeats}; expected at least 2 and at least 1.")
        args, kwargs = split_example_inputs(example_inputs)
        self._step = TrainingStep(model, args, kwargs, loss, optimizer)
        self._repeats = repeats
        gradients = [(parameter, parameter.grad) for parameter in model.parameters()]
        self._baseline = try_step(self._step, lambda model: None, repeats)
        if any(parameter.grad is not gradient for parameter, gradient in gradients):
            for parameter, gradient in gradients:
                parameter.grad = gradient
            raise ValueError("loss holds the model itself; expected a function of the model's output alone.")
        again = try_step(self._step, lambda model: None, repeats)
        self.exact = not first_difference(again.state, self._baseline.state, exact=True)
        survey_ = survey(self._step)
        self.refusals = survey_.refusals
        self.curve = self._measure(survey_, rungs)

    @property
    def baseline_bytes(self) -> int:
        """Measured peak of the unchanged step."""
        return self._baseline.peak_bytes

    @property
    def minimum_budget(self) -> float:
        """The least budget that is not refused."""
        return self.curve[-1].budget

    def choose(self, budget: float) -> RecomputationResult:
        """The model with the cheapest choice of segments whose measured peak is within a budget.

        Args:
            budget: fraction, above 0 and at most 1, of `baseline_bytes`.

        Raises:
            BudgetError: it is out of range, or below what can be reached.
        """
        check_budget(budget)
        point = next((point for point in self.curve if point.budget <= budget), None)
        if point is None:
            least = self.curve[-1]
            raise BudgetError(
                f"the budget {budget} is {budget * self.baseline_bytes:.0f} bytes; the least that can be reached is "
                f"{least.budget:.4f} ({least.measured_bytes} of {self.baseline_bytes} bytes).",
                least.budget,
            )
        module = recompute_segments(self._step.copy().model, point.segments)
        return RecomputationResult(
            module, self.curve, point, self.baseline_bytes, self.minimum_budget, self.exact, tuple(self.refusals)
        )

    def _measure(self, found: Survey, rungs: int) -> tuple[ParetoPoint, ...]:
        """Measure a ladder; leave out what turns out to change results, and begin again without it."""
        candidates = list(found.segments)
        while True:
            known: set[str] = set()
            points: list[ParetoPoint] = []
            for rung in ladder(found.live_bytes, candidates, rungs):
                trial = self._try(rung.segments)
                if isinstance(trial, str):
                    guilty = self._guilty(rung, known) or dict.fromkeys(set(rung.segments) - known, trial)
                    self.refusals += [Refusal(name, reason) for name, reason in guilty.items()]
                    candidates = [segment for segment in candidates if segment.name not in guilty]
                    break
                known |= set(rung.segments)
                # What costs more and holds no less is beaten.
                if not points or trial.peak_bytes < points[-1].measured_bytes:
                    points.append(self._point(rung, trial))
            else:
                return tuple(points)

    def _try(self, names: tuple[str, ...]) -> Trial | str:
        """The measured step with these segments recomputed, or why it is not the same step."""
        if not names:
            return self._baseline
        try:
            trial = try_step(self._step, lambda model: recompute_segments(model, names), self._repeats)
        except Exception as error:
            # The unchanged step runs, so this comes of recomputing.
            return f"the step fails when it is recomputed ({type(error).__name__}: {error})"
        difference = first_difference(trial.state, self._baseline.state, exact=self.exact)
        return f"{difference} differs when it is recomputed" if difference else trial

    def _guilty(self, rung: Rung, known: set[str]) -> dict[str, str]:
        """Of the segments that are new on a rung, those which fail alone, with the reason."""
        new = [name for name in rung.segments if name not in known]
        return {name: why for name in new if isinstance(why := self._try((name,)), str)}

    def _point(self, rung: Rung, trial: Trial) -> ParetoPoint:
        fraction = trial.peak_bytes / self.baseline_bytes
        return ParetoPoint(fraction, rung.predicted_bytes, trial.peak_bytes, trial.seconds, rung.segments)


def recompute(
    model: nn.Module,
    example_inputs: ExampleInputs,
    budget: float,
    *,
    loss: Loss | None = None,
    optimizer: torch.optim.Optimizer | None = None,
) -> RecomputationResult:
    """Have parts of a model recomputed in backward, so that a training step holds less memory at its peak.

    The step is forward, loss, backward and, with an optimiser, its step. The budget is a fraction of the most bytes
    that the unchanged step holds at a time beyond parameters, buffers, inputs, gradients and optimiser state,
    measured from allocation events. To ask for several budgets, make one `RecomputationPlanner`.

    Args:
        model: see `RecomputationPlanner`, which also says what is raised besides.
        example_inputs: of one step.
        budget: above 0 and at most 1.
        loss: from the model's output to a scalar.
        optimizer: over the model's parameters.

    Raises:
        BudgetError: the budget is out of range, or below what can be reached, which the message and `minimum` say.
    """
    check_budget(budget)
    return RecomputationPlanner(model, example_inputs, loss=loss, optimizer=optimizer).choose(budget)
