"""How the results of `fxopt_core` look: the core holds data, and here are its tables, figures and JSON.

The core finds this package through the entry-point group `fxopt.displays` and calls `as_text`, `as_html` and `as_json`.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from fxopt_workbench.tables import Table, document_of, tables_of

_HOMES = {
    "AllocationRecord": "costs",
    "Analysis": "costs",
    "BenchmarkReport": "benchmarks",
    "Captured": "captures",
    "Equivalence": "equivalences",
    "OptimizationReport": "optimizations",
    "OptimizationResult": "optimizations",
    "PassResult": "passes",
}
"""Class of a result -> the module here that registers its tables and its JSON. It is imported when one is first shown:
nothing else of the core needs to be there for that."""


def _import_home(result: Any) -> None:
    for kind in type(result).__mro__:
        if kind.__module__.startswith("fxopt_core.") and kind.__name__ in _HOMES:
            import_module(f"{__name__}.{_HOMES[kind.__name__]}")


def tables(result: Any) -> Sequence[Table]:
    """The tables of a result of the core, in the order in which they are read."""
    _import_home(result)
    return tables_of(result)


WIDTH = 120
"""Columns of a result that is printed, as many as a notebook shows without a scroll bar."""


def as_text(result: Any) -> str:
    """The tables of a result in characters, for a terminal or a file."""
    return "\n".join(table.text(WIDTH) for table in tables(result))


def as_html(result: Any) -> str:
    """The tables of a result for a notebook. Nothing in it needs a style or a script: GitHub takes both out."""
    return "".join(table.html() for table in tables(result))


def as_json(result: Any) -> dict[str, Any]:
    """A result as JSON values.

    Raises:
        TypeError: this kind of result has no such form.
    """
    _import_home(result)
    return document_of(result)
