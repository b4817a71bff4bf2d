"""The reference of `fxopt_core`: a page a package, from its docstrings. Holds a small Sphinx extension."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

from fxopt_workbench.files import write_whole

PACKAGES = (
    "fxopt_core.capture",
    "fxopt_core.passes",
    "fxopt_core.optimizer",
    "fxopt_core.backend",
    "fxopt_core.verification",
    "fxopt_core.graphs",
    "fxopt_core.costs",
    "fxopt_core.benchmark",
)
"""What a user imports from, in the order of the walk from a model to a measured result."""


def write_reference(folder: Path) -> list[str]:
    """Write a page for each package, which documents every name of its `__all__`.

    Returns:
        The paths of the pages on the website, without suffix.
    """
    pages = []
    told: set[int] = set()
    for package in PACKAGES:
        module = import_module(package)
        exports = getattr(module, "__all__", None) or sorted(
            name
            for name, value in vars(module).items()
            if getattr(value, "__module__", "") == package and name[0] != "_"
        )
        lines = [package, "=" * len(package), "", f".. automodule:: {package}", "   :no-members:", ""]
        for name in exports:
            value = getattr(module, name)
            # What two packages offer is listed by both, and found by the search once.
            again = ["   :no-index:"] if id(value) in told else []
            told.add(id(value))
            if isinstance(value, type):
                lines += [f".. autoclass:: {package}.{name}", "   :members:", *again, ""]
            elif callable(value):
                lines += [f".. autofunction:: {package}.{name}", *again, ""]
            else:
                words = as_restructured_text(words_of(value, name).splitlines())
                lines += [f".. py:data:: {package}.{name}", *again, "", *(f"   {line}" for line in words), ""]
        write_whole(folder / "reference" / f"{package}.rst", "\n".join(lines))
        pages.append(f"reference/{package}")
    return pages


def words_of(value: Any, name: str) -> str:
    """The string below the assignment of a constant, in whichever module of the core makes it.

    Raises:
        LookupError: no module of the core assigns it with such a string.
    """
    for path, module in list(sys.modules.items()):
        if not path.startswith("fxopt_core") or getattr(module, name, None) is not value:
            continue
        body = ast.parse(inspect.getsource(module)).body
        for assignment, below in pairwise(body):
            targets = (
                assignment.targets if isinstance(assignment, ast.Assign) else [getattr(assignment, "target", None)]
            )
            named = any(isinstance(target, ast.Name) and target.id == name for target in targets)
            if named and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
                return inspect.cleandoc(str(below.value.value))
    raise LookupError(f"{name} has no docstring below its assignment")


def setup(app: Sphinx) -> dict[str, Any]:
    """Read our docstrings as they are meant: see `as_restructured_text`."""
    # Before napoleon (500), which looks for colons and has to see what is code.
    app.connect("autodoc-process-docstring", _rewrite, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _rewrite(app: Sphinx, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    lines[:] = as_restructured_text(lines)


def as_restructured_text(lines: list[str]) -> list[str]:
    """The lines of one of our docstrings, in which single backticks are code and everything else means itself.

    A list may begin right below a sentence; reStructuredText wants a blank line between.
    """
    found: list[str] = []
    for line in lines:
        begins = line.lstrip().startswith("- ")
        before = found[-1] if found else ""
        same_depth = len(before) - len(before.lstrip()) <= len(line) - len(line.lstrip())
        if begins and before.strip() and not _in_list(found) and same_depth:
            found.append("")
        pieces = re.split(r"(`[^`]+`)", line)
        # Outside of code these would begin emphasis, a substitution or a reference.
        pieces[::2] = [re.sub(r"(?<!\\)([*|]|(?<=\w)_(?!\w))", r"\\\1", piece) for piece in pieces[::2]]
        # Code may end right before a letter, as in `Node`s; that takes an escaped blank.
        pieces[1::2] = [
            f"`{one}`" + "\\ " * after[:1].isalnum() for one, after in zip(pieces[1::2], pieces[2::2], strict=True)
        ]
        found.append("".join(pieces))
    return found


def _in_list(lines: list[str]) -> bool:
    """Whether the paragraph that is being written is an item of a list."""
    for line in reversed(lines):
        if not line.strip():
            return False
        if line.lstrip().startswith("- "):
            return True
    return False
