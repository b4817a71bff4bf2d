"""nbgrader's exchange: a shared folder through which a class gets assignments and hands them in. Imports no torch.

nbgrader does the work; what is different is collecting. Learners write into the exchange, with their own rights, what
an instructor's process then reads with its own: nbgrader's `collect` follows links there (to the seed, the solutions,
another's answers) and takes a submission in anybody's name. Here only regular files with the assignment's names are
copied, a link stays a link (which grading refuses, and says so), and a submission belongs to whom its folder belongs.
"""

from __future__ import annotations

import logging
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from nbgrader.auth import Authenticator
from nbgrader.coursedir import CourseDirectory
from nbgrader.exchange import ExchangeError, default
from nbgrader.utils import find_owner

from autograder.course.course import Course, course_config
from autograder.course.reading import SIZE_LIMIT, UnreadableNotebookError, read_descriptor
from autograder.course.task import UNITS, Task, WrittenTask
from autograder.course.tasks import all_tasks, written_tasks
from autograder.records.intake import IntakeError, check_student, content_of, look_into
from fxopt_workbench.files import write_whole

SECRET = "submission_secret.txt"
"""What a learner's feedback is found by: nbgrader writes it at submission, and hands feedback out under its hash."""

SECRET_BYTES = 1000

NAMES_SHOWN = 8
"""How many students a line names."""

LATE_CLAIM_SECONDS = 300.0
"""A submission that reached the exchange so long after the time it claims is remarked on."""

Step = Literal["release", "fetch", "submit", "collect", "feedback", "fetch-feedback"]


class CourseExchangeError(RuntimeError):
    """A step of the exchange failed; the message is what nbgrader said, in one line."""


_NO_PAGE = re.compile(r"Could not find feedback for '(?:[^']*/)?([^'/]+)' submitted")


class SafeCollect(default.ExchangeCollect):
    """nbgrader's collecting, with eyes open for what learners may have put into the exchange."""

    def init_src(self) -> None:
        """Find the submissions; those in another's name, or in no student's, are left where they are."""
        super().init_src()
        self.src_records: list[dict[str, Any]] = self.src_records
        kept = []
        for record in self.src_records:
            folder, who = Path(self.inbound_path) / record["filename"], record["username"]
            try:
                check_student(who)
            except IntakeError as error:
                self.log.error(str(error))
                continue
            if folder.is_symlink() or not folder.is_dir():
                self.log.error("%s: this is not a folder, so it was left where it is", record["filename"])
                continue
            owner = _owner(folder)
            if self.check_owner and owner != who:
                self.log.error(
                    "%s claims to be from %s but belongs to %s, and was left where it is (where everybody's folders "
                    "belong to one account, say --any-owner)",
                    record["filename"],
                    who,
                    owner,
                )
                continue
            arrived = datetime.fromtimestamp(folder.stat().st_ctime, UTC)
            claimed = record["timestamp"].replace(tzinfo=UTC)
            if (arrived - claimed).total_seconds() > LATE_CLAIM_SECONDS:
                self.log.warning(
                    "%s says %s and reached the exchange at %s",
                    who,
                    claimed.isoformat(timespec="seconds"),
                    arrived.isoformat(timespec="seconds"),
                )
            kept.append(record)
        self.src_records = kept

    def do_copy(self, src: str, dest: str, log: Any = None) -> None:
        """Copy the regular files of one submission that have names of this assignment."""
        graded = [f"{name}.ipynb" for name in sorted(graded_notebooks(self.coursedir.assignment_id))]
        names = [*graded, "timestamp.txt", SECRET]
        Path(dest).mkdir(parents=True)
        for name in names:
            source = Path(src) / name
            try:
                kind = source.lstat().st_mode
            except FileNotFoundError:
                continue
            if stat.S_ISLNK(kind):
                # As it is: grading says to its owner that it is a link.
                os.symlink(os.readlink(source), Path(dest) / name)
                continue
            try:
                descriptor = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
                content = read_descriptor(descriptor, name, own_links_only=True)
            except (OSError, UnreadableNotebookError) as error:
                self.log.error("%s: %s was left where it is: %s", Path(src).name, name, error)
                continue
            write_whole(Path(dest) / name, content[:SIZE_LIMIT])


