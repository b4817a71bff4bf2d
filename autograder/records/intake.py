"""Taking submissions in: what lies in the folder of submissions becomes notebooks of ours, or lines that say why not.

A folder that learners fill (or a tool that collects from them) may hold anything: links to the solutions, to the seed
or to another's answers, named pipes, devices, names that mean something to a shell. Nothing here follows a link, waits
for a pipe or copies what it does not know. What grading and nbgrader read afterwards is in a folder that only this
module writes: notebooks rebuilt from the release and from what a learner wrote into it. Imports no torch.
"""

from __future__ import annotations

import copy
import hashlib
import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
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
    """What one student handed in for one unit.

    Attributes:
        student: the name of the student's folder.
        unit: the name of the assignment's folder.
        notebooks: names without suffix of the notebooks of this assignment that are there, whatever they are.
        others: names of what else is there.
    """

    student: str
    unit: str
    notebooks: tuple[str, ...]
    others: tuple[str, ...]


def check_student(name: str) -> None:
    """Refuse a name that could be taken for something else.

    Raises:
        IntakeError: it has other characters than letters, digits, spaces and `. _ ' @ + = -`, or is longer than 64.
    """
    if not STUDENT_NAME.fullmatch(name):
        raise IntakeError(
            f"{one_line(ascii(name), 80)} cannot be a student's name: expected letters, digits, spaces and "
            ". _ ' @ + = -, a letter or a digit first, at most 64 of them; rename the folder"
        )


def handed_in(course: Course) -> Iterator[tuple[str, str]]:
    """(student, unit) of every folder that was handed in, in order. Links are no folders of anybody."""
    for student in _names(course.submitted):
        for unit in _names(course.submitted / student):
            yield student, unit


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


def look_into(course: Course, student: str, unit: str) -> Folder:
    """What lies in the folder of one submission.

    Raises:
        IntakeError: it is no folder, or the student's name is none.
    """
    check_student(student)
    released = {path.stem for path in (course.curriculum / unit).glob("*.ipynb")}
    with _opened(course, student, unit) as folder:
        names = sorted(os.listdir(folder))
    notebooks = tuple(stem for name in names if (stem := name.removesuffix(".ipynb")) != name and stem in released)
    # nbgrader lays the last one beside what is handed in through its exchange.
    kept = {f"{stem}.ipynb" for stem in notebooks} | {"timestamp.txt", "submission_secret.txt"}
    return Folder(student, unit, notebooks, tuple(name for name in names if name not in kept))


def content_of(course: Course, student: str, unit: str, file: str) -> bytes:
    """The bytes of one file that was handed in.

    Raises:
        UnreadableNotebookError: it is a link, no regular file, or too large.
    """
    with _opened(course, student, unit) as folder:
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


@dataclass(frozen=True)
class HandedIn:
    """What lay in a submission's folder at one moment. Grading looks at nothing else of it.

    Attributes:
        folder: what it holds.
        contents: the bytes of each notebook, or why it has none, by name.
        when: when it was handed in (see `handed_in_at`), or `None`.
        changed: when the notebooks were last written, which is asked only where there is no `when`.
    """

    folder: Folder
    contents: dict[str, bytes | UnreadableNotebookError]
    when: datetime | None
    changed: datetime

    @property
    def fingerprint(self) -> str:
        """Changes with every submission: a hash over the notebooks and the time at which they were handed in."""
        hasher = hashlib.sha256(repr(self.when).encode())
        for name, content in self.contents.items():
            kept = _bytes_of(content)
            hasher.update(f"{name}\0{len(kept)}\0".encode() + kept)
        hasher.update(repr(self.folder.others).encode())
        return hasher.hexdigest()

    def digest(self, name: str) -> str:
        """SHA-256 of one notebook's bytes (of the reason, where they cannot be read)."""
        return hashlib.sha256(_bytes_of(self.contents[name])).hexdigest()

    @property
    def received_at(self) -> datetime:
        """When it was handed in, as far as that can be known."""
        return self.when or self.changed


def _bytes_of(content: bytes | UnreadableNotebookError) -> bytes:
    return content if isinstance(content, bytes) else str(content).encode()


