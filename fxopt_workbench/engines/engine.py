"""What an engine is: a name, what it needs and keeps, and how it makes a program run."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from fxopt_core.optimizer.engines import Request, Taken
from fxopt_workbench.engines.program import Program, Run

EAGER = "eager"
"""The engine that all others are measured against: the optimised graph, operator by operator."""


class RefusedError(ValueError):
    """An engine cannot run a program, and the message says why."""


@dataclass(frozen=True)
class Engine:
    """A way to run a program.

    An engine is also what the core calls one: given a `Request`, it tries itself beside `eager`, and is taken if it is
    right and faster beyond the spread. `Auto` tries them all.

    Attributes:
        name: as users give it.
        build: makes a program run: given the program, a folder of its own for what is worth keeping between processes
            (empty, or as an earlier `build` left it), and how many threads to use. It is called in the mode of
            gradients in which the program will run, and may raise anything.
        packages: what must be installed, by the name of import and of the distribution.
        gradients: whether its results are differentiable.
        effects: whether it also does what a graph does besides computing values: writes, random numbers.
        live_weights: whether it reads the weights at each call; else it is left when they have changed.
        other_sizes: whether it takes the open sizes of a program, and not only the example's.
        artefact: whether its folder holds what makes the next `build` quick.
        cpu_only: whether it takes tensors on the CPU only.
        slow_to_build: whether to build it after the others, which may then be ready in time where it is not.
    """

    name: str
    build: Callable[[Program, Path, int], Run]
    packages: dict[str, str] = field(default_factory=dict)
    gradients: bool = False
    effects: bool = False
    live_weights: bool = False
    other_sizes: bool = False
    artefact: bool = False
    slow_to_build: bool = False
    cpu_only: bool = False

    def objection(self, program: Program | None, *, gradients: bool) -> str:
        """Why not even to try it; empty where nothing speaks against it.

        Args:
            program: what it would run; `None` to ask only for what is installed.
            gradients: whether calls are to record gradients.
        """
        missing = [name for name, module in self.packages.items() if not _is_installed(module)]
        if missing:
            return f'{", ".join(missing)} is not installed; pip install "fxopt[engines]" brings it'
        if gradients and not self.gradients:
            return "it gives no gradients, which were asked for"
        place = program.example[0].device.type if program is not None and program.example else "cpu"
        if self.cpu_only and place != "cpu":
            return f"here it computes on the CPU, and the model is on {place}"
        if program is not None and program.effects and not self.effects:
            return f"it only computes values, and the graph does more: {'; '.join(program.effects)}"
        return ""

    def versions(self) -> dict[str, str]:
        """The versions of what it needs besides torch."""
        found = {}
        for name in self.packages:
            try:
                found[name] = version(name)
            except PackageNotFoundError:
                found[name] = "unknown"
        return found

    def __call__(self, request: Request) -> Taken:
        """Try this engine beside `eager`, and take it if it is right and faster beyond the spread."""
        from fxopt_workbench.engines import Auto

        return Auto(only=(self.name,))(request)


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False
