"""`fxopt` in this process: without the seconds that starting Python takes, and with the test's stand-ins in force."""

from __future__ import annotations

from click.testing import Result
from typer.testing import CliRunner

from autograder.commands import cli
from fxopt_workbench.cli import app


def fxopt(*arguments: str, **environment: str) -> Result:
    """Run a command as the terminal would."""
    if not any(group.name == "course" for group in app.registered_groups):
        cli.register(app)
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "160"} | environment)
