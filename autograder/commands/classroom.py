"""The subcommands of an instructor's week: `export`, `regrade`, `dashboard`, `classroom generate`. Imports no torch."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from autograder.commands.asked import UnknownNameError, check_asked
from autograder.commands.refusal import check_output, refuse
from fxopt_workbench.commands.output import prints_to_stderr
from fxopt_workbench.tables import Table, print_tables

if TYPE_CHECKING:
    from autograder.classroom.exchange import Step
    from autograder.classroom.regrade import Report
    from autograder.classroom.standing import Standing

exchange_app = typer.Typer(no_args_is_help=True, help="A shared folder for a class: hand out, hand in, collect.")

classroom_app = typer.Typer(no_args_is_help=True, help="A class of made-up students, for rehearsing a week.")


def register(app: typer.Typer) -> None:
    """Add these subcommands to the `fxopt` command."""
    app.add_typer(classroom_app, name="classroom")
    app.command()(export)
    app.command()(regrade)
    app.command()(dashboard)
    app.add_typer(exchange_app, name="exchange")


@classroom_app.callback()
def _root() -> None:
    """A class of made-up students, for rehearsing a week."""


@classroom_app.command()
def generate(
    students: Annotated[int, typer.Option(min=1, max=9999, help="How many students hand in.")] = 60,
    unit: Annotated[str, typer.Option(help="The assignment (a folder of curriculum/).")] = "day1_compile_stack",
    seed: Annotated[int, typer.Option(help="The same number makes the same class again.")] = 0,
) -> None:
    """Hand in an assignment for made-up students `rehearsal-001` and so on, right and wrong in many ways."""
    from autograder.classroom import generate as making
    from autograder.course.course import NoCourseError, find_course
    from autograder.course.sources import ReleaseError

    try:
        course = find_course()
        made = list(making.generate(course, students, unit, seed))
    except (NoCourseError, ReleaseError, making.GenerateError) as error:
        raise refuse(error) from None
    Console(soft_wrap=True).print(
        f"{len(made)} students handed in {unit}: {made[0].student} to {made[-1].student}. `fxopt grade` grades them."
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
    unit: Annotated[str | None, typer.Option(help="Only this assignment (a folder of curriculum/).")] = None,
) -> None:
    """Write the points of the class. What is no grade (not submitted, an error of ours) is never written as 0."""
    from autograder.classroom.exports import FORMATS
    from autograder.classroom.standing import read_class
    from autograder.course.course import NoCourseError, find_course
    from autograder.course.rules_file import RulesError
    from fxopt_core.suggestions import did_you_mean
    from fxopt_workbench.files import write_whole

    console = Console(stderr=True, soft_wrap=True)
    check_output("--out", out)
    try:
        records = read_class(find_course())
    except (NoCourseError, RulesError) as error:
        raise refuse(error) from None
    known = sorted({sheet.assignment for sheet in records.sheets})
    if unit is not None and unit not in known:
        near = did_you_mean(unit, known) or f" There are {', '.join(known)}."
        raise refuse(ValueError(f"--unit {unit}: there is no such assignment.{near}"))
    standings = records.standings(assignment=unit)
    text = FORMATS[form.value](records, standings)
    if out is None:
        print(text, end="")
    else:
        try:
            write_whole(out, text)
        except OSError as error:
            raise refuse(ValueError(f"--out {out}: {error.strerror}")) from None
        console.print(f"{len({s.student for s in standings})} students, {form.value}: {escape(str(out))}")
    _tell_what_is_no_number(standings, console)


def regrade(
    task: Annotated[str, typer.Argument(help="The task's name, such as record_graphs.")],
    unit: Annotated[str | None, typer.Option(help="The assignment that it belongs to, to be sure.")] = None,
    who: Annotated[str | None, typer.Option("--student", help="Only this student.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write nothing; say what would change.")] = False,
    jobs: Annotated[int, typer.Option(min=1, help="How many processes grade at once; each takes about 1 GiB.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Grade one task again for everybody, as after its judge was mended, and say whose points changed.

    All other tasks keep their points, and what a person gave stays in force. Exit code 1 when grading failed for some.
    """
    import json

    from autograder.classroom.regrade import regrade as run
    from autograder.course.course import NoCourseError, find_course
    from autograder.course.rules_file import RulesError
    from autograder.course.sources import ReleaseError
    from autograder.course.task import UNITS
    from autograder.course.tasks import UnknownTaskError, find_task
    from autograder.grading.batch import Batch, Here
    from autograder.records.lock import CourseLockedError
    from autograder.records.trouble import RecordsError

    console = Console(soft_wrap=True)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    bar = Progress(*columns, transient=True, console=Console(stderr=True) if as_json else None)
    try:
        course, found = find_course(), find_task(task)
        if found.unit not in UNITS:
            raise UnknownTaskError(f"{task} is a task of the capstone; `fxopt leaderboard` ranks its packages")
        if unit not in (None, UNITS[found.unit], found.unit):
            raise UnknownTaskError(f"--unit {unit}: {task} belongs to {UNITS[found.unit]}")
        check_asked(course, who)
        with bar:
            counted = bar.add_task("Attempts", total=None, visible=console.is_terminal and not as_json)
            with prints_to_stderr(as_json):
                report = run(
                    course,
                    found,
                    Here() if jobs == 1 else Batch(jobs),
                    who=who,
                    dry_run=dry_run,
                    begun=lambda count: bar.update(counted, total=count),
                    done=lambda: bar.advance(counted),
                )
    except (
        NoCourseError,
        UnknownNameError,
        UnknownTaskError,
        RulesError,
        ReleaseError,
        CourseLockedError,
        RecordsError,
    ) as error:
        raise refuse(error) from None
    if as_json:
        print(json.dumps(report.to_json()))
    else:
        _print_regraded(report, console)
    if any(each.failure for each in report.regraded):
        raise typer.Exit(1)


