"""Subcommands that the autograder adds to `fxopt`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from autograder.commands.refusal import check_output, refuse
from fxopt_workbench.bench.bench import bench
from fxopt_workbench.commands.output import prints_to_stderr
from fxopt_workbench.tables import Table

if TYPE_CHECKING:
    from autograder.authoring.gate import GateResult
    from autograder.course.task import Task
    from autograder.exchange.channel import Message


def register(app: typer.Typer) -> None:
    """Add this package's subcommands to the `fxopt` command."""
    # jsonschema, which reads every notebook, builds forty grammars of internet addresses when this package is there:
    # a second for each command, for formats that no notebook has.
    sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
    from autograder.commands import bench_grading
    from autograder.commands import capstone as commands_capstone
    from autograder.commands import classroom as commands_classroom
    from autograder.commands import course as commands_course
    from autograder.commands import grade as commands_grade
    from autograder.commands import lab as commands_lab
    from autograder.commands import mutate as commands_mutate
    from autograder.commands import site as commands_site

    bench.command()(bench_grading.grading)
    commands_lab.register(app)
    commands_capstone.register(app)
    commands_course.register(app)
    commands_classroom.register(app)
    app.command()(check)
    app.command()(submit)
    app.command()(commands_grade.grade)
    app.command()(progress)
    app.command()(release)
    app.command()(gate)
    app.command()(commands_mutate.mutate)
    app.command()(commands_site.site)


