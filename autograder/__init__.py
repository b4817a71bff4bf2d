"""Exercises, grading and the learner's tools of the fxopt course.

A notebook needs three names of it: `check` (try an answer), `use` (an answer from an earlier day) and `submit`
(hand in). They are loaded when they are first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from autograder.exchange.deferring import defer_address_syntax

defer_address_syntax()

_FACE = {
    "check": ("autograder.learner_side.check", None),
    "submit": ("autograder.learner_side.submit_cell", "submit"),
    "use": ("autograder.learner_side.own_functions", "use"),
}
"""Public name -> the module that holds it, and the name in that module (`None`: the module itself)."""

__all__ = ["check", "submit", "use"]


def __getattr__(name: str) -> Any:
    if name not in _FACE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _FACE[name]
    found = import_module(module)
    return found if attribute is None else getattr(found, attribute)
