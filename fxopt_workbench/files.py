"""Files that appear whole or not at all, whoever reads meanwhile and whatever breaks off. Imports no torch."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(target: Path, scratch: Path | None = None) -> Iterator[Path]:
    """A temporary path to write to, which takes the place of `target` at the end; after an error nothing is left.

    Args:
        target: the file that appears, or is replaced.
        scratch: the folder of the temporary path, on the same file system; `None` takes that of `target`.

    Raises:
        OSError: the folder cannot be written to.
    """
    handle, name = tempfile.mkstemp(dir=scratch or target.parent, prefix=f".{target.name}.")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb") as written:
            # Else a machine that stops now may leave a file of the new name without the new content.
            os.fsync(written.fileno())
        # mkstemp makes a file that only its owner may read; this gets the usual mode.
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def write_whole(target: Path, content: str | bytes, scratch: Path | None = None) -> None:
    """Write a file so that a reader sees the old content or the new one, never a part; makes its folder.

    Args:
        target: the file.
        content: what it holds then; text as UTF-8.
        scratch: as for `replacing`.

    Raises:
        OSError: it cannot be written.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with replacing(target, scratch) as temporary:
            temporary.write_bytes(content.encode() if isinstance(content, str) else content)
    except OSError as error:
        # Of a full disk the system does not say which file it was, and a temporary name helps nobody.
        if error.filename is None or Path(error.filename).parent in (target.parent, scratch):
            error.filename = str(target)
        raise
