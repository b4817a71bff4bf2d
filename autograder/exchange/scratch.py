"""Temporary folders that do not outlive their process for long, however it ended. Imports no torch.

Each process that grades has one folder, in which all its temporary ones lie, and holds a lock on it. The system takes
the lock back from a process that was killed, and the next one to begin removes what has no holder.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from multiprocessing.util import Finalize
from pathlib import Path

PREFIX = "fxopt-run-"

PARENT = Path("/tmp")
"""Paths of sockets must be short (about 100 bytes), which those below another temporary folder may not be."""

_own: tuple[int, Path, int] | None = None


def scratch_folder(prefix: str) -> tempfile.TemporaryDirectory[str]:
    """A temporary folder that only this user can enter; for sockets, too."""
    return tempfile.TemporaryDirectory(prefix=prefix, dir=_own_folder())


def _own_folder() -> Path:
    """This process's folder. A forked process gets another one than its parent."""
    global _own
    if _own is not None and _own[0] == os.getpid() and _own[1].is_dir():
        return _own[1]
    remove_leftovers()
    while True:
        path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=PARENT))
        with suppress(FileNotFoundError):
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # Another process may have taken it for a leftover before it was locked.
            if path.is_dir() and os.path.samestat(os.fstat(descriptor), path.stat()):
                break
            os.close(descriptor)
    _own = os.getpid(), path, descriptor
    # Runs in processes of `multiprocessing` too, where `atexit` does not; after what ends the graders.
    Finalize(None, _remove_own, args=(os.getpid(), path, descriptor), exitpriority=1)
    return path


def _remove_own(process: int, path: Path, descriptor: int) -> None:
    if process == os.getpid():
        shutil.rmtree(path, ignore_errors=True)
        os.close(descriptor)


def remove_leftovers() -> list[Path]:
    """Remove this user's folders whose processes are gone; what was removed."""
    removed = []
    for path in PARENT.glob(f"{PREFIX}*"):
        try:
            if path.stat(follow_symlinks=False).st_uid != os.geteuid():
                continue
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:  # it is gone already, or no folder
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
            removed.append(path)
        except BlockingIOError:
            continue  # its process is alive
        finally:
            os.close(descriptor)
    return removed
