"""How the results of `fxopt_core` look: the core holds data, and here are the tables and figures of it.

The core finds this package through the entry-point group `fxopt.displays` and calls `as_text` and `as_html`.
"""

from __future__ import annotations

from typing import Any

from fxopt_workbench.results import (  # noqa: F401  importing registers their tables
    benchmarks,
    captures,
    comparisons,
    costs,
    optimizations,
)
from fxopt_workbench.tables import tables_of


def as_text(result: Any) -> str:
    """The tables of a result in characters, for a terminal or a file."""
    return "\n".join(table.text() for table in tables_of(result))


def as_html(result: Any) -> str:
    """The tables of a result for a notebook. Nothing in it needs a style or a script: GitHub takes both out."""
    return "".join(table.html() for table in tables_of(result))
