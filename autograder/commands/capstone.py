"""The subcommands around the capstone: `fxopt capstone` and `fxopt leaderboard`. Imports no torch."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from autograder.commands.refusal import check_output
from fxopt_workbench.commands.output import prints_to_stderr
from fxopt_workbench.tables import print_tables

CANNOT = 2
"""Exit code for what cannot be done; one line says why."""

QUICK = 10
"""One program in so many is tried for a quick look."""

Folder = Annotated[Path, typer.Argument(help="The package's folder.")]
Seed = Annotated[
    str | None,
    typer.Option(help="Decides the hidden programs and models; by default, the content of the packages does."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]


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
    seed: Seed = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Of a pass: try all models, and one in ten of the other programs.")
    ] = False,
    full: Annotated[bool, typer.Option("--full", help="Try everything, which is the default.")] = False,
    report: Annotated[Path | None, typer.Option(help="Also write the report here, as text.")] = None,
    as_json: AsJson = False,
) -> None:
    """Install the package in the sandbox, and try it on visible and hidden programs: is it right, what does it gain?

    Exit code 1 when something is wrong or nothing is gained.
    """
    from autograder.capstone.capstone import CapstoneError, Harness, read_package
    from autograder.capstone.leaderboard import seed_for

    check_output("--report", report)
    try:
        if quick and full:
            raise CapstoneError("--quick and --full are two ways to check; choose one")
        package = read_package(folder)
    except CapstoneError as error:
        raise _refuse(error) from None
    with (
        Harness(
            seed or seed_for([package], _secret()),
            kind=package.kind,
            every=QUICK if quick and package.kind == "pass" else 1,
        ) as harness,
        prints_to_stderr(as_json),
    ):
        found = harness.check(package)
    if report is not None:
        report.write_text(f"{found}\n")
    if as_json:
        print(json.dumps(found.to_json()))
    else:
        print_tables(found.tables())
    raise typer.Exit(0 if found.passed else 1)


def _secret() -> str:
    """The secret of the course in which this runs; empty outside of one."""
    from autograder.course.course import NoCourseError, find_course

    with suppress(NoCourseError):
        return find_course().seed()
    return ""


def leaderboard(
    folders: Annotated[list[Path] | None, typer.Argument(help="The packages to rank.")] = None,
    seed: Seed = None,
    results: Annotated[
        Path | None,
        typer.Option(help="A file of signed results: what is found is added, and what is in it is ranked too."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Rank capstones by what they gain beyond the course; one that changes what a program does gets no rank.

    The ranking is computed from the packages. All of them meet the same hidden models, which are drawn anew when a
    package changes.
    """
    from autograder.capstone.capstone import CapstoneError, Harness, read_package
    from autograder.capstone.leaderboard import LeaderboardError, entry_of, rankings, read_results, seed_for
    from autograder.capstone.leaderboard import write_results as write

    check_output("--results", results)
    secret = _secret()
    try:
        if results is not None and not secret:
            raise LeaderboardError("results are signed by a course: run this in its folder, or leave --results out")
        entries = read_results(results, secret) if results is not None else []
        packages = [(folder.resolve().name, read_package(folder)) for folder in folders or []]
        _all_different([name for name, _ in packages])
    except (LeaderboardError, CapstoneError) as error:
        raise _refuse(error) from None
    seed = seed or seed_for([package for _, package in packages], secret)
    for kind in sorted({package.kind for _, package in packages}):
        with Harness(seed, kind=kind) as harness:
            for name, package in packages:
                if package.kind == kind:
                    with prints_to_stderr(as_json):
                        entries.append(entry_of(harness.check(package), name))
                    if results is not None:
                        write(results, entries, secret)
    found = rankings(entries)
    if as_json:
        print(json.dumps([ranking.to_json() for ranking in found]))
    for ranking in [] if as_json else found:
        print_tables(ranking.tables())
    if not found and not as_json:
        Console(soft_wrap=True).print("Nobody is on the board yet: `fxopt leaderboard FOLDER…` ranks packages.")


def _all_different(names: list[str]) -> None:
    from autograder.capstone.leaderboard import LeaderboardError

    for name in names:
        if names.count(name) > 1:
            raise LeaderboardError(
                f"two of the folders are called {name!r}; a row of the board needs a name of its own"
            )