def check(
    notebook: Annotated[Path, typer.Argument(help="The notebook to check.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Run all checks of a notebook on their visible cases, in a process of their own.

    For tasks about graphs it shows what your code did: tables here, pictures in `pictures/` beside the notebook.
    """
    from autograder.lab.check_command import Exhibits, check_notebook, print_outcome

    exhibits = Exhibits()
    with Console(stderr=True).status(f"checking {escape(notebook.name)}") as status:

        def watch(task: Task, case: Message, evidence: Message) -> None:
            status.update(f"checking {escape(notebook.name)}: {escape(task.title)}")
            exhibits.watch(task, case, evidence)

        with prints_to_stderr(as_json):
            found = check_notebook(notebook, watch)
    if as_json:
        print(json.dumps(found.to_json()))
    else:
        print_outcome(found, Console(), exhibits, notebook.parent / "pictures")
    raise typer.Exit(found.exit_code)


def submit(
    exercise: Annotated[str, typer.Argument(help="How the notebook's name begins, such as ex_01.")],
    and_grade: Annotated[bool, typer.Option("--grade", help="Grade it at once.")] = False,
) -> None:
    """Hand in a notebook of the workspace."""
    from autograder.commands.grade import run
    from autograder.course import submission
    from autograder.course.course import NoCourseError, find_course
    from autograder.course.reading import UnreadableNotebookError
    from autograder.course.rules_file import RulesError
    from autograder.course.tasks import UnknownTaskError

    console = Console(soft_wrap=True)
    try:
        course = find_course()
        handed_in = submission.submit(course, exercise)
    except (
        NoCourseError,
        RulesError,
        UnknownTaskError,
        UnreadableNotebookError,
        submission.SubmissionRefusedError,
    ) as error:
        raise refuse(error) from None
    console.print(f"Submitted {handed_in.notebook} as {handed_in.student}.")
    for warning in handed_in.warnings:
        console.print(f"Note: {warning}.")
    if and_grade:
        run(handed_in.student, handed_in.unit, force=False)
    else:
        console.print("`fxopt grade` grades it and writes the feedback.")


def progress() -> None:
    """Show the success checklist of each track, ticked by what was verified, and your points as they are now."""
    from autograder.classroom.progress import points_tables
    from autograder.course.checklist import checklist_tables
    from autograder.course.course import NoCourseError, find_course
    from autograder.course.rules_file import RulesError
    from autograder.records.trouble import RecordsError

    try:
        course = find_course()
        tables = points_tables(course)
    except (NoCourseError, RulesError, RecordsError) as error:
        raise refuse(error) from None
    console = Console()
    for table in (*checklist_tables(course), *tables):
        console.print(table)


def release(
    only: Annotated[str | None, typer.Argument(help="Build only notebooks whose name begins so.")] = None,
    only_check: Annotated[bool, typer.Option("--check", help="Compare with the sources; build nothing.")] = False,
    force: Annotated[bool, typer.Option(help="Execute also what is up to date.")] = False,
) -> None:
    """Build solution and student notebooks from `solutions/`."""
    from autograder.authoring import release as making
    from autograder.authoring.glossary import GlossaryError
    from autograder.course.course import NoCourseError, find_course

    console = Console(soft_wrap=True)

    def begins(name: str, place: int, count: int) -> None:
        console.print(f"executing: {name} ({place} of {count})")

    try:
        course = find_course()
        report = making.check(course) if only_check else making.build(course, force=force, only=only, begins=begins)
    except (NoCourseError, making.ReleaseError, GlossaryError) as error:
        raise refuse(error) from None
    for title in ("executed", "kept", "released", "stale"):
        for name in getattr(report, title):
            console.print(f"{title}: {name}")
    if report.stale:
        console.print("Run `make notebooks` and commit the result.")
        raise typer.Exit(1)


def gate(
    task: Annotated[str | None, typer.Argument(help="Only this task.")] = None,
    json_path: Annotated[Path | None, typer.Option("--json", help="Also write the matrix as JSON.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="How many processes grade at once; each takes about 2 GiB.")] = 1,
    record: Annotated[
        bool, typer.Option("--record", help="Enter the tasks that are clean into the committed table.")
    ] = False,
    changed: Annotated[
        bool, typer.Option("--changed", help="Only tasks that are not as the committed table has them.")
    ] = False,
) -> None:
    """Try every task against its reference, blank, wrong, alternative and sabotaged answers, and its isolation.

    Exit code 1 when anything does not come to what it must.
    """
    from autograder.authoring import gated
    from autograder.authoring.gate import run_gate
    from autograder.course.course import NoCourseError, find_course
    from autograder.course.tasks import all_tasks, find_task

    check_output("--json", json_path)
    try:
        course = find_course()
        lines: list[str] = []
        digests = gated.digests(course) if record else {}
        wanted = all_tasks() if task is None else [find_task(task)]
        if changed:
            wanted = [one for one in wanted if not gated.is_as_recorded(course, one)]
            if not wanted:
                Console().print("Nothing to grade: all is as the committed table has it.")
                return

        def enter(part: GateResult) -> None:
            lines.extend(gated.record(part, digests))

        took = {name: entry["seconds"] for name, entry in gated.gated().items()}
        names = [one.name for one in wanted]
        result = run_gate(course, names, jobs=jobs, finished=enter if record else None, took=took)
    except (NoCourseError, LookupError) as error:
        raise refuse(error) from None
    console = Console()
    _print_gate(result, console)
    for line in lines:
        console.print(escape(line), soft_wrap=True)
    if json_path is not None:
        from autograder.mutation.recorded import recorded

        mutation = {name: entry["counts"] for name, entry in recorded().items() if name in result.matrix()}
        json_path.write_text(json.dumps(result.to_json() | {"mutation": mutation}, indent=1))
    raise typer.Exit(0 if result.ok and not lines else 1)


def _print_gate(result: GateResult, console: Console) -> None:
    """The matrix, then every answer that did not come to what it must."""
    from autograder.authoring.gate import KINDS

    rows = []
    for task, line in result.matrix().items():
        cells = (line[kind] for kind in KINDS)
        rows.append((task, *(f"{right}/{tried}" + ("" if right == tried else " WRONG") for right, tried in cells)))
    title = "Exercise gate: answers that came to what they must, of those tried"
    console.print(Table(title, ("task", *KINDS), rows))
    off = [row for row in result.rows if not row.ok]
    for row in off:
        what = f"{row.task}, {row.kind} {row.answer!r}: expected {row.expected!r}, found {row.found!r}"
        console.print(escape(f"{what}. {' '.join(row.messages)}"), soft_wrap=True)
    seconds = sum(row.seconds for row in result.rows)
    console.print(f"{len(result.rows)} answers, {len(off)} off ({seconds:.0f} s)")