def graded_notebooks(unit: str) -> set[str]:
    """Names of the notebooks of an assignment that are graded: of lessons, handed in with the rest, nothing is."""
    tasks: list[Task | WrittenTask] = [*all_tasks(), *written_tasks()]
    return {task.notebook for task in tasks if UNITS[task.unit] == unit}


def _owner(folder: Path) -> str:
    try:
        owner: str = find_owner(str(folder))
    except KeyError:
        return f"user {folder.stat().st_uid}"
    return owner


def run_step(
    course: Course, step: Step, unit: str, *, student: str | None = None, any_owner: bool = False, force: bool = False
) -> list[str]:
    """One step of the exchange for one assignment; what there is to say about it, line by line.

    Args:
        course: the course.
        step: `release` and `collect` are the instructor's, `feedback` too; `fetch`, `submit` and `fetch-feedback` a
            learner's, with files in the workspace.
        unit: the assignment (folder name).
        student: in whose name; `None` for the account's own, or for all students.
        any_owner: collect also where the account that owns a submission is not its student.
        force: release again what was released.

    Raises:
        CourseExchangeError: nbgrader refused.
    """
    # nbgrader's paths lead through it, also where there is nothing in it yet.
    course.records.mkdir(parents=True, exist_ok=True)
    config = course_config(course)
    config.CourseDirectory.assignment_id = unit
    if student is not None:
        config.CourseDirectory.student_id = student
    config.Exchange.root = str(course.exchange)
    config.Exchange.cache = str(course.workspace / ".fxopt" / "exchange")
    config.Exchange.assignment_dir = str(course.workspace)
    config.ExchangeCollect.update = True
    config.ExchangeCollect.check_owner = not any_owner
    config.ExchangeReleaseAssignment.force = force
    # What a learner changed stays: only what is missing is brought.
    config.ExchangeFetchAssignment.replace_missing_files = True
    directory = CourseDirectory(config=config)
    kinds = {
        "release": default.ExchangeReleaseAssignment,
        "fetch": default.ExchangeFetchAssignment,
        "submit": default.ExchangeSubmit,
        "collect": SafeCollect,
        "feedback": default.ExchangeReleaseFeedback,
        "fetch-feedback": default.ExchangeFetchFeedback,
    }
    others: list[str] = []
    if step == "feedback":
        others = _bring_secrets(course, unit)
        directory.student_id_exclude = ",".join(others)
    transfer = kinds[step](coursedir=directory, authenticator=Authenticator(config=config), config=config)
    with _listening(transfer.log) as said:
        try:
            transfer.start()
        except (ExchangeError, OSError, RuntimeError) as error:
            last = str(error) or (said[-1] if said else type(error).__name__)
            raise CourseExchangeError(f"{step} {unit}: {last}") from error
    # nbgrader misses a page for each lesson, too.
    missing = [(line, _NO_PAGE.search(line)) for line in said]
    said = [line for line, found in missing if found is None or found[1] in graded_notebooks(unit)]
    if others:
        said.append(
            f"{len(others)} did not hand in through the exchange; their pages are in {course.feedback}: "
            + ", ".join(others[:NAMES_SHOWN])
            + (" …" if len(others) > NAMES_SHOWN else "")
        )
    return said


def _bring_secrets(course: Course, unit: str) -> list[str]:
    """Put beside each page of feedback by what nbgrader knows its owner; the students for whom there is nothing."""
    without = []
    for folder in sorted(course.feedback.glob(f"*/{unit}")):
        student = folder.parent.name
        found = {}
        for name in ("timestamp.txt", SECRET):
            try:
                look_into(course, student, unit)
                found[name] = content_of(course, student, unit, name)[:SECRET_BYTES]
            except (IntakeError, UnreadableNotebookError, OSError):
                break
        if len(found) < 2:
            without.append(student)
        for name, content in found.items() if len(found) == 2 else ():
            write_whole(folder / name, content)
    return without


@contextmanager
def _listening(logger: logging.Logger) -> Iterator[list[str]]:
    """What nbgrader says at the level of a warning or above, and how many submissions it took."""
    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(" ".join(record.getMessage().split()))  # type: ignore[method-assign]
    handler.setLevel(logging.WARNING)
    logger.addHandler(handler)
    propagate, logger.propagate = logger.propagate, False
    level = logger.level
    # All of nbgrader has one logger, whose level others set.
    logger.setLevel(logging.WARNING)
    try:
        yield said
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate
