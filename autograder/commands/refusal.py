"""How a command refuses. Imports no torch."""

from __future__ import annotations

import typer
from rich.console import Console
from rich.markup import escape

CANNOT = 2
"""Exit code for bad input, and for a file or a database that cannot be used: one line says what."""


def refuse(error: Exception | str) -> typer.Exit:
    """Say why, in one line; what to raise."""
    Console(stderr=True, soft_wrap=True).print(f"fxopt: {escape(str(error))}")
    return typer.Exit(CANNOT)
