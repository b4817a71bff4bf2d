"""One engine, tried on one program: built, compared with the graph, and timed. Runs in a process of its own."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from fxopt_core.verification import Tolerance, check_equivalence
from fxopt_core.verification.cases import SPECIAL, cases
from fxopt_workbench.engines.engine import EAGER, Engine
from fxopt_workbench.engines.program import Program, Run
from fxopt_workbench.engines.watching import WARM_UP, grows_by, overwritten, resident_bytes, time_calls


class Tried:
    """What is asked of an engine, in this order: `build`, `verify`, `seconds`.

    Args:
        engine: to try.
        program: what it runs.
        folder: its own.
        threads: that it may use.
    """

    def __init__(self, engine: Engine, program: Program, folder: Path, threads: int) -> None:
        self.engine, self.program, self.folder, self.threads = engine, program, folder, threads
        self.run: Run | None = None
        self.gradients = False

    def build(self, tolerance: Sequence[float], gradients: bool) -> dict[str, Any]:
        """Make the program run, compare it, and call it until it is warm.

        Args:
            tolerance: relative and absolute.
            gradients: whether calls record gradients.
        """
        start = time.monotonic()
        with torch.set_grad_enabled(gradients):
            run = self.run = self.engine.build(self.program, self.folder, self.threads)
        self.gradients = gradients
        built = time.monotonic() - start
        answer: dict[str, Any] = {"seconds": built, "error": 0.0, "refusal": "", "caveat": ""}
        if self.engine.name != EAGER:
            answer |= compare(self.program, run, Tolerance(*tolerance), gradients=gradients)
        if not answer["refusal"]:
            for _ in range(WARM_UP):
                self._call()
            grown = grows_by(self._call, resident_bytes)
            if grown:
                answer["refusal"] = f"it leaks memory: about {grown / 2**20:.2g} MiB more with each call"
            answer["call"] = time_calls(self._call, 1)
        return answer

    def seconds(self, calls: int) -> dict[str, Any]:
        """Seconds of a call, of so many in a row."""
        return {"seconds": time_calls(self._call, calls)}

    def _call(self) -> None:
        assert self.run is not None
        if not self.gradients:
            with torch.no_grad():
                self.run(*self.program.example)
            return
        results = self.run(*self.program.example)
        total = sum(one.sum() for one in results if one.requires_grad)
        if isinstance(total, torch.Tensor):
            torch.autograd.grad(total, [one for one in self.program.graph.parameters() if one.requires_grad])


def more_inputs(program: Program, *, special: bool = False) -> list[tuple[torch.Tensor, ...]]:
    """Other values for a program's inputs: fresh ones and zeros, or special ones, as far as the graph takes them."""
    found = []
    for case in cases(program.example, {}, 0, largest=False):
        if (case.name == SPECIAL) is not special:
            continue
        try:
            with torch.no_grad():
                program.graph(*(tensor.clone() for tensor in case.args))
        except (RuntimeError, IndexError, ValueError):  # the model itself takes no such values
            continue
        found.append(case.args)
    return found


def compare(program: Program, run: Run, tolerance: Tolerance, *, gradients: bool) -> dict[str, Any]:
    """Compare an engine with the graph: on the example, on fresh values and zeros.

    Infinities and NaN are tried too; what an engine makes of them is told, and does not count against it.

    Returns:
        `refusal`, `caveat` and `error`, as in `Trial`.
    """
    which: Any = "all" if gradients else "none"
    how: dict[str, Any] = {"tolerance": tolerance, "gradients": which, "adversarial": False}
    given = [one.clone() for one in program.example]

    def call(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(run(*tensors))

    found = check_equivalence(program.graph, call, given, more_inputs=more_inputs(program), **how)
    error = found.largest_error if math.isfinite(found.largest_error) else None
    if not found:
        return {"refusal": f"it does something else than the graph: {found.differences[0]}", "error": error}
    with torch.set_grad_enabled(gradients):
        first = run(*given)
        copies = [one.detach().clone() for one in first]
        run(*next(iter(more_inputs(program)), given))
    if overwritten([one.detach() for one in first], copies):
        return {"refusal": "a later call overwrites the result of an earlier one", "error": error}
    caveat = ""
    for special in more_inputs(program, special=True):
        differs = check_equivalence(program.graph, call, list(special), **how)
        if not differs:
            caveat = f"with infinities and NaN it differs from the graph: {differs.differences[0]}"
    return {"refusal": "", "caveat": caveat, "error": error}