def read_submission(course: Course, student: str, unit: str) -> HandedIn:
    """Read what one student handed in for one unit.

    Raises:
        IntakeError: it is no folder, the student's name is none, or it cannot be read.
    """
    try:
        folder = look_into(course, student, unit)
        contents: dict[str, bytes | UnreadableNotebookError] = {}
        changed = 0.0
        for name in folder.notebooks:
            try:
                contents[name] = content_of(course, student, unit, f"{name}.ipynb")
            except UnreadableNotebookError as error:
                contents[name] = error
            with _opened(course, student, unit) as descriptor:
                changed = max(changed, os.stat(f"{name}.ipynb", dir_fd=descriptor, follow_symlinks=False).st_mtime)
        return HandedIn(folder, contents, handed_in_at(course, folder), datetime.fromtimestamp(changed, UTC))
    except OSError as error:
        where = f"{one_line(student, 80)}/{one_line(unit, 80)}"
        raise IntakeError(
            f"{where}: this submission cannot be read ({error.strerror}); give this user the right to read it"
        ) from error


def released(course: Course, unit: str, name: str) -> NotebookNode:
    """A notebook as it was handed out, read once as long as its file stays what it is; a copy of one's own.

    Raises:
        UnreadableNotebookError: see `read_notebook`.
    """
    path = course.curriculum / unit / f"{name}.ipynb"
    state = path.stat() if path.exists() else None
    return copy.deepcopy(_read_once(path, None if state is None else (state.st_mtime_ns, state.st_size, state.st_ino)))


@lru_cache(maxsize=16)
def _read_once(path: Path, state: tuple[int, int, int] | None) -> NotebookNode:
    return read_notebook(path)


def received(
    course: Course, student: str, unit: str, name: str, content: bytes | UnreadableNotebookError | None = None
) -> NotebookNode:
    """One notebook that was handed in, rebuilt on the released one; problems with it are noted in its metadata.

    What cannot be read becomes the released notebook, and the note says that it was unreadable.

    Args:
        course: the course.
        student: whose it is.
        unit: the assignment's folder.
        name: the notebook's name.
        content: its bytes, or why it has none; `None` reads them.
    """
    release = released(course, unit, name)
    try:
        if content is None:
            content = content_of(course, student, unit, f"{name}.ipynb")
        if isinstance(content, UnreadableNotebookError):
            raise content
        notebook = parse_notebook(f"{name}.ipynb", content)
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


def rebuilt(course: Course, submission: HandedIn) -> dict[str, NotebookNode]:
    """The notebooks of a submission by name, each rebuilt on the released one (see `received`)."""
    folder = submission.folder
    found = {}
    for name, content in submission.contents.items():
        notebook = received(course, folder.student, folder.unit, name, content)
        if folder.others:
            notebook.metadata[PROBLEMS_KEY]["problems"].append(_left_aside(folder.others))
        found[name] = notebook
    return found


def take_in(course: Course, submission: HandedIn, notebooks: dict[str, NotebookNode]) -> None:
    """Fill this submission's folder of `course.received` anew, and only with what this module made.

    Raises:
        OSError: it cannot be written.
    """
    folder = submission.folder
    target = course.received / folder.student / folder.unit
    if target.exists():
        shutil.rmtree(target)
    target.mkdir(parents=True)
    for name, notebook in notebooks.items():
        write_whole(target / f"{name}.ipynb", nbformat.writes(notebook))
    if submission.when is not None:
        write_whole(target / "timestamp.txt", submission.when.strftime(TIMESTAMP_FORMAT))


def _left_aside(names: tuple[str, ...]) -> str:
    shown = ", ".join(one_line(ascii(name)[1:-1], 60) for name in names[:NAMES_SHOWN])
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return f"only the notebooks of the assignment are graded; left aside: {shown}{more}"


def handed_in_at(course: Course, folder: Folder) -> datetime | None:
    """When a submission was handed in: what its timestamp says, or else when its notebook was last written.

    `None` when there is no timestamp, which is then the case for all that nbgrader knows of its time.
    """
    try:
        content = content_of(course, folder.student, folder.unit, "timestamp.txt")[:TIMESTAMP_BYTES]
    except UnreadableNotebookError:
        content = b"none that can be read"
    except FileNotFoundError:
        return None
    try:
        when = parse_utc(content.decode(errors="replace"))
        return when if when.tzinfo is not None else when.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        with _opened(course, folder.student, folder.unit) as descriptor:
            state = os.stat("timestamp.txt", dir_fd=descriptor, follow_symlinks=False)
        return datetime.fromtimestamp(state.st_mtime, UTC)
