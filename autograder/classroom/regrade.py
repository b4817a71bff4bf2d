"""Grading one task again for everybody, as after its judge was mended; the points of all other tasks stay.

Every attempt whose bytes are still there is regraded: with the best attempt counting, an earlier one may now be the
best. What a person gave stays in force. Imports no torch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import nbformat
from nbgrader.api import Gradebook, MissingEntry

from autograder.classroom.feedback import write_feedback
from autograder.classroom.standing import ClassRecords, Standing, read_class
from autograder.course.course import Course
from autograder.course.notebooks import grade_id, points_of
from autograder.course.task import UNITS, Task
from autograder.exchange.verdict import TaskOutcome
from autograder.grading.batch import Graders
from autograder.grading.version import grader_version
from autograder.grading.work import InfrastructureError, Work, work_for
from autograder.records.admission import graded
from autograder.records.gradebook import prepare_gradebook
from autograder.records.intake import PROBLEMS_KEY, Folder, HandedIn, rebuilt, released
from autograder.records.kept import content_of_attempt
from autograder.records.lock import course_lock
from autograder.records.nbgrader_plugin import outcome_file, task_outputs
from autograder.records.recording import status_of
from autograder.records.trouble import explained
from autograder.records.verdicts import Attempt, TaskVerdict, Verdict, VerdictStore, task_verdict
from fxopt_workbench.files import write_whole


@dataclass(frozen=True)
class Regraded:
    """What regrading one attempt came to.

    Attributes:
        attempt: the attempt, with the verdict from before.
        before: what the task came to before; `None` where it was not graded then.
        after: what it comes to now; `None` where grading itself failed.
        failure: why grading failed, or `""`; the points from before stay.
    """

    attempt: Attempt
    before: TaskVerdict | None
    after: TaskVerdict | None
    failure: str = ""

    @property
    def changed(self) -> bool:
        """Whether the points or the verdict are others now."""
        if self.after is None:
            return False
        return self.before is None or (self.before.points, self.before.status) != (self.after.points, self.after.status)


@dataclass(frozen=True)
class Change:
    """Whose points changed, from what to what.

    Attributes:
        student: who.
        before: where they stood.
        after: where they stand.
        by_hand: whether a person's points for this task stay in force, whatever the judge says.
    """

    student: str
    before: Standing
    after: Standing
    by_hand: bool


@dataclass(frozen=True)
class Report:
    """What regrading a task came to.

    Attributes:
        task: the task.
        regraded: every attempt that was graded again.
        gone: attempts whose notebook is not kept; their points stay.
        changes: everybody for whom the task or the score is another now.
        dry_run: whether nothing was written.
    """

    task: Task
    regraded: tuple[Regraded, ...]
    gone: tuple[Attempt, ...]
    changes: tuple[Change, ...]
    dry_run: bool

    def to_json(self) -> dict[str, Any]:
        """The form that `fxopt regrade --json` prints."""

        def points(verdict: TaskVerdict | None) -> float | None:
            return None if verdict is None else verdict.points

        return {
            "task": self.task.name,
            "dry_run": self.dry_run,
            "attempts": [
                {
                    "student": each.attempt.student,
                    "attempt": each.attempt.number,
                    "points_before": points(each.before),
                    "points_after": points(each.after),
                    "failure": each.failure,
                }
                for each in self.regraded
            ],
            "not_kept": [{"student": attempt.student, "attempt": attempt.number} for attempt in self.gone],
            "changes": [
                {
                    "student": change.student,
                    "score_before": change.before.score,
                    "score_after": change.after.score,
                    "points_by_hand": change.by_hand,
                }
                for change in self.changes
            ],
        }


def regrade(
    course: Course,
    task: Task,
    graders: Graders,
    *,
    who: str | None = None,
    dry_run: bool = False,
    begun: Callable[[int], None] = lambda count: None,
    done: Callable[[], None] = lambda: None,
) -> Report:
    """Grade one task again.

    Args:
        course: the course.
        task: the task.
        graders: what grades.
        who: only this student.
        dry_run: write nothing; the report says what would change.
        begun: is told how many attempts will be graded.
        done: is told after each of them.

    Raises:
        CourseLockedError: another process is grading this course.
        RecordsError: the gradebook or another file cannot be read or written.
        ReleaseError: the gradebook cannot be brought up to date.
        RulesError: there are mistakes in `course.toml`.
    """
    unit = UNITS[task.unit]
    with explained(course.database, course.records), course_lock(course), VerdictStore(course.database) as store:
        if not dry_run:
            prepare_gradebook(course, store)
        before = read_class(course, who)
        wanted = [
            attempt
            for (_, assignment, notebook), attempts in before.attempts.items()
            if (assignment, notebook) == (unit, task.notebook)
            for attempt in attempts
            if graded(attempt) and attempt.verdict is not None and attempt.verdict.status != "invalid"
        ]
        # Not the bytes themselves: of a thousand students they would fill the memory.
        gone = tuple(attempt for attempt in wanted if content_of_attempt(course, attempt) is None)
        kept = [attempt for attempt in wanted if attempt not in gone]
        begun(len(kept))
        results = []
        with graders:
            for found in _results(course, task, graders, kept):
                results.append(found)
                if not dry_run and found.after is not None:
                    _write(course, store, task, found, _is_newest(before, found.attempt))
                done()
        now = _replaced(before, results, task)
        changes = tuple(_changes(before, now, task, results))
    return Report(task, tuple(results), gone, changes, dry_run)


def _results(course: Course, task: Task, graders: Graders, kept: Sequence[Attempt]) -> Iterator[Regraded]:
    """Every attempt graded again, in order; the graders have the next ones meanwhile."""
    waiting: list[tuple[Attempt, Work, Future[dict[str, Any]]]] = []
    release = released(course, UNITS[task.unit], task.notebook)
    most = points_of(release).get(task.name, 0.0)
    for attempt in kept:
        content = content_of_attempt(course, attempt)
        if content is None:
            yield Regraded(attempt, _task(attempt, task), None, "the notebook is not kept any more")
            continue
        folder = Folder(attempt.student, attempt.assignment, (attempt.notebook,), ())
        submission = HandedIn(folder, {attempt.notebook: content}, attempt.received_at, attempt.received_at)
        notebook = rebuilt(course, submission)[attempt.notebook]
        if notebook.metadata[PROBLEMS_KEY]["unreadable"]:
            yield Regraded(attempt, _task(attempt, task), None, "the notebook cannot be read any more")
            continue
        work = work_for(attempt.notebook, notebook, release, (task,), course.seed_for(attempt.student))
        waiting.append((attempt, work, graders.submit(work)))
        while len(waiting) > graders.ahead:
            yield _outcome(task, graders, most, *waiting.pop(0))
    for each in waiting:
        yield _outcome(task, graders, most, *each)


def _outcome(
    task: Task, graders: Graders, most: float, attempt: Attempt, work: Work, future: Future[dict[str, Any]]
) -> Regraded:
    before = _task(attempt, task)
    try:
        outcome = graders.outcome(work, future)
    except InfrastructureError as error:
        return Regraded(attempt, before, None, str(error))
    found = next(item for item in outcome.tasks if item.task == task.name)
    found.max_points = most
    found.points = most if found.status == "passed" else 0.0
    return Regraded(attempt, before, task_verdict(found, task.evidence))


def _task(attempt: Attempt, task: Task) -> TaskVerdict | None:
    assert attempt.verdict is not None
    return next((item for item in attempt.verdict.tasks if item.task == task.name), None)


def _verdict(attempt: Attempt, after: TaskVerdict, grader: str) -> Verdict:
    """The verdict on an attempt with one task's part of it replaced."""
    assert attempt.verdict is not None
    old = attempt.verdict.tasks
    tasks = tuple(after if item.task == after.task else item for item in old)
    if all(item.task != after.task for item in old):
        tasks = (*tasks, after)
    return replace(
        attempt.verdict,
        grader=grader,
        status=status_of(tasks, unreadable=attempt.verdict.status == "invalid"),
        graded_at=datetime.now(UTC),
        tasks=tasks,
        details=attempt.verdict.details | {"regraded": after.task},
        attempt=0,
    )


