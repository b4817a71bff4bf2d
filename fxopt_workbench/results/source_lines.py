"""The line of Python that a node of a graph comes from, as it is known and as it is shown."""

from __future__ import annotations

import re
from pathlib import Path

import torch

_TORCH = str(Path(torch.__file__).parent)
_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+).*\n\s*(?P<code>.+)')
_CELL = re.compile(r"^.*[/\\]ipykernel_\d+[/\\]\d+\.py(?=:\d+: )")
_FOLDERS = re.compile(r"^.*[/\\](?=[^/\\]*:\d+: )")


def source_line(stack_trace: str | None) -> str | None:
    """The innermost line outside PyTorch of a node's `stack_trace`: file, line and text; `None` if there is none."""
    frames = list(_FRAME.finditer(stack_trace or ""))
    if not frames:
        return None
    own = [frame for frame in frames if not frame["file"].startswith(_TORCH)]
    frame = (own or frames)[-1]
    return f"{frame['file']}:{frame['line']}: {frame['code'].strip()}"


def without_folders(source: str | None) -> str:
    """A source line to show: without the folders of its file, a cell of a notebook as such; `not kept` for `None`."""
    return "not kept" if source is None else _FOLDERS.sub("", _CELL.sub("notebook cell", source))
