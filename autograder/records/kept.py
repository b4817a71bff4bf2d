"""The bytes of every attempt that grading has seen, for when one of them has to be graded again.

A folder of submissions holds the newest attempt only: handing in again, and collecting from an exchange, write over the
one before. Where the best attempt counts, a regrade must reach them all. Imports no torch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from autograder.course.course import Course
from autograder.course.reading import UnreadableNotebookError
from autograder.records.intake import HandedIn, IntakeError, content_of
from autograder.records.verdict_records import Attempt
from fxopt_workbench.files import write_whole


def keep(course: Course, submission: HandedIn) -> None:
    """Keep the notebooks of a submission, as they are; those that are kept already are not written again.

    Raises:
        OSError: they cannot be written.
    """
    student, unit = submission.folder.student, submission.folder.unit
    for name, content in submission.contents.items():
        if not isinstance(content, bytes):
            continue
        alike = (path for path in _kept(course, student, unit, name) if path.stat().st_size == len(content))
        if not any(path.read_bytes() == content for path in alike):
            folder = _folder(course, student, unit)
            folder.mkdir(parents=True, exist_ok=True)
            write_whole(folder / f"{name}-{submission.digest(name)[:16]}.ipynb", content)


def content_of_attempt(course: Course, attempt: Attempt) -> bytes | None:
    """The bytes of an attempt, from the folder of submissions or from what is kept; `None` where they are gone."""

    def is_it(content: bytes) -> bool:
        return hashlib.sha256(content).hexdigest() == attempt.submission

    place = attempt.student, attempt.assignment
    with suppress(OSError, IntakeError, UnreadableNotebookError):
        content = content_of(course, *place, f"{attempt.notebook}.ipynb")
        if is_it(content):
            return content
    every = (path.read_bytes() for path in _kept(course, *place, attempt.notebook))
    return next((content for content in every if is_it(content)), None)


def _folder(course: Course, student: str, unit: str) -> Path:
    return course.records / "history" / student / unit


def _kept(course: Course, student: str, unit: str, name: str) -> Iterator[Path]:
    """What is kept here, and what `fxopt submit` keeps under the time at which it was handed in."""
    yield from sorted(_folder(course, student, unit).glob(f"{name}-*.ipynb"))
