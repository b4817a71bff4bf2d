"""Subcommands that the autograder adds to `fxopt`."""

from __future__ import annotations

import typer


def register(app: typer.Typer) -> None:
    """Add this package's subcommands to the `fxopt` command."""
