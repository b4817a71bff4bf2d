"""The subcommands around JupyterLab: `fxopt lab` and `fxopt workspace`. Imports no torch."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

if TYPE_CHECKING:
    from autograder.course.course import Course

CANNOT = 2
"""Exit code for what cannot be done; one line says why."""


def register(app: typer.Typer) -> None:
    """Add these subcommands to the `fxopt` command."""
    app.command()(lab)
    app.command()(workspace)


def workspace() -> None:
    """Bring the workspace up to date with the course; what you changed stays."""
    course = _filled_course()
    Console(soft_wrap=True).print(f"Your workspace: {escape(str(course.workspace))}")


def lab(
    jupyter: Annotated[
        list[str] | None, typer.Argument(help="After `--`: further options for JupyterLab.", metavar="-- OPTIONS")
    ] = None,
    *,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen at, or the next free one.")] = 8888,
    browser: Annotated[bool, typer.Option(help="Open a browser.")] = True,
    instructor: Annotated[
        bool, typer.Option("--instructor", help="Show the whole course with nbgrader's form grader.")
    ] = False,
) -> None:
    """Bring the workspace up to date and start JupyterLab at the start page. Ctrl+C stops it."""
    from autograder.lab.lab import LabError, free_port, prepare

    course = _filled_course()
    console = Console(soft_wrap=True)
    try:
        found = free_port(port)
        start = prepare(course, found, browser=browser, instructor=instructor)
        command = [*start.command, *(jupyter or [])]
    except (LabError, OSError) as error:
        raise _refuse(error) from None
    if found != port:
        console.print(f"Port {port} is taken; JupyterLab listens at {found} instead.")
    if not browser:
        console.print(
            "On a server, forward the port from your own machine with "
            f"`ssh -L {found}:localhost:{found} SERVER`, then open {_address(found, start.page)}."
        )
    console.print("Starting JupyterLab; Ctrl+C stops it.")
    try:
        os.chdir(start.folder)
        os.execve(command[0], command, start.environment)
    except OSError as error:
        raise _refuse(f"could not start {shlex.join(command)}: {error}") from None


def _address(port: int, page: str) -> str:
    """Where a browser goes. Jupyter tells it together with the token, unless the token is the user's own."""
    if "JUPYTER_TOKEN" not in os.environ:
        return "the address below"
    return f"http://localhost:{port}{page} and log in with the token in JUPYTER_TOKEN"


def _filled_course() -> Course:
    """The course, with its workspace filled; prints what there is to say."""
    from autograder.course.course import NoCourseError, find_course
    from autograder.course.workspace import WorkspaceError, fill_workspace

    console = Console(soft_wrap=True)
    try:
        course = find_course()
        report = fill_workspace(course.curriculum, course.workspace)
    except (NoCourseError, WorkspaceError, OSError) as error:
        raise _refuse(error) from None
    for line in report.lines():
        console.print(escape(line), highlight=False)
    return course


def _refuse(error: object) -> typer.Exit:
    Console(stderr=True, soft_wrap=True).print(f"fxopt: {escape(str(error))}")
    return typer.Exit(CANNOT)
