"""Where the commands write."""

from __future__ import annotations

import os
from pathlib import Path


def check_file(path: Path | None, endings: tuple[str, ...]) -> None:
    """Say before the work that its result could not be written.

    Raises:
        ValueError: the name has another ending.
        OSError: naming the path and what is in the way.
    """
    if path is None:
        return
    if path.suffix not in endings:
        raise ValueError(f"{path}: expected a name that ends in {' or '.join(endings)}.")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; expected the name of a file.")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path}: the folder {path.parent} does not exist; create it first.")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise PermissionError(f"{path} cannot be written; choose another place.")
