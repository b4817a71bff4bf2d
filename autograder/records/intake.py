"""Taking submissions in: what lies in the folder of submissions becomes notebooks of ours, or lines that say why not.

A folder that learners fill (or a tool that collects from them) may hold anything: links to the solutions, to the seed
or to another's answers, named pipes, devices, names that mean something to a shell. Nothing here follows a link, waits
for a pipe or copies what it does not know. What grading and nbgrader read afterwards is in a folder that only this
module writes: notebooks rebuilt from the release and from what a learner wrote into it. Imports no torch.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbgrader.utils import parse_utc

from autograder.course.course import Course
from autograder.course.notebooks import compare_with_release, restored
from autograder.course.reading import UnreadableNotebookError, parse_notebook, read_descriptor, read_notebook
from autograder.course.submission import TIMESTAMP_FORMAT
from autograder.exchange.verdict import one_line
from fxopt_workbench.files import write_whole

PROBLEMS_KEY = "fxopt_problems"
"""Notebook metadata that carries problems from reading a submission to its feedback."""

STUDENT_NAME = re.compile(r"\w[\w .'@+=-]{0,63}")
"""Names of students that can be a folder, a key of the gradebook and a word of a pattern, and mean only themselves."""

TIMESTAMP_BYTES = 200
"""Most bytes of a timestamp that are read."""

NAMES_SHOWN = 5
"""How many further files a line about them names."""


class IntakeError(ValueError):
    """A submission's folder cannot be taken in; the message is one line that says why and what to do."""


@dataclass(frozen=True)
class Folder:
    """What one student handed in for one day.

    Attributes:
        student: the name of the student's folder.
        day: the name of the assignment's folder.
        notebooks: names without suffix of the notebooks of this assignment that are there, whatever they are.
        others: names of what else is there.
    """

    student: str
    day: str
    notebooks: tuple[str, ...]
    others: tuple[str, ...]


def check_student(name: str) -> None:
    """Refuse a name that could be taken for something else.

    Raises:
        IntakeError: it has other characters than letters, digits, spaces and `. _ ' @ + = -`, or is longer than 64.
    """
    if not STUDENT_NAME.fullmatch(name):
        raise IntakeError(
            f"{one_line(ascii(name), 80)} is no name of a student: letters, digits, spaces and . _ ' @ + = - are (a "
            "letter or a digit first, at most 64 of them); rename the folder"
        )


def handed_in(course: Course) -> Iterator[tuple[str, str]]:
    """(student, day) of every folder that was handed in, in order. Links are no folders of anybody."""
    for student in _names(course.submitted):
        for day in _names(course.submitted / student):
            yield student, day


