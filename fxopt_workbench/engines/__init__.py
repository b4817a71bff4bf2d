"""What runs an optimised graph: the engines, and the choice of the fastest that is right.

    result = GraphOptimizer(model, (x,)).optimize("inference", engine="auto")
    print(result.report.engine)

The core finds `auto` and each engine through the entry-point group `fxopt.engines`.
"""

from __future__ import annotations

from fxopt_workbench.engines.choosing import SECONDS, Auto
from fxopt_workbench.engines.decision import Decision, Trial
from fxopt_workbench.engines.engine import EAGER, Engine, RefusedError
from fxopt_workbench.engines.saving import Saved, StaleError, load, save

AUTO = Auto()
"""What `engine="auto"` means."""

__all__ = [
    "AUTO",
    "EAGER",
    "SECONDS",
    "Auto",
    "Decision",
    "Engine",
    "RefusedError",
    "Saved",
    "StaleError",
    "Trial",
    "load",
    "save",
]
