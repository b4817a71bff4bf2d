"""Handing in: from the learner's workspace to the course's folder of submissions. Imports no torch."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nbformat import NotebookNode

from autograder.course.course import Course, find_course, student
from autograder.course.notebooks import compare_with_release, grade_id
from autograder.course.reading import parse_notebook, read_notebook
from autograder.course.rules_file import read_rules
from autograder.course.saved import STEP, saved_content, saved_notebook
from autograder.course.tasks import find_notebook, tasks_of_notebook
from fxopt_workbench.files import write_whole

TIMESTAMP_FORMAT = "%Y-%m-%d %H:%M:%S.%f UTC"
"""How nbgrader reads the time of a submission."""


class SubmissionRefusedError(ValueError):
    """The notebook cannot be handed in as it is; the message says which cells are why, and what to do."""


class UnsavedAnswersError(ValueError):
    """The file on disk does not hold what the learner last ran."""


@dataclass(frozen=True)
class Submission:
    """One notebook that was handed in.

    Attributes:
        student: whose it is.
        unit: the assignment's folder.
        notebook: file name without suffix.
        path: the copy that will be graded.
        warnings: one line each about what grading will put right.
    """

    student: str
    unit: str
    notebook: str
    path: Path
    warnings: tuple[str, ...]


def submit(course: Course, exercise: str, who: str | None = None) -> Submission:
    """Check a workspace notebook and copy it, with the time, to where it is graded. Earlier copies are kept.

    Args:
        course: the course.
        exercise: how the notebook's name begins, such as `ex_01`.
        who: the student; `None` takes this machine's.

    Raises:
        UnknownTaskError: no such exercise.
        UnreadableNotebookError: the file is missing or no notebook.
        RulesError: there are mistakes in `course.toml`.
        SubmissionRefusedError: cells were removed or are there twice.
    """
    unit, name = find_notebook(exercise)
    who = who or student()
    source = course.workspace / unit / f"{name}.ipynb"
    # Read once: what was looked at is what is handed in, whatever is saved meanwhile.
    content = saved_content(source)
    notebook = parse_notebook(source.name, content)
    comparison = compare_with_release(notebook, read_notebook(course.curriculum / unit / source.name))
    warnings = []
    if comparison.changed:
        names = ", ".join(comparison.changed)
        warnings.append(
            f"these locked cells differ from the course's and are graded in its form: {names} "
            "(you changed them, or the course was updated since)"
        )
    if comparison.retyped:
        names = ", ".join(comparison.retyped)
        warnings.append(f"these cells were made another type of cell and are graded as what they were: {names}")
    if comparison.misplaced:
        names = ", ".join(comparison.misplaced)
        warnings.append(f"these cells stand below where they belong and are graded in their place: {names}")
    terms = read_rules(course).for_student(who, unit)
    lateness = terms.lateness(datetime.now(UTC))
    if lateness.days and not lateness.accepted:
        warnings.append("the deadline is over, late days included: this is kept, and not graded")
    elif lateness.days:
        days = f"{lateness.days} day{'s' * (lateness.days > 1)}"
        warnings.append(f"this is {days} late, which costs {lateness.share:.0%} of the points")
    comparison.changed, comparison.retyped, comparison.misplaced = [], [], []
    problems = comparison.problems()
    if problems:
        raise SubmissionRefusedError(f"{source.name} was not submitted: " + "; ".join(problems))
    now = datetime.now(UTC)
    target = course.submitted / who / unit / source.name
    history = course.records / "history" / who / unit / f"{name}-{now.strftime('%Y%m%dT%H%M%S%fZ')}.ipynb"
    for folder in (target.parent, history.parent):
        folder.mkdir(parents=True, exist_ok=True)
    history.write_bytes(content)
    write_whole(target, content, history.parent)
    # Last: a grading run that comes between the two finds an old time and grades again when it sees the new one.
    write_whole(target.parent / "timestamp.txt", now.strftime(TIMESTAMP_FORMAT).encode(), history.parent)
    return Submission(who, unit, name, target, tuple(warnings))


def check_saved(exercise: str, patience: float = 2.0) -> None:
    """Called in the learner's kernel: is what was last run of each answer cell also in the file?

    Who saves and submits in one breath is faster than the server that saves: an older file gets a moment.

    Args:
        exercise: how the notebook's name begins, such as `ex_01`.
        patience: for how long an older file may become the newer one, in seconds.

    Raises:
        UnknownTaskError: no such exercise.
        UnreadableNotebookError: the file is missing or no notebook.
        UnsavedAnswersError: an answer that ran last is not in the saved notebook.
    """
    from IPython.core.getipython import get_ipython

    shell: Any = get_ipython()
    if shell is None:
        return
    unit, name = find_notebook(exercise)
    path = find_course().workspace / unit / f"{name}.ipynb"
    ran = [text.strip() for text in shell.user_ns.get("In", []) if text.strip()]
    end = time.monotonic() + patience
    while (title := _unsaved(name, saved_notebook(path), ran)) is not None:
        if time.monotonic() > end:
            raise UnsavedAnswersError(
                f"Not submitted: of {title!r} the saved file holds another answer than the one that you ran last. If "
                "you have changed it since, run it and its check. Then save the notebook (Ctrl+S or ⌘S) and run this "
                "cell again."
            )
        time.sleep(STEP)


def _unsaved(name: str, notebook: NotebookNode, ran: list[str]) -> str | None:
    """The title of the first task of whose answer the notebook holds another version than the one that ran last."""
    titles = {task.answer_id: task.title for task in tasks_of_notebook(name)}
    saved = {cell.source.strip() for cell in notebook.cells if cell.cell_type == "code"}
    for cell in notebook.cells:
        if cell.cell_type != "code" or not cell.metadata.get("nbgrader", {}).get("solution"):
            continue
        first_line = cell.source.strip().splitlines()[0] if cell.source.strip() else None
        versions = [text for text in ran if first_line and text.splitlines()[0] == first_line]
        if versions and versions[-1] not in saved:
            answer = str(grade_id(cell))
            return titles.get(answer, answer)
    return None