def _print_regraded(report: Report, console: Console) -> None:
    def shown(points: float | None, state: str = "no number") -> str:
        return state if points is None else f"{points:g}"

    changed = [each for each in report.regraded if each.changed]
    would = "would change" if report.dry_run else "changed"
    if changed:
        scores = {change.student: change for change in report.changes}
        rows = []
        for each in changed:
            who, before, after = each.attempt.student, each.before, each.after
            assert after is not None
            change = scores[who]
            task = f"{shown(None if before is None else before.points)} → {shown(after.points)}"
            score = " → ".join(shown(stands.score, stands.state) for stands in (change.before, change.after))
            note = "a person's points stay in force" if change.by_hand else ""
            rows.append((who, str(each.attempt.number), task, after.status, score, note))
        headings = ("student", "attempt", "points of the task", "now", "all points that count", "note")
        print_tables([Table(f"{report.task.title}: what {would}", headings, rows, words=headings[2:])])
    for each in report.regraded:
        if each.failure:
            console.print(f"{each.attempt.student}, attempt {each.attempt.number}: not graded: {escape(each.failure)}")
    for attempt in report.gone:
        console.print(
            f"{attempt.student}, attempt {attempt.number}: its notebook is not kept, so its points stay as they were."
        )
    count = f"{len(report.regraded)} attempt{'s' * (len(report.regraded) != 1)}"
    wrote = " Nothing was written (--dry-run)." if report.dry_run else ""
    console.print(f"{count} regraded, {len(changed)} {would}.{wrote}")


def _tell_what_is_no_number(standings: list[Standing], console: Console) -> None:
    from autograder.classroom.standing import count_states

    for state, number in count_states(standings).items():
        if number and state not in ("graded", "not submitted"):
            console.print(f"Note: {number} × {state}: not a 0 in this file, and no final grade yet.")


PORTS_TRIED = 20


