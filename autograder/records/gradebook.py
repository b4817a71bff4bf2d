"""Grading submissions into nbgrader's gradebook, and the feedback pages. Imports no torch."""

from __future__ import annotations

import hashlib
import json
import logging
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from nbgrader.api import Gradebook, MissingEntry
from nbgrader.converters import GenerateFeedback
from nbgrader.coursedir import CourseDirectory
from sqlalchemy.exc import SAWarning

from autograder.course.course import Course, course_config
from autograder.course.reading import UnreadableNotebookError, read_notebook
from autograder.course.sources import make_assignments, read_source, sources
from autograder.course.task import DAYS, WrittenTask
from autograder.course.tasks import tasks_of_notebook, written_tasks
from autograder.exchange.verdict import one_line
from autograder.grading.batch import Batch
from autograder.grading.grading import keep_warm, let_go
from autograder.records.intake import (
    PROBLEMS_KEY,
    Folder,
    IntakeError,
    content_of,
    handed_in,
    handed_in_at,
    look_into,
    received,
)
from autograder.records.nbgrader_plugin import AutogradeReceived, outcome_file
from fxopt_workbench.files import write_whole

AHEAD = 3
"""How many submissions for each grading process are read before their turn to be written."""


@dataclass(frozen=True)
class Graded:
    """What grading did with one submitted notebook.

    Attributes:
        student: whose it is.
        day: the assignment's folder.
        notebook: file name without suffix.
        outcome: the recorded outcome (see `NotebookOutcome.to_json`), or `None` when grading itself failed.
        failure: why grading failed, or `""`.
        feedback: the feedback page, when there is one.
        anew: whether it was graded now; otherwise it had been graded since it was handed in.
    """

    student: str
    day: str
    notebook: str
    outcome: dict[str, Any] | None
    failure: str
    feedback: Path | None
    anew: bool


def prepare_gradebook(course: Course) -> None:
    """Bring the gradebook up to date with the authoring sources: assignments, cells and points.

    Raises:
        ReleaseError: nbgrader refused.
    """
    course.records.mkdir(parents=True, exist_ok=True)
    hasher = hashlib.sha256(course.database.encode())
    for source in sources(course):
        hasher.update(f"{source.relative_to(course.solutions)}\0".encode() + source.read_bytes() + b"\0")
    marker, state = course.records / "graded" / "prepared.sha256", hasher.hexdigest()
    days = {source.parent.name for source in sources(course)}
    if marker.is_file() and marker.read_text() == state and days <= _known_days(course):
        return
    with tempfile.TemporaryDirectory() as folder:
        for source in sources(course):
            target = Path(folder) / "source" / source.parent.name / f"{source.stem}.ipynb"
            target.parent.mkdir(parents=True, exist_ok=True)
            nbformat.write(read_source(source), target)
        make_assignments(course, Path(folder) / "source", Path(folder) / "release", course.database)
    write_whole(marker, state)


def _known_days(course: Course) -> set[str]:
    with Gradebook(course.database, "fxopt") as gradebook:
        return {str(assignment.name) for assignment in gradebook.assignments}


def grade(
    course: Course, who: str | None = None, day: str | None = None, force: bool = False, jobs: int = 1
) -> Iterator[Graded]:
    """Grade what was handed in since it was last graded; one result per submitted notebook, as soon as it is known.

    A submission on which grading fails is reported and delays no other. Assignment by assignment, so that what is warm
    for one submission is warm for the next. However many processes grade, only this one writes.

    Args:
        course: the course.
        who: only this student's submissions.
        day: only this assignment (folder name).
        force: grade even what has been graded since it was handed in.
        jobs: how many processes run and judge notebooks at once.

    Raises:
        ReleaseError: the gradebook cannot be brought up to date.
        ValueError: fewer jobs than one.
    """
    prepare_gradebook(course)
    folders = [(student, name) for student, name in handed_in(course) if who in (None, student) and day in (None, name)]
    folders.sort(key=lambda found: (found[1], found[0]))
    if jobs == 1:
        keep_warm()
        try:
            for student, name in folders:
                yield from _grade_folder(course, student, name, force)
        finally:
            let_go()
        return
    with Batch(jobs) as batch:
        announced = 0
        for position, (student, name) in enumerate(folders):
            while announced < min(len(folders), position + AHEAD * jobs):
                _announce(batch, course, *folders[announced], force)
                announced += 1
            yield from _grade_folder(course, student, name, force)


def _announce(batch: Batch, course: Course, student: str, day: str, force: bool) -> None:
    """Have the notebooks of a submission graded that `_grade_folder` is going to ask for."""
    try:
        folder = look_into(course, student, day)
        if not _is_new(course, student, day, _fingerprint(course, folder), force):
            return
        for name in folder.notebooks:
            tasks = tasks_of_notebook(name)
            notebook = received(course, student, day, name)
            if tasks and not notebook.metadata[PROBLEMS_KEY]["unreadable"]:
                release = read_notebook(course.curriculum / day / f"{name}.ipynb")
                batch.announce(name, notebook, release, tasks, course.seed())
    except (IntakeError, OSError):
        return  # grading comes upon it again, and reports it


