"""Where the commands write."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path


@contextmanager
def prints_to_stderr(wanted: bool) -> Iterator[None]:
    """Lead what is printed inside to stderr, if `wanted`, so that the JSON of a command is all that stdout gets.

    A model, a factory or a pass is somebody's code and may print what it likes: with `print`, from C++, or by a process
    that it starts. So the file descriptor is led there, too.
    """
    if not wanted or sys.stdout is None or sys.stderr is None:  # closed, as by `fxopt … >&-`
        yield
        return
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        # What was printed past Python's `sys.stdout` may still wait in a buffer, Python's own or that of C.
        for stream in (sys.stdout, sys.__stdout__):
            if stream is not None:
                stream.flush()
        ctypes.CDLL(None).fflush(None)
        os.dup2(kept, 1)
        os.close(kept)


def check_file(path: Path | None, endings: tuple[str, ...] = ()) -> None:
    """Say before the work that its result could not be written.

    Args:
        path: of the file; `None` where none was asked for.
        endings: how its name may end; without any, it may end as it likes.

    Raises:
        ValueError: the name has another ending.
        OSError: naming the path and what is in the way.
    """
    if path is None:
        return
    if endings and path.suffix not in endings:
        raise ValueError(f"{path}: expected a name that ends in {' or '.join(endings)}.")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; expected the name of a file.")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path}: the folder {path.parent} does not exist; create it first.")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise PermissionError(f"{path} cannot be written; choose another place.")


def check_folder(path: Path | None) -> None:
    """Say before the work that a folder for its results could not be made; one that is there is used.

    Raises:
        OSError: naming the path and what is in the way.
    """
    if path is None:
        return
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(f"{path} is a file; expected a folder.")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path}: the folder {path.parent} does not exist; create it first.")
