"""`Auto`: the fastest engine that is installed and right."""

from __future__ import annotations

import os
import tempfile
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from fxopt_core.benchmark import measure_interleaved
from fxopt_core.optimizer.engines import Request, Taken
from fxopt_core.verification import EXACT, Tolerance, rounding
from fxopt_workbench.engines import registry
from fxopt_workbench.engines.decision import Decision, Trial, base_versions, choose, digest, machine
from fxopt_workbench.engines.engine import EAGER, Engine
from fxopt_workbench.engines.places import AsModule, InsideDynamo, place_of, unchanged
from fxopt_workbench.engines.program import NoProgramError, Program
from fxopt_workbench.engines.trials import Clock, Trials
from fxopt_workbench.engines.worker import PROGRAM

SECONDS = 60.0
"""The budget, unless another is asked for."""

ROUNDS = 25
"""Timed rounds at most."""

LAST_ROUNDS = 9
"""Rounds in which the engine that is taken is timed once more, where it will run."""


@dataclass(frozen=True)
class Auto:
    """Tries every engine that is installed, and takes the fastest that is right.

    Each is tried in a process of its own: built, compared with the optimised graph, and timed in turn with `eager`,
    which is the optimised graph as it is. What is faster beyond the spread is built here, compared with the model
    once more, timed once more, and taken.

    Attributes:
        seconds: the budget for all of it, set-up included. What is not ready after three quarters of it is left.
        only: names of engines to try; `None` for all that are installed. `eager` always is.
        threads: that each may use; by default as many as PyTorch has now.
        report: is called with each `Decision`: for `torch.compile`, which gives back none.
        clock: seconds since some moment; replaced in tests.
    """

    seconds: float = SECONDS
    only: tuple[str, ...] | None = None
    threads: int | None = None
    report: Callable[[Decision], object] | None = None
    clock: Clock = time.monotonic

    def __post_init__(self) -> None:
        if not self.seconds > 0:
            raise ValueError(f"seconds is {self.seconds}; expected a budget in seconds, such as {SECONDS:.0f}.")

    def __call__(self, request: Request) -> Taken:
        """Choose an engine for a model.

        Raises:
            ValueError: there is no engine of a name in `only`.
        """
        start = self.clock()
        references = registry.chosen_references(self.only)
        engines = {name: registry.load(where) for name, where in references.items()}
        threads = self.threads or torch.get_num_threads()
        try:
            stands = place_of(request)
        except NoProgramError as error:
            trials = [Trial(EAGER), *(Trial(name, refusal=str(error)) for name in engines if name != EAGER)]
            why = "there is no single graph that another engine could run"
            decision = self._decision(EAGER, why, trials, EXACT, start, threads, "", base_versions())
            if self.report is not None:
                self.report(decision)
            return Taken(unchanged(request), decision)
        program = stands.program
        tolerance = _tolerance(request, program)
        folder = tempfile.TemporaryDirectory(prefix="fxopt-engines-")
        place = Path(folder.name)
        trials = self._tried(request, stands, engines, references, tolerance, place, threads, start)
        taken, why, module = EAGER, "", unchanged(request)
        while True:
            taken, why = choose(trials)
            if taken == EAGER:
                break
            module, refusal = _take(request, stands, engines[taken], tolerance, place / taken, threads)
            if not refusal:
                break
            trials = [_refused(one, refusal) if one.engine == taken else one for one in trials]
            module = unchanged(request)
        versions = base_versions()
        for engine in engines.values():
            versions |= engine.versions() if not engine.objection(None, gradients=False) else {}
        decision = self._decision(
            taken, why, trials, tolerance, start, threads, digest(program.graph, program.example), versions, place
        )
        weakref.finalize(decision, folder.cleanup)
        if self.report is not None:
            self.report(decision)
        return Taken(module, decision)

    def _tried(
        self,
        request: Request,
        stands: AsModule | InsideDynamo,
        engines: dict[str, Engine],
        references: dict[str, str],
        tolerance: Tolerance,
        place: Path,
        threads: int,
        start: float,
    ) -> list[Trial]:
        """What became of each engine."""
        program = stands.program
        objections = {
            name: one.objection(program, gradients=request.gradients) or stands.objection(one)
            for name, one in engines.items()
        }
        trials = {name: Trial(name, refusal=objection) for name, objection in objections.items()}
        quick_first = sorted(references, key=lambda name: (name != EAGER, engines[name].slow_to_build))
        able = {name: references[name] for name in quick_first if not objections[name]}
        if set(able) - {EAGER}:
            try:
                program.save(place / PROGRAM)
            except Exception as error:  # pickling asks every object in the graph, and each may raise its own
                refusal = f"the graph cannot be handed to another process: {type(error).__name__}: {error}"
                return [_refused(one, one.refusal or refusal * (one.engine != EAGER)) for one in trials.values()]
            left = self.seconds - (self.clock() - start)
            with Trials(able, place, threads, left, self.clock) as tried:
                tried.prepare(tolerance, gradients=request.gradients, at_once=os.cpu_count() or 1)
                tried.time(ROUNDS)
                trials |= {name: one.trial for name, one in tried.contenders.items()}
        return list(trials.values())

    def _decision(
        self,
        taken: str,
        why: str,
        trials: list[Trial],
        tolerance: Tolerance,
        start: float,
        threads: int,
        program: str,
        versions: dict[str, str],
        folder: Path | None = None,
    ) -> Decision:
        spent = self.clock() - start
        return Decision(
            taken, why, tuple(trials), tolerance, self.seconds, spent, threads, machine(), versions, program, folder
        )


def _tolerance(request: Request, program: Program) -> Tolerance:
    """What the graph may be off from the model, or what rounding does to its numbers: the wider of both."""
    held = [*program.graph.parameters(), *program.example]
    known = [request.tolerance, *(rounding(one.dtype) for one in held)]
    return Tolerance(max(one.relative for one in known), max(one.absolute for one in known))


def _refused(trial: Trial, refusal: str) -> Trial:
    return Trial(**{**vars(trial), "refusal": refusal})


def _take(
    request: Request,
    stands: AsModule | InsideDynamo,
    engine: Engine,
    tolerance: Tolerance,
    folder: Path,
    threads: int,
) -> tuple[Any, str]:
    """The model over an engine in this process, and why not to take it; empty where it is right and not slower."""
    try:
        with torch.set_grad_enabled(request.gradients):
            module = stands.over(engine, folder, threads)
        found = compare_with_model(request, module, tolerance)
    except Exception as error:  # an engine may raise anything; it was tried in another process, and this is another
        return None, f"in this process it fails: {type(error).__name__}: {error}"
    if not found:
        return None, f"it does something else than the model: {found.differences[0]}"
    if request.gradients:
        return module, ""
    graph, (args, kwargs) = unchanged(request), stands.call()
    with torch.no_grad():
        measured = measure_interleaved(
            {"graph": lambda: graph(*args, **kwargs), "engine": lambda: module(*args, **kwargs)},
            warmup=2,
            repeats=LAST_ROUNDS,
        )
    slower = measured["engine"].quartiles[0] > measured["graph"].quartiles[1]
    return module, "where it would run, it is slower than the optimised graph" if slower else ""


def compare_with_model(request: Request, module: Any, tolerance: Tolerance) -> Any:
    """Compare a module with the model as passes are compared, on finite values and within a tolerance."""
    gradients = "all" if request.gradients else "none"
    return request.compare(module, tolerance=tolerance, gradients=gradients, adversarial=False)
