"""The subcommands around the capstone: `fxopt capstone` and `fxopt leaderboard`. Imports no torch."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from fxopt_workbench.tables import print_tables

CANNOT = 2
"""Exit code for what cannot be done; one line says why."""

SEED = "capstone"
"""Of the hidden models where none is given, so that everybody's figures can be compared."""

QUICK = 10
"""One program in so many is tried for a quick look."""

Folder = Annotated[Path, typer.Argument(help="The package's folder.")]
Seed = Annotated[str, typer.Option(help="Decides the hidden programs and models.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def register(app: typer.Typer) -> None:
    """Add these subcommands to the `fxopt` command."""
    group = typer.Typer(help="Start and try a package of your own.", no_args_is_help=True)
    group.command()(new)
    group.command()(check)
    app.add_typer(group, name="capstone")
    app.command()(leaderboard)


def _refuse(error: Exception) -> typer.Exit:
    Console(stderr=True, soft_wrap=True).print(f"fxopt: {escape(str(error))}")
    return typer.Exit(CANNOT)


def new(
    folder: Annotated[Path, typer.Argument(help="A folder that does not exist yet.")],
    kind: Annotated[str, typer.Option(help="What it will be: pass, capture or cost.")] = "pass",
) -> None:
    """Write a package with an example, to be replaced by yours.

    Inside the course, what can stand alone of `workspace/my_fxopt` goes along.
    """
    from autograder.capstone.capstone import CapstoneError, new_package
    from autograder.capstone.taking_over import take_over
    from autograder.course.course import NoCourseError, find_course
    from autograder.learner_side.own_functions import PACKAGE

    try:
        new_package(folder, kind)
    except CapstoneError as error:
        raise _refuse(error) from None
    with suppress(NoCourseError):
        course = find_course()
        own = course.workspace / PACKAGE
        # A notebook that is built must not depend on what lies in the author's workspace.
        if own.is_dir() and not Path.cwd().resolve().is_relative_to(course.solutions.resolve()):
            for line in take_over(own, folder).lines():
                Console(soft_wrap=True).print(escape(line))
    Console(soft_wrap=True).print(f"Written. Next: `fxopt capstone check {escape(str(folder))}`")


def check(
    folder: Folder,
    seed: Seed = SEED,
    quick: Annotated[bool, typer.Option("--quick", help="Of a pass: try one in ten of the programs only.")] = False,
    report: Annotated[Path | None, typer.Option(help="Also write the report here, as text.")] = None,
    as_json: AsJson = False,
) -> None:
    """Install the package in the sandbox, and try it on visible and hidden programs: is it right, what does it gain?

    Exit code 1 when something is wrong or nothing is gained.
    """
    from autograder.capstone.capstone import CapstoneError, Harness, read_package

    try:
        package = read_package(folder)
    except CapstoneError as error:
        raise _refuse(error) from None
    with Harness(seed, kind=package.kind, every=QUICK if quick and package.kind == "pass" else 1) as harness:
        found = harness.check(package)
    if report is not None:
        report.write_text(f"{found}\n")
    if as_json:
        print(json.dumps(found.to_json()))
    else:
        print_tables(found.tables())
    raise typer.Exit(0 if found.passed else 1)


def leaderboard(
    folders: Annotated[list[Path] | None, typer.Argument(help="Packages to try and to enter.")] = None,
    seed: Seed = SEED,
    board: Annotated[Path, typer.Option(help="The file of the board.")] = Path("leaderboard.jsonl"),
    as_json: AsJson = False,
) -> None:
    """Rank capstones by what they gain; one that changes what a program does gets no rank."""
    from autograder.capstone.capstone import CapstoneError, Harness, read_package
    from autograder.capstone.leaderboard import LeaderboardError, entry_of, rankings, read_board, write_board

    try:
        entries = read_board(board)
        packages = [read_package(folder) for folder in folders or []]
    except (LeaderboardError, CapstoneError) as error:
        raise _refuse(error) from None
    for kind in sorted({package.kind for package in packages}):
        with Harness(seed, kind=kind) as harness:
            for package in [package for package in packages if package.kind == kind]:
                entries.append(entry_of(harness.check(package)))
                write_board(board, entries)
    found = rankings(read_board(board))
    if as_json:
        print(json.dumps([ranking.to_json() for ranking in found]))
    for ranking in [] if as_json else found:
        print_tables(ranking.tables())
    if not found and not as_json:
        Console(soft_wrap=True).print("Nobody is on the board yet: `fxopt leaderboard FOLDER` enters a capstone.")
