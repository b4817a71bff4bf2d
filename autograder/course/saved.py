"""Reading what JupyterLab may be saving at this very moment. Imports no torch.

A notebook server does not replace a file at one stroke: it copies the old content beside it (`.~NAME`), empties the
file, writes the new content into it and removes the copy (`jupyter_server.services.contents.fileio`). Who reads
meanwhile, because you pressed Ctrl+S and ran `submit(...)` in one breath, would find half a notebook or none.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from nbformat import NotebookNode

from autograder.course.reading import UnreadableNotebookError, parse_notebook, read_content

LONGEST_SAVE = 10.0
"""How long a save may take, in seconds. A copy that lies there longer was left by a server that died while saving."""

STEP = 0.02
"""Seconds between two looks."""


def state_of(path: Path) -> tuple[int, int, int] | None:
    """What changes when a file is written: its time (ns), size (bytes) and number; `None` where there is no file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def being_saved(path: Path) -> bool:
    """Whether the server's copy beside the file says that it is writing the file now."""
    # The server writes to where a link leads, and puts its copy there.
    target = path.resolve()
    try:
        begun = os.lstat(target.parent / f".~{target.name}").st_ctime
    except OSError:
        return False
    return time.time() - begun < LONGEST_SAVE


def saved_content(path: Path) -> bytes:
    """The bytes of a notebook's file, whole: a save that is on its way is waited for.

    Args:
        path: the file.

    Raises:
        UnreadableNotebookError: as `read_content` raises it, or the file changes all the time.
    """
    end = time.monotonic() + 2 * LONGEST_SAVE
    while True:
        before = state_of(path)
        if not being_saved(path):
            content = read_content(path)
            if not being_saved(path) and state_of(path) == before:
                return content
        if time.monotonic() > end:
            raise UnreadableNotebookError(
                f"{path.name}: this file is being written all the time; wait until it is saved, and try again"
            )
        time.sleep(STEP)


def saved_notebook(path: Path) -> NotebookNode:
    """A notebook of the workspace, read when no save is under way (see `saved_content` and `parse_notebook`).

    Raises:
        UnreadableNotebookError: as for `saved_content` and `parse_notebook`.
    """
    return parse_notebook(path.name, saved_content(path))
