"""From a submission to what it came to, and to the verdicts that are recorded of it. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from nbformat import NotebookNode

from autograder.course.course import Course
from autograder.course.notebooks import points_of
from autograder.course.tasks import tasks_of_notebook
from autograder.exchange.verdict import TaskOutcome
from autograder.grading.grading import NotebookOutcome
from autograder.grading.task_run import DISTURBED
from autograder.grading.version import grader_version
from autograder.grading.work import InfrastructureError, Work, do, outcome_of, work_for
from autograder.records.intake import PROBLEMS_KEY, Folder, HandedIn, released
from autograder.records.kept import keep
from autograder.records.verdicts import TaskVerdict, Verdict, VerdictStatus, VerdictStore, task_verdict

NOT_YOUR_FAULT = (
    "Grading itself failed here; it is not your fault, and costs you nothing. It will be tried again: until then this "
    "task has no grade, which is not 0 points."
)

NOT_GRADED = (
    "grading itself failed, which is not the learner's fault and costs no points: {reason}. The next `fxopt grade` "
    "tries it again"
)


@dataclass(frozen=True)
class Judged:
    """A submission that was read, rebuilt and judged.

    Attributes:
        submission: what was handed in.
        notebooks: its notebooks, rebuilt, by name.
        outcomes: what they came to, by name.
    """

    submission: HandedIn
    notebooks: dict[str, NotebookNode]
    outcomes: dict[str, NotebookOutcome]


def judge_here(course: Course, submission: HandedIn, notebooks: dict[str, NotebookNode]) -> Judged:
    """Judge a submission in this process, and record the verdicts.

    Raises:
        InfrastructureError: grading itself failed, which is recorded.
    """
    with VerdictStore(course.database) as store:
        note_receipt(store, course, submission)
        outcomes = {}
        try:
            for name, notebook in notebooks.items():
                work = work_of(course, submission.folder, name, notebook)
                graded = None if work is None else outcome_of(do(work))
                outcomes[name] = whole_outcome(course, submission.folder.unit, name, notebook, graded)
        except InfrastructureError as error:
            record_failure(store, course, submission, str(error))
            raise
        record_outcomes(store, course, submission, notebooks, outcomes)
    return Judged(submission, notebooks, outcomes)


def work_of(course: Course, folder: Folder, name: str, notebook: NotebookNode) -> Work | None:
    """The work of grading a student's rebuilt notebook, or `None` where there is nothing to run."""
    tasks = tasks_of_notebook(name)
    if not tasks or notebook.metadata[PROBLEMS_KEY]["unreadable"]:
        return None
    release = released(course, folder.unit, name)
    return work_for(name, notebook, release, tasks, course.seed_for(folder.student))


def whole_outcome(
    course: Course, unit: str, name: str, notebook: NotebookNode, graded: NotebookOutcome | None
) -> NotebookOutcome:
    """The outcome of a rebuilt notebook, from that of its work (see `work_of`) and from what was noted of it."""
    noted = notebook.metadata[PROBLEMS_KEY]
    if noted["unreadable"]:
        return unreadable_outcome(name, released(course, unit, name), noted["problems"])
    outcome = graded or NotebookOutcome(name)
    outcome.problems = noted["problems"] + outcome.problems
    return outcome


def note_receipt(store: VerdictStore, course: Course, submission: HandedIn) -> None:
    """Note that a submission was seen, and keep it, before it is graded."""
    folder = submission.folder
    keep(course, submission)
    for name in submission.contents:
        store.receive(folder.student, folder.unit, name, submission.digest(name), submission.received_at)


def record_outcomes(
    store: VerdictStore,
    course: Course,
    submission: HandedIn,
    notebooks: dict[str, NotebookNode],
    outcomes: dict[str, NotebookOutcome],
) -> None:
    """Record the verdicts on all notebooks of a submission."""
    grader, now = grader_version(course, submission.folder.unit), datetime.now(UTC)
    for name, outcome in outcomes.items():
        unreadable = bool(notebooks[name].metadata[PROBLEMS_KEY]["unreadable"])
        store.record(verdict_on(submission, name, outcome, unreadable, grader, now))


def record_failure(store: VerdictStore, course: Course, submission: HandedIn, reason: str) -> None:
    """Record that grading itself failed on a submission."""
    grader, now = grader_version(course, submission.folder.unit), datetime.now(UTC)
    for name in submission.contents:
        store.record(verdict_of_failure(course, submission, name, reason, grader, now))


def unreadable_outcome(name: str, release: NotebookNode, problems: list[str]) -> NotebookOutcome:
    """Zero points for every task of a submission that could not be read."""
    points = points_of(release)
    tasks = [
        TaskOutcome(
            task.name,
            task.title,
            "error",
            ["Not graded: the notebook could not be read."],
            ["unreadable"],
            max_points=points.get(task.name, 0.0),
        )
        for task in tasks_of_notebook(name)
    ]
    return NotebookOutcome(name, tasks, problems)


ENDED_SO: dict[str, VerdictStatus] = {
    "time limit": "timeout",
    "memory limit": "crashed",
    "process limit": "crashed",
    "crashed": "crashed",
    "infrastructure error": "infrastructure_error",
}
"""What the status of a task makes of the whole verdict, unless there is something graver."""

GRAVITY: tuple[VerdictStatus, ...] = ("graded", "timeout", "crashed", "tampered", "invalid", "infrastructure_error")


def status_of(tasks: Iterable[TaskOutcome | TaskVerdict], unreadable: bool) -> VerdictStatus:
    """The status of the verdict on a notebook with these tasks: the gravest that applies."""
    if unreadable:
        return "invalid"
    found: list[VerdictStatus] = ["graded"]
    for task in tasks:
        found.append("tampered" if DISTURBED in task.messages else ENDED_SO.get(task.status, "graded"))
    return max(found, key=GRAVITY.index)


def verdict_on(
    submission: HandedIn, name: str, outcome: NotebookOutcome, unreadable: bool, grader: str, now: datetime
) -> Verdict:
    """The verdict on one notebook of a submission that was graded."""
    kinds = {task.name: task.evidence for task in tasks_of_notebook(name)}
    details = {key: value for key, value in outcome.to_json().items() if key in ("sandboxed", "seconds", "phases")}
    return Verdict(
        *_whose(submission, name),
        grader,
        status_of(outcome.tasks, unreadable),
        submission.received_at,
        now,
        tuple(task_verdict(task, kinds.get(task.task, "answer")) for task in outcome.tasks),
        tuple(outcome.problems),
        details,
    )


def verdict_of_failure(
    course: Course, submission: HandedIn, name: str, reason: str, grader: str, now: datetime
) -> Verdict:
    """The verdict on one notebook of a submission on which grading itself failed."""
    points = points_of(released(course, submission.folder.unit, name))
    tasks = tuple(
        TaskVerdict(
            task.name,
            task.title,
            "infrastructure error",
            None,
            points.get(task.name, 0.0),
            (NOT_YOUR_FAULT,),
            ("infrastructure error",),
            task.evidence,
        )
        for task in tasks_of_notebook(name)
    )
    details: dict[str, Any] = {"reason": reason}
    return Verdict(
        *_whose(submission, name),
        grader,
        "infrastructure_error",
        submission.received_at,
        now,
        tasks,
        (NOT_YOUR_FAULT,),
        details,
    )


def _whose(submission: HandedIn, name: str) -> tuple[str, str, str, str]:
    return submission.folder.student, submission.folder.unit, name, submission.digest(name)
