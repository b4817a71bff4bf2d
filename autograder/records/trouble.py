"""What can go wrong with what is recorded, each in one line that names the file and says what to do.

Imports no torch.
"""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from autograder.exchange.verdict import one_line

LINE = 300
"""Most characters of another program's words in a line of ours."""


class RecordsError(RuntimeError):
    """Grades cannot be recorded or read; the message is one line that names the file and says what to do."""


def shown(url: str) -> str:
    """A database as a person knows it: the file of an SQLite database, else its URL without the password."""
    address = make_url(url)
    if address.get_backend_name() == "sqlite":
        return str(address.database)
    return address.render_as_string(hide_password=True)


@contextmanager
def explained(url: str, folder: Path) -> Iterator[None]:
    """Inside, an error of the database or of a file becomes a `RecordsError`.

    Args:
        url: the database's URL.
        folder: what is named when the system does not say which file it was.

    Raises:
        RecordsError: with a line about the error that it comes from.
    """
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error, OSError) as error:
        raise explain(error, url, folder) from error


def explain(error: BaseException, url: str, folder: Path) -> RecordsError:
    """The line about an error of a database or a file."""
    if isinstance(error, DBAPIError) and error.orig is not None:
        error = error.orig
    if isinstance(error, OSError):
        name = error.filename2 or error.filename
        subject, (what, remedy) = str(name) if name is not None else f"a file in {folder}", _of_file(error)
    elif isinstance(error, sqlite3.Error):
        subject = shown(url)
        what, remedy = _of_sqlite(error, Path(subject))
    else:
        subject, (what, remedy) = shown(url), _of_server(error)
    return RecordsError(f"{subject}: {what}; {remedy}, and run this again. What was recorded before is kept")


_NO_SPACE = "no space is left on its disk", "free some"
_OTHER_TABLES = "put a copy of it back"


def _of_file(error: OSError) -> tuple[str, str]:
    """What is wrong, and what to do."""
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            return _NO_SPACE
        case errno.EFBIG:
            return "it would be larger than this process may write", "raise the limit (`ulimit -f`)"
        case errno.EROFS:
            return "its file system is read-only", "make it writable, or move the course"
        case errno.EACCES | errno.EPERM:
            return "no permission", "give this user the right to read and write it"
        case errno.EISDIR:
            return "this is a folder where a file belongs", "move it away"
        case errno.ENOTDIR | errno.EEXIST:
            return "there is a file where a folder belongs", "move it away"
        case errno.ENOENT:
            return "it is missing, or was removed meanwhile", "bring it back"
    return _words(error), "mend that"


def _of_sqlite(error: sqlite3.Error, file: Path) -> tuple[str, str]:
    name = getattr(error, "sqlite_errorname", "")
    if name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
        return DAMAGED.format(why=_words(error)), REMEDY
    if name.startswith("SQLITE_FULL"):
        return _NO_SPACE
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return "another program holds this gradebook locked", "close that program (a database browser?)"
    if name.startswith(("SQLITE_READONLY", "SQLITE_PERM", "SQLITE_AUTH")):
        what = "the gradebook (or what lies beside it: -wal, -shm) or its folder is read-only"
        return what, "give this user the right to write"
    if name.startswith("SQLITE_CANTOPEN") and file.is_dir():
        return "this is a folder where the gradebook's file belongs", "move it away"
    if name.startswith("SQLITE_CANTOPEN"):
        return "the gradebook cannot be opened", "give this user the right to read and write it and its folder"
    if name.startswith("SQLITE_IOERR"):
        return f"the gradebook cannot be read or written ({_words(error)})", "look whether its disk is full or broken"
    return f"the gradebook's tables are not as they must be ({_words(error)})", _OTHER_TABLES


DAMAGED = "this is not a gradebook, or a damaged one ({why})"
REMEDY = "put a copy of it back, or move it away (all is then graded again, but points that people gave are lost)"


def _of_server(error: BaseException) -> tuple[str, str]:
    state = getattr(error, "sqlstate", None) or ""
    if state == "53100":
        return "no space is left on the disk of the database", "free some"
    if state == "42501":
        return f"this user may not write here ({_words(error)})", "grant it the right"
    if state == "25006":
        return "the database is read-only", "name the one that is written to"
    if state.startswith("42"):
        return f"the gradebook's tables are not as they must be ({_words(error)})", _OTHER_TABLES
    # The driver gives no state of a connection that was refused, only the server's words.
    if "does not exist" in str(error):
        return f"there is no such database or user ({_words(error)})", "create it, or correct the URL"
    if "authentication failed" in str(error) or "no password" in str(error):
        return "the server refuses this user", "correct the name or the password"
    return f"the database does not answer ({_words(error)})", "start it, or correct its URL"


def _words(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return one_line(error, LINE)