def _is_newest(records: ClassRecords, attempt: Attempt) -> bool:
    """Whether nbgrader's gradebook and the feedback page are about this attempt: the last one that was graded."""
    attempts = records.attempts[attempt.student, attempt.assignment, attempt.notebook]
    return [each for each in attempts if graded(each)][-1].number == attempt.number


def _write(course: Course, store: VerdictStore, task: Task, found: Regraded, newest: bool) -> None:
    """Record what an attempt comes to, and bring nbgrader's gradebook and the page up to date where they show it."""
    assert found.after is not None
    attempt, after = found.attempt, found.after
    store.record(_verdict(attempt, after, grader_version(course, attempt.assignment)))
    if not newest:
        return
    place = attempt.student, attempt.assignment, attempt.notebook
    with Gradebook(course.database, "fxopt") as gradebook, suppress(MissingEntry):
        # A person's points stand beside these, and count in their place.
        gradebook.find_grade(task.name, attempt.notebook, attempt.assignment, attempt.student).auto_score = after.points
        gradebook.db.commit()
    outcome = TaskOutcome(
        task.name,
        task.title,
        after.status,  # type: ignore[arg-type]  # it was a status when it was recorded
        list(after.messages),
        list(after.misconceptions),
        points=after.points or 0.0,
        max_points=after.max_points,
        seconds=after.seconds,
    )
    _into_outcome(outcome_file(course, *place), outcome)
    shown = course.records / "autograded" / attempt.student / attempt.assignment / f"{attempt.notebook}.ipynb"
    if shown.is_file():
        notebook = nbformat.read(shown, as_version=4)
        for cell in notebook.cells:
            if grade_id(cell) == task.name and cell.cell_type == "code":
                cell.outputs = task_outputs(outcome)
        write_whole(shown, nbformat.writes(notebook))
    write_feedback(course, attempt.student, attempt.assignment)