def dashboard(
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen at, or one of the next ones.")] = 8899,
    browser: Annotated[bool, typer.Option(help="Open a browser.")] = True,
    gate: Annotated[Path | None, typer.Option(help="What `fxopt gate --json` wrote.")] = None,
    mutation: Annotated[Path | None, typer.Option(help="What `fxopt mutate --json` wrote.")] = None,
) -> None:
    """Show the class in a browser: grading as it goes, success per task, misconceptions. Ctrl+C stops it.

    Only this machine can reach the page, and only who knows its address. Without options it shows `gate.json` and
    `mutate.json` of the folder `course/`.
    """
    import webbrowser

    from autograder.classroom.dashboard.data import Reader
    from autograder.classroom.dashboard.server import DashboardServer
    from autograder.course.course import NoCourseError, find_course
    from autograder.course.rules_file import RulesError, read_rules

    console = Console(soft_wrap=True)
    try:
        course = find_course()
        read_rules(course)
    except (NoCourseError, RulesError) as error:
        raise refuse(error) from None
    reader = Reader(course, gate or course.records / "gate.json", mutation or course.records / "mutate.json")
    for tried in range(port, min(port + PORTS_TRIED, 65536)):
        try:
            server = DashboardServer(reader.snapshot, tried)
            break
        except OSError as error:
            problem = error
    else:
        tried_all = f"neither it nor the next {PORTS_TRIED - 1} can be used ({problem.strerror})"
        raise refuse(ValueError(f"--port {port}: {tried_all}"))
    console.print(f"The class: {server.address}", highlight=False)
    console.print("Only this machine can open it. Ctrl+C stops it.")
    if browser:
        webbrowser.open(server.address)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        console.print("Stopped.")
    finally:
        server.server_close()


@exchange_app.callback()
def _exchange_root() -> None:
    """A shared folder for a class (nbgrader's exchange), which FXOPT_EXCHANGE names: hand out, hand in, collect."""


Day = Annotated[str, typer.Argument(help="The assignment, a folder of curriculum/.")]


@exchange_app.command()
def release(unit: Day, force: Annotated[bool, typer.Option(help="Release again what was released.")] = False) -> None:
    """Instructor: put an assignment where learners fetch it."""
    _step("release", unit, "Released", force=force)


@exchange_app.command()
def collect(
    unit: Day,
    any_owner: Annotated[
        bool, typer.Option("--any-owner", help="Where everybody's folders belong to one account (JupyterHub).")
    ] = False,
) -> None:
    """Instructor: fetch what was handed in, the newest of each student, to where `fxopt grade` finds it."""
    _step("collect", unit, "Collected", any_owner=any_owner)


@exchange_app.command()
def feedback(unit: Day) -> None:
    """Instructor: put the feedback pages where each learner, and nobody else, finds theirs."""
    _step("feedback", unit, "Feedback is there for")


@exchange_app.command()
def fetch(unit: Day) -> None:
    """Learner: bring an assignment into the workspace; what is there already stays as it is."""
    _step("fetch", unit, "Fetched")


@exchange_app.command(name="submit")
def hand_in(
    unit: Day, student: Annotated[str | None, typer.Option(help="In whose name, instead of the account's.")] = None
) -> None:
    """Learner: hand in the assignment that is in the workspace."""
    _step("submit", unit, "Handed in", student=student)


@exchange_app.command()
def fetch_feedback(
    unit: Day, student: Annotated[str | None, typer.Option(help="In whose name, instead of the account's.")] = None
) -> None:
    """Learner: bring the feedback on what was handed in into the workspace."""
    _step("fetch-feedback", unit, "Feedback fetched for", student=student)


def _step(
    step: Step, unit: str, done: str, *, student: str | None = None, any_owner: bool = False, force: bool = False
) -> None:
    from autograder.classroom.exchange import CourseExchangeError, run_step
    from autograder.course.course import NoCourseError, find_course

    console = Console(soft_wrap=True)
    try:
        course = find_course()
        said = run_step(course, step, unit, student=student, any_owner=any_owner, force=force)
    except (NoCourseError, CourseExchangeError) as error:
        raise refuse(error) from None
    for line in said:
        console.print(f"Note: {escape(line)}", highlight=False)
    console.print(f"{done} {escape(unit)} ({escape(str(course.exchange))}).", highlight=False)
