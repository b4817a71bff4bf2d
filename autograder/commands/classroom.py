"""The subcommands of an instructor's week: `export`, `regrade`, `dashboard`, `classroom generate`. Imports no torch."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

if TYPE_CHECKING:
    from autograder.classroom.standing import Standing

CANNOT = 2
"""Exit code for bad input."""

classroom_app = typer.Typer(no_args_is_help=True, help="A class of made-up students, for rehearsing a week.")


def register(app: typer.Typer) -> None:
    """Add these subcommands to the `fxopt` command."""
    app.add_typer(classroom_app, name="classroom")
    app.command()(export)


def refuse(error: object) -> typer.Exit:
    """Print why a command cannot do what was asked; the exit to raise."""
    for line in str(error).splitlines():
        Console(stderr=True, soft_wrap=True).print(f"fxopt: {escape(line)}")
    return typer.Exit(CANNOT)


@classroom_app.callback()
def _root() -> None:
    """A class of made-up students, for rehearsing a week."""


@classroom_app.command()
def generate(
    students: Annotated[int, typer.Option(min=1, max=999, help="How many students hand in.")] = 60,
    day: Annotated[str, typer.Option(help="The assignment (a folder of curriculum/).")] = "day1_compile_stack",
    seed: Annotated[int, typer.Option(help="The same number makes the same class again.")] = 0,
) -> None:
    """Hand in an assignment for made-up students `rehearsal-001` and so on, right and wrong in many ways."""
    from autograder.classroom import generate as making
    from autograder.course.course import NoCourseError, find_course
    from autograder.course.sources import ReleaseError

    try:
        course = find_course()
        made = list(making.generate(course, students, day, seed))
    except (NoCourseError, ReleaseError, making.GenerateError) as error:
        raise refuse(error) from None
    Console(soft_wrap=True).print(
        f"{len(made)} students handed in {day}: {made[0].student} to {made[-1].student}. `fxopt grade` grades them."
    )


class Format(StrEnum):
    """What `fxopt export` can write."""

    CSV = "csv"
    CANVAS = "canvas"
    MOODLE = "moodle"
    JSON = "json"


def export(
    form: Annotated[Format, typer.Option("--format", help="For a spreadsheet, Canvas, Moodle or a program.")] = (
        Format.CSV
    ),
    out: Annotated[Path | None, typer.Option(help="Write to this file; without it to the terminal.")] = None,
    day: Annotated[str | None, typer.Option(help="Only this assignment (a folder of curriculum/).")] = None,
) -> None:
    """Write the points of the class. What is no grade (not submitted, an error of ours) is never written as 0."""
    from autograder.classroom.exports import FORMATS
    from autograder.classroom.standing import read_class
    from autograder.course.course import NoCourseError, find_course
    from autograder.course.rules_file import RulesError
    from fxopt_core.suggestions import did_you_mean
    from fxopt_workbench.files import write_whole

    console = Console(stderr=True, soft_wrap=True)
    try:
        records = read_class(find_course())
    except (NoCourseError, RulesError) as error:
        raise refuse(error) from None
    known = sorted({sheet.assignment for sheet in records.sheets})
    if day is not None and day not in known:
        raise refuse(f"--day {day}: there is no such assignment.{did_you_mean(day, known) or ' ' + ', '.join(known)}")
    standings = records.standings(assignment=day)
    text = FORMATS[form.value](records, standings)
    if out is None:
        print(text, end="")
    else:
        try:
            write_whole(out, text)
        except OSError as error:
            raise refuse(f"--out {out}: {error.strerror}") from None
        console.print(f"{len({s.student for s in standings})} students, {form.value}: {escape(str(out))}")
    _tell_what_is_no_number(standings, console)


def _tell_what_is_no_number(standings: list[Standing], console: Console) -> None:
    from autograder.classroom.standing import count_states

    for state, number in count_states(standings).items():
        if number and state not in ("graded", "not submitted"):
            console.print(f"Note: {number} × {state}: no points are given away for these.")
