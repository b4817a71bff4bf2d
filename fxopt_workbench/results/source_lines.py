"""A source line as it is shown."""

from __future__ import annotations

import re

_CELL = re.compile(r"^.*[/\\]ipykernel_\d+[/\\]\d+\.py(?=:\d+: )")
_FOLDERS = re.compile(r"^.*[/\\](?=[^/\\]*:\d+: )")


def without_folders(source: str | None) -> str:
    """A source line to show: without the folders of its file, a cell of a notebook as such; `not kept` for `None`."""
    return "not kept" if source is None else _FOLDERS.sub("", _CELL.sub("notebook cell", source))