def _into_outcome(path: Path, outcome: TaskOutcome) -> None:
    if not path.is_file():
        return
    values = json.loads(path.read_text())
    values["tasks"] = [outcome.to_json() if item["task"] == outcome.task else item for item in values["tasks"]]
    write_whole(path, json.dumps(values, indent=1))


def _key(attempt: Attempt) -> tuple[str, str, str, int]:
    return attempt.student, attempt.assignment, attempt.notebook, attempt.number


def _replaced(before: ClassRecords, results: Sequence[Regraded], task: Task) -> ClassRecords:
    """The class as it is after regrading, whether that was written or not."""
    by_attempt = {_key(each.attempt): each.after for each in results if each.after is not None}

    def now(attempt: Attempt) -> Attempt:
        after = by_attempt.get(_key(attempt))
        if after is None or attempt.verdict is None:
            return attempt
        renewed = _verdict(attempt, after, attempt.verdict.grader)
        return replace(attempt, verdict=replace(attempt.verdict, tasks=renewed.tasks, status=renewed.status))

    return replace(before, attempts={key: [now(each) for each in every] for key, every in before.attempts.items()})


def _changes(before: ClassRecords, after: ClassRecords, task: Task, results: Sequence[Regraded]) -> Iterator[Change]:
    """Everybody for whom something is another than before."""
    touched = {each.attempt.student for each in results if each.changed}
    unit = UNITS[task.unit]
    for old, new in zip(before.standings(assignment=unit), after.standings(assignment=unit), strict=True):
        if old.notebook == task.notebook and (old.score != new.score or old.student in touched):
            yield Change(old.student, old, new, task.name in old.by_hand)