def _names(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except FileNotFoundError:
        return []


@contextmanager
def _opened(course: Course, *names: str) -> Iterator[int]:
    """The descriptor of a folder below the folder of submissions, reached without following a link.

    Raises:
        IntakeError: one of the names is no folder there.
    """
    descriptor = os.open(course.submitted, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for name in names:
            try:
                inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=descriptor)
            except OSError as error:
                raise IntakeError(f"{'/'.join(names)}: no folder of a submission ({error.strerror})") from error
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


def look_into(course: Course, student: str, day: str) -> Folder:
    """What lies in the folder of one submission.

    Raises:
        IntakeError: it is no folder, or the student's name is none.
    """
    check_student(student)
    released = {path.stem for path in (course.curriculum / day).glob("*.ipynb")}
    with _opened(course, student, day) as folder:
        names = sorted(os.listdir(folder))
    notebooks = tuple(stem for name in names if (stem := name.removesuffix(".ipynb")) != name and stem in released)
    kept = {f"{stem}.ipynb" for stem in notebooks} | {"timestamp.txt"}
    return Folder(student, day, notebooks, tuple(name for name in names if name not in kept))


def content_of(course: Course, student: str, day: str, file: str) -> bytes:
    """The bytes of one file that was handed in.

    Raises:
        UnreadableNotebookError: it is a link, no regular file, or too large.
    """
    with _opened(course, student, day) as folder:
        try:
            descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
        except OSError as error:
            is_link = stat.S_ISLNK(os.stat(file, dir_fd=folder, follow_symlinks=False).st_mode)
            reason = (
                "this is a link to another file; hand in the notebook itself"
                if is_link
                else f"this file cannot be opened ({error.strerror})"
            )
            raise UnreadableNotebookError(f"{file}: {reason}") from error
        return read_descriptor(descriptor, file, own_links_only=True)


def received(course: Course, student: str, day: str, name: str) -> NotebookNode:
    """One notebook that was handed in, rebuilt on the released one; problems with it are noted in its metadata.

    What cannot be read becomes the released notebook, and the note says that it was unreadable.
    """
    release = read_notebook(course.curriculum / day / f"{name}.ipynb")
    try:
        notebook = parse_notebook(f"{name}.ipynb", content_of(course, student, day, f"{name}.ipynb"))
        problems = compare_with_release(notebook, release).problems()
        problems += kernel_problems(notebook)
        notebook, unreadable = restored(notebook, release), False
    except UnreadableNotebookError as error:
        notebook, problems, unreadable = release, [str(error)], True
    notebook.metadata.update(kernelspec=release.metadata["kernelspec"])
    notebook.metadata[PROBLEMS_KEY] = {"problems": problems, "unreadable": unreadable}
    return notebook


def kernel_problems(notebook: NotebookNode) -> list[str]:
    """A line when the notebook was made for another language than Python."""
    kernelspec = notebook.metadata.get("kernelspec", {})
    language = str(kernelspec.get("language", kernelspec.get("name", "python")))[:40]
    if "python" in language.lower():
        return []
    return [f"the notebook's kernel is {language!r}; it is graded with Python 3"]


def take_in(course: Course, folder: Folder) -> dict[str, NotebookNode]:
    """Fill this submission's folder of `course.received` anew, and only with what this module wrote.

    Returns:
        The notebooks by name, as they were written.

    Raises:
        IntakeError: the folder of the submission is gone or is none.
    """
    target = course.received / folder.student / folder.day
    if target.exists():
        shutil.rmtree(target)
    target.mkdir(parents=True)
    found = {}
    for name in folder.notebooks:
        notebook = received(course, folder.student, folder.day, name)
        if folder.others:
            notebook.metadata[PROBLEMS_KEY]["problems"].append(_left_aside(folder.others))
        write_whole(target / f"{name}.ipynb", nbformat.writes(notebook))
        found[name] = notebook
    when = handed_in_at(course, folder)
    if when is not None:
        write_whole(target / "timestamp.txt", when.strftime(TIMESTAMP_FORMAT))
    return found


def _left_aside(names: tuple[str, ...]) -> str:
    shown = ", ".join(one_line(ascii(name)[1:-1], 60) for name in names[:NAMES_SHOWN])
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return f"only the notebooks of the assignment are graded; left aside: {shown}{more}"


def handed_in_at(course: Course, folder: Folder) -> datetime | None:
    """When a submission was handed in: what its timestamp says, or else when its notebook was last written.

    `None` when there is no timestamp, which is then the case for all that nbgrader knows of its time.
    """
    try:
        content = content_of(course, folder.student, folder.day, "timestamp.txt")[:TIMESTAMP_BYTES]
    except UnreadableNotebookError:
        content = b"none that can be read"
    except FileNotFoundError:
        return None
    try:
        when = parse_utc(content.decode(errors="replace"))
        return when if when.tzinfo is not None else when.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        with _opened(course, folder.student, folder.day) as descriptor:
            state = os.stat("timestamp.txt", dir_fd=descriptor, follow_symlinks=False)
        return datetime.fromtimestamp(state.st_mtime, UTC)
