"""A canary for decoding and running hostile graphs: what Python's audit events say was reached meanwhile.

Audit hooks cannot be removed, so there is one, and it records only inside `watching`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_PREFIXES = ("os.", "subprocess.", "socket.", "shutil.", "ctypes.", "tempfile.", "pickle.", "urllib.", "webbrowser.")
_NAMES = ("open", "code.__new__", "marshal.loads", "builtins.input", "builtins.breakpoint", "sys.addaudithook")

_records: list[str] | None = None


def _is_torch_own(event: str, arguments: tuple[Any, ...]) -> bool:
    """The wrapper that torch makes of a branch when it differentiates `torch.cond`: a constant but for the number."""
    if event == "compile":
        source = arguments[0].decode() if isinstance(arguments[0], bytes) else arguments[0]
        return (
            isinstance(source, str) and re.fullmatch(r"lambda (arg\d+(, )?)*: fn\((arg\d+(, )?)*\)", source) is not None
        )
    if event == "exec":
        return arguments[0].co_filename == "<string>" and arguments[0].co_names == () and arguments[0].co_argcount == 0
    return False


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if _records is None:
        return
    foreign = event in _NAMES or event.startswith(_PREFIXES)
    if _is_torch_own(event, arguments):
        return
    if event == "import":
        foreign = not str(arguments[0]).startswith("torch.")
    elif event == "exec":
        foreign = not arguments[0].co_filename.startswith("<eval_with_key>")
    elif event == "compile":
        # torch.fx's own code, and the reading of it by ast.parse, which compiles nothing.
        foreign = arguments[1] is None or not str(arguments[1]).startswith(("<eval_with_key>", "<unknown>"))
    elif event == "open":
        # Stack traces quote source lines; for the message of a syntax error CPython looks for a file of that name.
        path, mode = str(arguments[0]), arguments[1]
        foreign = mode not in ("r", "rb") or not (
            path.startswith(("<eval_with_key>", "<unknown>")) or path.endswith(".py")
        )
    if foreign:
        _records.append(f"{event}{arguments!r:.200}")


sys.addaudithook(_hook)


@contextmanager
def watching() -> Iterator[list[str]]:
    """Collects the foreign events that happen within."""
    global _records
    records: list[str] = []
    _records = records
    try:
        yield records
    finally:
        _records = None
