"""What a verdict, a task's verdict and an attempt are. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, get_args

from autograder.exchange.verdict import TaskOutcome

VerdictStatus = Literal["graded", "timeout", "crashed", "tampered", "invalid", "infrastructure_error"]
"""What grading one submission came to.

- `graded`: everything ran to its end, right or wrong.
- `timeout`: at least one task was stopped by a limit of time.
- `crashed`: at least one task's process ended, or was stopped for what it used (memory, processes).
- `tampered`: the learner's side disturbed the grading process in at least one task.
- `invalid`: the notebook could not be read.
- `infrastructure_error`: grading itself failed, through no fault of the learner. There are no points, not even 0.

Where several apply, the last in this list is meant. In all but the last one the points of each task count.
"""


@dataclass(frozen=True)
class TaskVerdict:
    """What one task came to.

    Attributes:
        task: the task's name.
        title: its title.
        status: what the judge says of it (see `autograder.exchange.verdict.Status`).
        points: points reached; `None` after an `infrastructure_error`.
        max_points: points that there are.
        messages: what the learner reads, the most important first.
        misconceptions: the misconceptions that were recognised, in the order of `messages`; `""` is none in particular.
        evidence: what the points rest on (see `autograder.course.task.EvidenceKind`).
        seconds: wall time that the learner's side took.
    """

    task: str
    title: str
    status: str
    points: float | None
    max_points: float
    messages: tuple[str, ...] = ()
    misconceptions: tuple[str, ...] = ()
    evidence: str = ""
    seconds: float = 0.0

    @property
    def misconception(self) -> str:
        """The first misconception that has a name, or `""`."""
        return next((name for name in self.misconceptions if name), "")

    @property
    def message(self) -> str:
        """The most important message, or `""`."""
        return self.messages[0] if self.messages else ""


@dataclass(frozen=True)
class Verdict:
    """What grading one submitted notebook came to.

    The first five attributes are its key: two verdicts with the same key are one record.

    Attributes:
        student: whose it is.
        assignment: the assignment's folder.
        notebook: file name without suffix.
        submission: SHA-256 of the bytes that were handed in, as hexadecimal digits.
        grader: the version of everything that decides on points (see `autograder.grading.version`).
        status: see `VerdictStatus`.
        received_at: when it was handed in, with time zone.
        graded_at: when it was graded, with time zone.
        tasks: what each task came to, in the order of the notebook.
        problems: one line each about the notebook as a whole.
        details: further JSON values about the run (`sandboxed`, `seconds`, `phases`; the reason for an
            `infrastructure_error` under `reason`).
        attempt: 1 for the first submission of this notebook, 2 for the next; the store knows it, writers leave it 0.
    """

    student: str
    assignment: str
    notebook: str
    submission: str
    grader: str
    status: VerdictStatus
    received_at: datetime
    graded_at: datetime
    tasks: tuple[TaskVerdict, ...] = ()
    problems: tuple[str, ...] = ()
    details: dict[str, Any] = field(default_factory=dict)
    attempt: int = 0

    def __post_init__(self) -> None:
        if self.status not in get_args(VerdictStatus):
            raise ValueError(f"status {self.status!r}: one of {', '.join(get_args(VerdictStatus))} was expected")
        for name in ("received_at", "graded_at"):
            in_utc(name, getattr(self, name))

    @property
    def key(self) -> tuple[str, str, str, str, str]:
        """Student, assignment, notebook, submission and grader."""
        return self.student, self.assignment, self.notebook, self.submission, self.grader

    @property
    def points(self) -> float | None:
        """All points reached; `None` after an `infrastructure_error`, which is not 0."""
        if self.status == "infrastructure_error":
            return None
        return sum(task.points or 0.0 for task in self.tasks)

    @property
    def max_points(self) -> float:
        """All points that there are."""
        return sum(task.max_points for task in self.tasks)


@dataclass(frozen=True)
class Attempt:
    """One thing that was handed in.

    Attributes:
        student, assignment, notebook, submission, received_at: as for `Verdict`.
        number: 1 for the first submission of this notebook.
        verdict: the verdict that counts for it, or `None` while there is none.
    """

    student: str
    assignment: str
    notebook: str
    submission: str
    received_at: datetime
    number: int
    verdict: Verdict | None


@dataclass(frozen=True)
class TaskRow:
    """One task of one verdict: what statistics are made of."""

    verdict: Verdict
    task: TaskVerdict


def task_verdict(outcome: TaskOutcome, evidence: str) -> TaskVerdict:
    """The record of a task's outcome; of its cases, hidden ones among them, nothing is kept."""
    return TaskVerdict(
        outcome.task,
        outcome.title,
        outcome.status,
        outcome.points,
        outcome.max_points,
        tuple(outcome.messages),
        tuple(outcome.misconceptions),
        evidence,
        outcome.seconds,
    )


def in_utc(name: str, when: datetime) -> datetime:
    """The same time in UTC; `name` is for the error.

    Raises:
        ValueError: the time has no zone.
    """
    if when.tzinfo is None:
        raise ValueError(f"{name} {when.isoformat()}: a time with its time zone was expected")
    return when.astimezone(UTC)
