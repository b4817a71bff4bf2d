"""One grader at a time: a lock on the course that ends with its holder, however that ends. Imports no torch."""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
from sqlalchemy import text
from sqlalchemy.engine import Engine

from autograder.course.course import Course
from autograder.exchange.verdict import one_line
from autograder.records.database import connect

GRADING_LOCK = 0x66786F707400
"""Key of PostgreSQL's advisory lock on the course whose gradebook a database holds."""

_SINCE = "%Y-%m-%d %H:%M:%S"

_held: set[Path] = set()


class CourseLockedError(RuntimeError):
    """Another process is grading this course; the message is one line that says which, and what to do."""


@contextmanager
def course_lock(course: Course, wait: bool = False) -> Iterator[None]:
    """Hold the course, so that no other process grades it. Inside, the same process may take it again.

    Two locks that the system takes back from a process that ends, by a kill too: on a file in the course's folder, and
    where the gradebook is on a PostgreSQL server, on that, for graders on other machines.

    Args:
        course: the course.
        wait: whether to wait until another grader is done.

    Raises:
        CourseLockedError: another process holds it.
        OSError: the file cannot be written.
    """
    path = _file(course)
    if path in _held:
        yield
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    # Never removed: a second grader could then lock a new file while the first one holds the old one.
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise CourseLockedError(_refusal(_read(path))) from None
        with _server_lock(course.database, wait):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps(_ourselves()).encode(), 0)
            _held.add(path)
            try:
                yield
            finally:
                _held.discard(path)
                os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def is_graded_now(course: Course) -> bool | None:
    """Whether a grader is at work on the course; `None` when that cannot be told from here.

    Reads what the holder of the lock has noted and takes no lock itself, so it never holds a grader up. Of graders on
    other machines it knows nothing.
    """
    holder = _read(_file(course))
    here = holder.get("machine") == socket.gethostname()
    if here and _lives(holder):
        return True
    return False if course.database.startswith("sqlite") and (here or not holder) else None


def _lives(holder: dict[str, Any]) -> bool:
    """Whether a process that held the lock is still there, and not another one that got its number after it ended."""
    try:
        began = datetime.fromtimestamp(psutil.Process(int(holder["process"])).create_time())
        return began <= datetime.strptime(str(holder["since"]), _SINCE) + timedelta(minutes=1)
    except (psutil.Error, KeyError, ValueError, TypeError):
        return False


def _file(course: Course) -> Path:
    return (course.records / "grading.lock").resolve()


def _ourselves() -> dict[str, Any]:
    return {"process": os.getpid(), "machine": socket.gethostname(), "since": datetime.now().strftime(_SINCE)}


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):  # it is being written just now, or belongs to another user
        return {}
    return found if isinstance(found, dict) else {}


def _refusal(holder: dict[str, Any]) -> str:
    who = ""
    if {"process", "machine", "since"} <= set(holder):
        who = " " + one_line(f"(process {holder['process']} on {holder['machine']}, since {holder['since']})", 200)
    return f"another grader is at work on this course{who}; let it finish, or wait for it with `fxopt grade --wait`"


@contextmanager
def _server_lock(url: str, wait: bool) -> Iterator[None]:
    if url.startswith("sqlite"):
        yield
        return
    engine: Engine = connect(url)
    try:
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            ask = "pg_advisory_lock" if wait else "pg_try_advisory_lock"
            got = connection.execute(text(f"SELECT {ask}(:key)"), {"key": GRADING_LOCK}).scalar()
            if got is False:
                raise CourseLockedError(_refusal({}))
            yield  # the lock ends with this connection
    finally:
        engine.dispose()
