"""Reading notebooks that anybody may have written, and finding the graded cells in them. Imports no torch."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from autograder.tasks import Task

SIZE_LIMIT = 100 * 1024 * 1024
"""Largest notebook file that is read at all, in bytes."""

SKIP_TAG = "not-graded"
"""Tag of a cell that demonstrates something at length and is left out while grading."""


class UnreadableNotebookError(ValueError):
    """The file is no notebook; the message is one line that says why and what to do."""


def read_notebook(path: Path) -> NotebookNode:
    """Read a notebook from disk, upgraded to the current format.

    Raises:
        UnreadableNotebookError: missing, too large, not JSON, or JSON that is not a notebook.
    """
    if not path.is_file():
        raise UnreadableNotebookError(f"{path.name}: there is no such notebook")
    size = path.stat().st_size
    if size > SIZE_LIMIT:
        raise UnreadableNotebookError(
            f"{path.name}: {size / 2**20:.0f} MiB is more than the {SIZE_LIMIT / 2**20:.0f} MiB that are read; "
            "clear the outputs (Edit, Clear Outputs of All Cells), save, and submit again"
        )
    try:
        text = path.read_bytes().decode()
        json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableNotebookError(
            f"{path.name}: this file is not JSON, so it is no notebook ({str(error)[:100]}); "
            "open it in JupyterLab, save it there, and submit again"
        ) from error
    try:
        with warnings.catch_warnings():
            # Ids that are missing or repeated are harmless here, and old tools write such files.
            warnings.simplefilter("ignore")
            notebook = _repair_ids(nbformat.reads(text, as_version=4))
        nbformat.validate(notebook, relax_add_props=True)
    except Exception as error:  # nbformat raises many types for malformed structure
        first_line = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UnreadableNotebookError(
            f"{path.name}: JSON, but not a notebook ({first_line[:120]}); "
            "fetch a fresh copy and paste your answers into it"
        ) from error
    return notebook


def _repair_ids(notebook: NotebookNode) -> NotebookNode:
    notebook.nbformat_minor = max(5, notebook.nbformat_minor)
    seen: set[str] = set()
    for index, cell in enumerate(notebook.cells):
        if not cell.get("id") or cell["id"] in seen:
            cell["id"] = f"repaired-{index}"
        seen.add(cell["id"])
    return notebook


def grade_id(cell: NotebookNode) -> str | None:
    """The nbgrader id of a cell, if it has one."""
    nbgrader = cell.metadata.get("nbgrader", {})
    return nbgrader.get("grade_id") if isinstance(nbgrader, dict) else None


def is_locked(cell: NotebookNode) -> bool:
    """Whether the learner must not change this cell (a task text or a check)."""
    nbgrader = cell.metadata.get("nbgrader", {})
    return bool(nbgrader.get("locked") or nbgrader.get("grade")) and not nbgrader.get("solution")


@dataclass
class Comparison:
    """How a learner's notebook differs from the released one, as far as grading is concerned.

    Attributes:
        missing: ids of locked or answer cells that are not there any more.
        repeated: ids of cells that are there more than once.
        changed: ids of locked cells with another source.
    """

    missing: list[str] = field(default_factory=list)
    repeated: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)

    def problems(self) -> list[str]:
        """One line for each kind of difference, naming the cells."""
        lines = []
        if self.missing:
            lines.append(f"these cells were removed: {', '.join(self.missing)}; fetch them from a fresh copy")
        if self.repeated:
            lines.append(f"these cells are there more than once: {', '.join(self.repeated)}; keep one of each")
        if self.changed:
            lines.append(f"these locked cells were changed: {', '.join(self.changed)}; restore them from a fresh copy")
        return lines


def compare_with_release(notebook: NotebookNode, release: NotebookNode) -> Comparison:
    """Compare a learner's notebook with the one that was handed out."""
    theirs = [cell for cell in notebook.cells if grade_id(cell)]
    counts = Counter(grade_id(cell) for cell in theirs)
    first = {grade_id(cell): cell for cell in reversed(theirs)}
    comparison = Comparison()
    for cell in release.cells:
        name = grade_id(cell)
        if name is None:
            continue
        if counts[name] == 0:
            comparison.missing.append(name)
        elif counts[name] > 1:
            comparison.repeated.append(name)
        elif is_locked(cell) and first[name].source.strip() != cell.source.strip():
            comparison.changed.append(name)
    return comparison


def cells_before_check(notebook: NotebookNode, task: Task) -> list[dict[str, str]]:
    """The code cells that come before a task's check, without other checks and cells tagged `not-graded`.

    Each is a dictionary with `id` (the nbgrader id where there is one, else the cell's id) and `source`.
    """
    cells = []
    for cell in notebook.cells:
        if grade_id(cell) == task.name:
            break
        graded = cell.metadata.get("nbgrader", {}).get("grade", False)
        if cell.cell_type == "code" and not graded and SKIP_TAG not in cell.metadata.get("tags", []):
            cells.append({"id": grade_id(cell) or cell["id"], "source": cell.source})
    return cells


def points_of(notebook: NotebookNode) -> dict[str, float]:
    """Points of each task according to the metadata of a (released) notebook."""
    points = {}
    for cell in notebook.cells:
        nbgrader = cell.metadata.get("nbgrader", {})
        if nbgrader.get("grade"):
            points[nbgrader["grade_id"]] = float(nbgrader["points"])
    return points
