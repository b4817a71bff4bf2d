"""Graph capture, passes, verification, costs and benchmarks for PyTorch 2: the core that the fxopt course grows.

`GraphOptimizer`, `capture`, `register_pass` and `OptimizationPass` are loaded when they are first asked for, so that
`import fxopt_core` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_FACE = {
    "GraphOptimizer": "fxopt_core.optimizer",
    "OptimizationPass": "fxopt_core.passes",
    "capture": "fxopt_core.capture",
    "register_pass": "fxopt_core.passes",
}
"""Public name -> the package that defines it."""

__all__ = ["GraphOptimizer", "OptimizationPass", "capture", "register_pass"]


def __getattr__(name: str) -> Any:
    if name not in _FACE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    package = import_module(_FACE[name])
    # The package `capture` can be called, and is what this name means as soon as anything has imported it.
    return package if name == "capture" else getattr(package, name)
