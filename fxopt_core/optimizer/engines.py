"""What runs an optimised graph: the interface through which other packages bring engines to the core.

In a package's `pyproject.toml`:

    [project.entry-points."fxopt.engines"]
    mine = "my_package:ENGINE"
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any

from fxopt_core.display import Displayable
from fxopt_core.suggestions import did_you_mean
from fxopt_core.verification import Equivalence, Tolerance
from fxopt_core.verification.isolation import ExampleInputs

GROUP = "fxopt.engines"
"""The entry-point group. Each entry point loads an `Engine`."""


@dataclass(frozen=True)
class Request:
    """What an engine is asked to run.

    Attributes:
        module: the optimised model; called as the model is called, and right where no engine is. Inside of Dynamo the
            graph that it captured, whose weights and sizes are inputs.
        example_inputs: what it is called with, for compiling and measuring.
        tolerance: how far `module` itself may be off from the model.
        gradients: whether calls are to record gradients.
        compare: compares a module with the model, as the passes' work was compared; takes what `check_equivalence`
            takes by name, the tolerance for one.
    """

    module: Any
    example_inputs: ExampleInputs
    tolerance: Tolerance
    gradients: bool
    compare: Callable[..., Equivalence]


@dataclass(frozen=True)
class Taken:
    """What an engine gives.

    Attributes:
        module: called as the model is called, and as right.
        decision: how it came to this, as data.
    """

    module: Any
    decision: Displayable


Engine = Callable[[Request], Taken]
"""Runs an optimised model faster, or gives back the one of the request."""


def find_engine(engine: str | Engine) -> Engine:
    """An engine by its name; any other is taken as it is.

    Raises:
        ValueError: no installed package brings an engine of this name; the message offers the nearest names.
    """
    if not isinstance(engine, str):
        return engine
    known = {point.name: point for point in entry_points(group=GROUP)}
    if engine not in known:
        names = ", ".join(sorted(known)) or "none: fxopt_workbench, which brings them, is not installed"
        raise ValueError(f"there is no engine {engine!r}.{did_you_mean(engine, known)} The engines are {names}.")
    loaded: Engine = known[engine].load()
    return loaded
