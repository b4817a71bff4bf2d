"""What holds for every command of `fxopt`, whoever adds it."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

FAILED = 1
"""Exit code when code that a command ran ended Python."""

_OURS = [Path(__file__).parents[2] / package for package in ("fxopt_core", "fxopt_workbench", "autograder")]


class Commands(TyperGroup):
    """The commands. Code that one of them runs, such as a model, may call `sys.exit`: that is said, and never fine."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        try:
            return super().invoke(ctx)
        except SystemExit as error:
            frames = traceback.extract_tb(error.__traceback__)
            if any(Path(frames[-1].filename).is_relative_to(package) for package in _OURS):
                raise  # our own answer to a signal
            typer.echo(
                f"fxopt {ctx.invoked_subcommand}: the code that it ran ended Python with exit code {error.code!r} at "
                f"{frames[-1].filename}:{frames[-1].lineno} ({frames[-1].line}), so there is no result. Let that code "
                "return or raise an exception instead.",
                err=True,
            )
            raise typer.Exit(FAILED) from error