def _marker(course: Course, student: str, day: str) -> Path:
    # nbgrader takes a submission for graded as soon as its folder of results is there. Ours is written last, so that
    # a run that was killed anywhere before is made up for.
    return course.records / "graded" / student / f"{day}.sha256"


def _is_new(course: Course, student: str, day: str, state: str, force: bool) -> bool:
    marker = _marker(course, student, day)
    return force or not marker.is_file() or marker.read_text() != state


def _grade_folder(course: Course, student: str, day: str, force: bool) -> Iterator[Graded]:
    try:
        folder = look_into(course, student, day)
    except IntakeError as error:
        yield Graded(one_line(ascii(student)[1:-1], 80), day, "-", None, str(error), None, False)
        return
    if not folder.notebooks:
        released = ", ".join(sorted(path.name for path in (course.curriculum / day).glob("*.ipynb")))
        wanted = f"expected one of {released}" if released else f"there is no assignment {one_line(day, 80)}"
        yield Graded(student, day, "-", None, f"no notebook of the assignment was handed in ({wanted})", None, False)
        return
    state = _fingerprint(course, folder)
    anew = _is_new(course, student, day, state, force)
    failure = ""
    if anew:
        failure = _convert(AutogradeReceived, course, student, day) or _convert(GenerateFeedback, course, student, day)
        if not failure:
            write_whole(_marker(course, student, day), state)
    for name in folder.notebooks:
        outcome = None if failure else _read_outcome(course, student, day, name)
        page = course.feedback / student / day / f"{name}.html"
        yield Graded(student, day, name, outcome, failure, page if page.exists() else None, anew)


def _fingerprint(course: Course, folder: Folder) -> str:
    """Changes with every submission: a hash over the notebooks and the time at which they were handed in."""
    hasher = hashlib.sha256(repr(handed_in_at(course, folder)).encode())
    for name in folder.notebooks:
        try:
            content = content_of(course, folder.student, folder.day, f"{name}.ipynb")
        except UnreadableNotebookError as error:
            content = str(error).encode()
        hasher.update(f"{name}\0{len(content)}\0".encode() + content)
    hasher.update(repr(folder.others).encode())
    return hasher.hexdigest()


def _convert(kind: type[AutogradeReceived] | type[GenerateFeedback], course: Course, student: str, day: str) -> str:
    """Run one nbgrader converter on one submission; what it logged as errors when it failed, else nothing."""
    config = course_config(course)
    config.CourseDirectory.student_id = student
    config.CourseDirectory.assignment_id = day
    converter = kind(coursedir=CourseDirectory(config=config), config=config)
    converter.force = True
    records: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: records.append(record.getMessage())  # type: ignore[method-assign]
    handler.setLevel(logging.ERROR)
    logger = converter.log
    logger.addHandler(handler)
    logger.propagate = False
    try:
        with warnings.catch_warnings():
            # nbgrader reads a new submission before it adds it to its session, which SQLAlchemy remarks on.
            warnings.filterwarnings("ignore", "Object of type <Submitted", category=SAWarning)
            converter.start()
    except Exception as error:  # nbgrader's own exceptions carry no more than "see the log"
        last = next((line for text in records for line in reversed(text.strip().splitlines()) if "Error" in line), "")
        return last or str(error)
    finally:
        logger.removeHandler(handler)
    return ""


def _read_outcome(course: Course, student: str, day: str, notebook: str) -> dict[str, Any] | None:
    path = outcome_file(course, student, day, notebook)
    return json.loads(path.read_text()) if path.exists() else None


def recorded_points(course: Course, student: str, day: str, notebook: str) -> tuple[float, float] | None:
    """(score, maximum) of a submitted notebook in the gradebook, or `None` when it is not there."""
    with Gradebook(course.database, "fxopt") as gradebook:
        try:
            found = gradebook.find_submission_notebook(notebook, day, student)
        except MissingEntry:
            return None
        return float(found.score), float(found.max_score)


def written_scores(course: Course, graded: Graded) -> list[tuple[WrittenTask, float | None, float]]:
    """(task, points or `None` while no person has graded it, maximum) of each written answer in a notebook."""
    found: list[tuple[WrittenTask, float | None, float]] = []
    with Gradebook(course.database, "fxopt") as gradebook:
        for task in written_tasks():
            if (DAYS[task.day], task.notebook) != (graded.day, graded.notebook):
                continue
            try:
                found_grade = gradebook.find_grade(task.name, task.notebook, graded.day, graded.student)
            except MissingEntry:
                continue
            # Without a person's score there is one only for an answer that was left as it was handed out.
            points = None if found_grade.needs_manual_grade else float(found_grade.score)
            found.append((task, points, float(found_grade.max_score)))
    return found


def publish_feedback(course: Course, graded: Graded) -> Path | None:
    """Copy a feedback page into the workspace, where JupyterLab shows it; its new place."""
    if graded.feedback is None:
        return None
    target = course.workspace / "feedback" / f"{graded.notebook}.html"
    write_whole(target, graded.feedback.read_bytes())
    return target
