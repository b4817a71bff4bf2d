"""`fxopt grade`. Imports no torch."""

from __future__ import annotations

import os
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from autograder.commands.asked import UnknownNameError, check_asked
from autograder.commands.refusal import refuse

if TYPE_CHECKING:
    from autograder.course.course import Course
    from autograder.grading.batch import Graders
    from autograder.records.gradebook import Graded

ESTIMATE_SECONDS = 24 * 3600.0
"""Over how long a time the speed of grading is averaged, for an estimate that does not jump: over the whole run."""


def grade(
    who: Annotated[str | None, typer.Option("--student", help="Only this student.")] = None,
    unit: Annotated[str | None, typer.Option(help="Only this assignment (a folder of curriculum/).")] = None,
    force: Annotated[bool, typer.Option(help="Grade also what has been graded since it was handed in.")] = False,
    jobs: Annotated[int, typer.Option(min=1, help="How many processes grade at once; each takes about 1 GiB.")] = 1,
    cluster: Annotated[
        str | None, typer.Option(help="Grade on a cluster of dask: tcp://HOST:PORT of its scheduler, or local:N.")
    ] = None,
    database: Annotated[
        str | None, typer.Option(help="URL of the gradebook, such as postgresql://USER@HOST/NAME.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for another grader of this course.")] = False,
) -> None:
    """Grade what was handed in, into the gradebook, and write the feedback pages.

    Exit code 1 when something could not be graded, 2 when nothing more can be.
    """
    if database is not None:
        # What else of this command looks for the gradebook, nbgrader among it, finds the same one.
        os.environ["FXOPT_DATABASE"] = database
    run(who, unit, force, jobs, cluster, wait)


def run(
    who: str | None,
    unit: str | None,
    force: bool,
    jobs: int = 1,
    cluster: str | None = None,
    wait: bool = False,
) -> None:
    """Grade, and print what it came to; the arguments are those of the command."""
    from autograder.course.course import NoCourseError, find_course
    from autograder.course.rules_file import RulesError
    from autograder.course.sources import ReleaseError
    from autograder.grading.batch import Batch, Here
    from autograder.grading.cluster import Cluster, ClusterError
    from autograder.grading.sandbox import bubblewrap
    from autograder.records import gradebook
    from autograder.records.lock import CourseLockedError
    from autograder.records.trouble import RecordsError, explained

    console = Console(soft_wrap=True)
    if bubblewrap() is None:
        console.print(
            "Warning: bubblewrap is not installed; submissions run as plain processes with limits, but with your "
            "rights. Install the system package `bubblewrap` before you grade code that you do not trust."
        )
    failed = False
    try:
        course = find_course()
        nothing = check_asked(course, who, unit)
        if cluster is not None and jobs != 1:
            raise ClusterError("--jobs and --cluster: name one of them (local:N is N processes, too)")
        graders: Graders = Cluster(cluster) if cluster is not None else Batch(jobs) if jobs > 1 else Here()
        bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left:"),
            TimeRemainingColumn(),
            console=console,
            speed_estimate_period=ESTIMATE_SECONDS,
            transient=True,
        )
        # Of no use in a file.
        shown = bar if console.is_terminal else nullcontext()
        with explained(course.database, course.records), shown:
            counted = bar.add_task("Submissions", total=None)
            told: set[tuple[str, str]] = set()
            results = gradebook.grade(
                course,
                who,
                unit,
                force,
                graders=graders,
                wait=wait,
                begun=lambda count: bar.update(counted, total=count),
                note=lambda line: console.print(f"Note: {escape(line)}"),
            )
            for graded in results:
                failed |= bool(graded.failure)
                if graded.anew and (graded.student, graded.unit) not in told:
                    told.add((graded.student, graded.unit))
                    # Drawn at once: the lines that follow are printed above the bar as it was drawn last.
                    bar.update(counted, advance=1, refresh=True)
                _tell(course, graded, console)
        # Only here: that another grader is at work, or the gradebook is out of reach, comes first.
        if nothing:
            console.print(escape(nothing))
    except (
        NoCourseError,
        UnknownNameError,
        RulesError,
        ReleaseError,
        ClusterError,
        CourseLockedError,
        RecordsError,
        gradebook.GradingStoppedError,
    ) as error:
        raise refuse(error) from None
    if failed:
        raise typer.Exit(1)


def _tell(course: Course, graded: Graded, console: Console) -> None:
    """Print what one notebook came to; of one's own also into the checklist and the workspace."""
    from autograder.classroom.progress import earlier_attempt_counts
    from autograder.course.course import student
    from autograder.course.progress import append_event
    from autograder.records import gradebook

    if graded.failure:
        console.print(f"{escape(graded.student)} / {graded.notebook}: not graded: {escape(graded.failure)}")
        return
    if graded.kept:
        console.print(f"{escape(graded.student)} / {graded.notebook}: {escape(graded.kept)}")
    if graded.outcome is None:
        return
    _print_graded(graded, console)
    for task, points, most, by in gradebook.written_scores(course, graded):
        state = f"{by} (`make instructor`, Manual Grading)" if points is None else f"{by}, {points:g}/{most:g}"
        console.print(f"  {escape(task.title)}: {state}, outside the points above")
        if graded.student == student() and points is not None:
            append_event(course.workspace, "grade", task.name, "passed" if 2 * points >= most else "wrong")
    if graded.student == student() and graded.anew:
        for outcome in graded.outcome["tasks"]:
            append_event(course.workspace, "grade", outcome["task"], outcome["status"])
        _save_passed(course, graded, console)
        if better := earlier_attempt_counts(course, graded.unit, graded.notebook):
            console.print(f"  {better}")
        page = gradebook.publish_feedback(course, graded)
        if page is not None:
            console.print(
                f"  Feedback: {page.relative_to(course.workspace)} (in your workspace; reload it if it is open)"
            )


def _save_passed(course: Course, graded: Graded, console: Console) -> None:
    """Put the answers that passed a grade into the learner's package, as a check that passes does."""
    from autograder.course.own_package import export_passed
    from autograder.course.tasks import tasks_of_notebook
    from autograder.records.intake import received

    assert graded.outcome is not None
    passed = {outcome["task"] for outcome in graded.outcome["tasks"] if outcome["status"] == "passed"}
    tasks = [task for task in tasks_of_notebook(graded.notebook) if task.name in passed and task.export]
    if not tasks:
        return
    handed_in = received(course, graded.student, graded.unit, graded.notebook)
    for line in export_passed(handed_in, tasks, course.workspace).values():
        console.print(f"  {escape(line)}.")


def _print_graded(graded: Graded, console: Console) -> None:
    """Points and messages of one notebook, as the judge found them."""
    assert graded.outcome is not None
    tasks = graded.outcome["tasks"]
    reached, most = sum(t["points"] for t in tasks), sum(t["max_points"] for t in tasks)
    state = "" if graded.anew else " (graded before)"
    console.print(f"{escape(graded.student)} / {graded.notebook}: {reached:g} of {most:g} points{state}")
    for problem in graded.outcome["problems"]:
        console.print(f"  ! {escape(problem)}")
    for task in tasks:
        console.print(f"  {escape(task['title'])}: {task['status']}, {task['points']:g}/{task['max_points']:g}")
        for message in task["messages"]:
            console.print(f"    → {escape(message)}")
