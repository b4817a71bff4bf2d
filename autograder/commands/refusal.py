"""How a command refuses. Imports no torch."""

from __future__ import annotations

from pathlib import Path

import typer
from rich.console import Console
from rich.markup import escape

from fxopt_workbench.commands.output import check_file

CANNOT = 2
"""Exit code for bad input, and for a file or a database that cannot be used: one line says what."""


def refuse(error: Exception | str) -> typer.Exit:
    """Say why, in one line; what to raise."""
    Console(stderr=True, soft_wrap=True).print(f"fxopt: {escape(str(error))}")
    return typer.Exit(CANNOT)


def check_output(option: str, path: Path | None) -> None:
    """Refuse before the work, as `refuse` does, a file that could not be written after it; `None` asks for none."""
    try:
        check_file(path)
    except OSError as error:
        raise refuse(f"{option} {error}") from None
