"""The graded cells of a notebook, and how a learner's notebook differs from the released one. Imports no torch."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from nbformat import NotebookNode

from autograder.course.reading import NOT_READ, writable
from autograder.course.task import Task
from autograder.exchange.channel import MalformedMessageError

OUTPUTS_PER_CELL = 1000
"""Most outputs of one cell that are kept."""

SKIP_TAG = "not-graded"
"""Tag of a cell that demonstrates something at length and is left out while grading."""


def heading_of(cells: Iterable[Mapping[str, Any]]) -> str:
    """The first heading of a notebook in plain words; `""` without one. Cells may keep their text whole or by line."""
    texts = ("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    headings = (line for text in texts for line in text.splitlines() if line.startswith("# "))
    return next(headings, "").removeprefix("# ").replace("`", "").strip()


def clean_outputs(outputs: Any, room: int) -> tuple[list[dict[str, Any]], int]:
    """Outputs of a cell as the learner's side reports them, rebuilt so that they are what notebooks may hold.

    Args:
        outputs: should be a list of outputs in notebook format.
        room: most characters to keep; what goes beyond is left out, and said to be.

    Returns:
        The outputs, and how many characters they hold.

    Raises:
        MalformedMessageError: they are no outputs.
    """
    if not isinstance(outputs, list):
        raise MalformedMessageError("no list of outputs")
    kept: list[dict[str, Any]] = []
    size = 0
    for output in outputs:
        clean = _clean_output(output)
        size += len(json.dumps(clean))
        if size > room or len(kept) >= OUTPUTS_PER_CELL:
            kept.append({"output_type": "stream", "name": "stderr", "text": "… further output was left out\n"})
            return kept, min(size, room)
        kept.append(clean)
    return kept, size


def _clean_output(output: Any) -> dict[str, Any]:
    match output:
        case {"output_type": "stream", "name": "stdout" | "stderr" as name, "text": str(text)}:
            return {"output_type": "stream", "name": name, "text": writable(text)}
        case {"output_type": "display_data", "data": dict(data)}:
            texts = {kind: writable(value) for kind, value in data.items() if isinstance(value, str)}
            return {"output_type": "display_data", "data": texts, "metadata": {}}
        case {"output_type": "error", "ename": str(ename), "evalue": str(evalue), "traceback": list(lines)}:
            return {
                "output_type": "error",
                "ename": writable(ename),
                "evalue": writable(evalue),
                "traceback": [writable(str(line)) for line in lines],
            }
    raise MalformedMessageError("no output of a notebook")


def grade_id(cell: NotebookNode) -> str | None:
    """The nbgrader id of a cell, if it has one."""
    return cell.metadata.get("nbgrader", {}).get("grade_id") or None


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
        retyped: ids of cells that became another type of cell (text instead of code, say).
        misplaced: ids of cells that stand below a cell of the release that comes after them.
        unread: a line for each thing that could not be read.
    """

    missing: list[str] = field(default_factory=list)
    repeated: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    retyped: list[str] = field(default_factory=list)
    misplaced: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)

    def problems(self) -> list[str]:
        """One line for each kind of difference, naming the cells."""
        lines = list(self.unread)
        if self.missing:
            lines.append(f"these cells were removed: {', '.join(self.missing)}; fetch them from a fresh copy")
        if self.repeated:
            lines.append(f"these cells are there more than once: {', '.join(self.repeated)}; keep one of each")
        if self.changed:
            lines.append(
                f"these locked cells differ from the course's: {', '.join(self.changed)}; if you changed them, restore "
                "them from a fresh copy (an update of the course does no harm)"
            )
        if self.retyped:
            lines.append(f"these cells were made another type of cell: {', '.join(self.retyped)}; change the type back")
        if self.misplaced:
            lines.append(f"these cells stand below where they belong: {', '.join(self.misplaced)}; move them back up")
        return lines


def compare_with_release(notebook: NotebookNode, release: NotebookNode) -> Comparison:
    """Compare a learner's notebook with the one that was handed out."""
    theirs = [cell for cell in notebook.cells if grade_id(cell)]
    counts = Counter(grade_id(cell) for cell in theirs)
    first = {grade_id(cell): cell for cell in reversed(theirs)}
    comparison = Comparison(unread=list(notebook.metadata.get(NOT_READ, [])))
    for cell in release.cells:
        name = grade_id(cell)
        if name is None:
            continue
        if counts[name] == 0:
            comparison.missing.append(name)
        elif counts[name] > 1:
            comparison.repeated.append(name)
        elif first[name].cell_type != cell.cell_type:
            comparison.retyped.append(name)
        elif is_locked(cell) and first[name].source.strip() != cell.source.strip():
            comparison.changed.append(name)
    places = {grade_id(cell): index for index, cell in reversed(list(enumerate(notebook.cells)))}
    earliest = len(notebook.cells)
    for cell in reversed(release.cells):
        name = grade_id(cell)
        if name is not None and name in places:
            if places[name] > earliest:
                comparison.misplaced.insert(0, name)
            earliest = min(earliest, places[name])
    return comparison


def restored(notebook: NotebookNode, release: NotebookNode) -> NotebookNode:
    """A learner's notebook in which every cell of the release is there once, in its place and of its type.

    The cells of the release stand in the release's order, each followed by the learner's own cells that followed it.
    One that was removed comes back as it was handed out, and so does the source of a locked one that was changed; but a
    removed answer comes back empty, for what the learner defines elsewhere (merged with another cell, or pasted into a
    new one) counts. Of a cell that is there more than once the first is it, the others are the learner's own. nbgrader
    metadata of cells that the release does not have goes, and so do ids that name its cells. Changes in place.
    """
    notebook.metadata.pop(NOT_READ, None)
    originals = {name: cell for cell in release.cells if (name := grade_id(cell)) is not None}
    groups: dict[str | None, list[NotebookNode]] = {None: []}
    group = groups[None]
    for cell in notebook.cells:
        name = grade_id(cell)
        if name in originals and name not in groups:
            group = groups[name] = []
        else:
            cell.metadata.pop("nbgrader", None)
            if cell["id"] in originals:
                # Under this name a cell of the release is run, left out and shown.
                cell["id"] = f"own-{cell['id']}"[:64]
        group.append(cell)
    taken = {cell["id"] for cell in notebook.cells}
    notebook.cells = groups[None]
    for name, original in originals.items():
        if name not in groups:
            groups[name] = [deepcopy(original)]
            if original.cell_type == "code" and not is_locked(original):
                groups[name][0].source = ""
            if original["id"] in taken:
                groups[name][0]["id"] = f"restored-{len(notebook.cells)}"
        cell = groups[name][0]
        cell.metadata["nbgrader"] = NotebookNode(original.metadata["nbgrader"])
        _set_type(cell, original.cell_type)
        if is_locked(original):
            cell.source = original.source
            # A tag says whether the cell is run while grading.
            cell.metadata["tags"] = list(original.metadata.get("tags", []))
        notebook.cells += groups[name]
    return notebook


def _set_type(cell: NotebookNode, kind: str) -> None:
    if cell.cell_type == kind:
        return
    cell.cell_type = kind
    if kind == "code":
        cell.outputs, cell.execution_count = [], None
        cell.pop("attachments", None)
    else:
        cell.pop("outputs", None)
        cell.pop("execution_count", None)


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
