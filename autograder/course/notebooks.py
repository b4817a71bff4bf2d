"""Reading notebooks that anybody may have written, and finding the graded cells in them. Imports no torch."""

from __future__ import annotations

import json
import re
import warnings
from collections import Counter
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode

from autograder.course.task import Task
from autograder.exchange.channel import MalformedMessageError
from autograder.exchange.verdict import one_line

SIZE_LIMIT = 100 * 1024 * 1024
"""Largest notebook file that is read at all, in bytes."""

CODE_LIMIT = 2 * 1024 * 1024
"""Most characters of code that the cells of one notebook may hold together."""

OUTPUTS_PER_CELL = 1000
"""Most outputs of one cell that are kept."""

SKIP_TAG = "not-graded"
"""Tag of a cell that demonstrates something at length and is left out while grading."""


class UnreadableNotebookError(ValueError):
    """The file is no notebook; the message is one line that says why and what to do."""


def read_notebook(path: Path) -> NotebookNode:
    """Read a notebook from disk, upgraded to the current format.

    Raises:
        UnreadableNotebookError: missing, too large, not JSON, or JSON that is not a notebook.
    """
    return parse_notebook(path.name, read_content(path))


def read_content(path: Path) -> bytes:
    """The bytes of a notebook's file.

    Raises:
        UnreadableNotebookError: missing, no file, or too large.
    """
    if not path.is_file():
        what = "this is a folder, not a notebook" if path.is_dir() else "there is no such notebook"
        raise UnreadableNotebookError(f"{path.name}: {what}")
    size = path.stat().st_size
    if size > SIZE_LIMIT:
        raise UnreadableNotebookError(
            f"{path.name}: {size / 2**20:.0f} MiB is more than the {SIZE_LIMIT / 2**20:.0f} MiB that are read; "
            "clear the outputs (Edit, Clear Outputs of All Cells), save, and submit again"
        )
    return path.read_bytes()


def parse_notebook(name: str, content: bytes) -> NotebookNode:
    """The notebook in the bytes of a file, upgraded to the current format. `name` is for messages.

    What is harmless is put right: ids that are missing or there twice, characters that cannot be written again
    (lone surrogates), nbgrader metadata that names no cell.

    Raises:
        UnreadableNotebookError: not JSON, or JSON that is not a notebook, or too much code.
    """
    try:
        document = json.loads(content.decode())
    except (ValueError, RecursionError) as error:
        raise UnreadableNotebookError(
            f"{name}: this file is not JSON, so it is no notebook ({one_line(error, 100)}); "
            "open it in JupyterLab, save it there, and submit again"
        ) from error
    try:
        if re.search(rb"\\u[dD][89a-fA-F]", content):
            document = _without_surrogates(document)
        with warnings.catch_warnings():
            # Ids that are missing or repeated are harmless here, and old tools write such files.
            warnings.simplefilter("ignore")
            notebook = _repair(nbformat.reads(json.dumps(document), as_version=4))
        nbformat.validate(notebook, relax_add_props=True)
    except Exception as error:  # nbformat raises many types for malformed structure
        first_line = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UnreadableNotebookError(
            f"{name}: JSON, but not a notebook ({one_line(first_line, 120)}); "
            "fetch a fresh copy and paste your answers into it"
        ) from error
    code = sum(len(cell.source) for cell in notebook.cells if cell.cell_type == "code")
    if code > CODE_LIMIT:
        raise UnreadableNotebookError(
            f"{name}: its cells hold {code / 2**20:.1f} MiB of code, more than the {CODE_LIMIT / 2**20:.0f} MiB that "
            "are run; was data pasted into a cell?"
        )
    return notebook


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return writable(value)
    if isinstance(value, list):
        return [_without_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {writable(key): _without_surrogates(item) for key, item in value.items()}
    return value


def _repair(notebook: NotebookNode) -> NotebookNode:
    notebook.nbformat_minor = max(5, notebook.nbformat_minor)
    seen: set[str] = set()
    for index, cell in enumerate(notebook.cells):
        if not cell.get("id") or cell["id"] in seen:
            cell["id"] = f"repaired-{index}"
        seen.add(cell["id"])
        nbgrader = cell.metadata.get("nbgrader", {})
        if not isinstance(nbgrader, dict) or not isinstance(nbgrader.get("grade_id", ""), str):
            del cell.metadata["nbgrader"]
    return notebook


def writable(text: str) -> str:
    """Text without lone surrogates, which Python prints but nobody can write to a file."""
    return text.encode(errors="replace").decode()


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
    """

    missing: list[str] = field(default_factory=list)
    repeated: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    retyped: list[str] = field(default_factory=list)

    def problems(self) -> list[str]:
        """One line for each kind of difference, naming the cells."""
        lines = []
        if self.missing:
            lines.append(f"these cells were removed: {', '.join(self.missing)}; fetch them from a fresh copy")
        if self.repeated:
            lines.append(f"these cells are there more than once: {', '.join(self.repeated)}; keep one of each")
        if self.changed:
            lines.append(f"these locked cells were changed: {', '.join(self.changed)}; restore them from a fresh copy")
        if self.retyped:
            lines.append(f"these cells were made another type of cell: {', '.join(self.retyped)}; change the type back")
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
        elif first[name].cell_type != cell.cell_type:
            comparison.retyped.append(name)
        elif is_locked(cell) and first[name].source.strip() != cell.source.strip():
            comparison.changed.append(name)
    return comparison


def restored(notebook: NotebookNode, release: NotebookNode) -> NotebookNode:
    """A learner's notebook in which every cell of the release is there once, with the type and metadata of the release.

    A cell that was removed comes back as it was handed out, behind its old neighbour; of a cell that is there more
    than once the first counts; nbgrader metadata of cells that the release does not have goes. Changes in place.
    """
    theirs: dict[str, NotebookNode] = {}
    for cell in notebook.cells:
        name = grade_id(cell)
        if name is not None and name not in theirs:
            theirs[name] = cell
        else:
            cell.metadata.pop("nbgrader", None)
    before = -1
    for original in release.cells:
        name = grade_id(original)
        if name is None:
            continue
        cell = theirs.pop(name, None)
        if cell is None:
            cell = deepcopy(original)
            if any(other["id"] == cell["id"] for other in notebook.cells):
                cell["id"] = f"restored-{len(notebook.cells)}"
            notebook.cells.insert(before + 1, cell)
        cell.metadata["nbgrader"] = NotebookNode(original.metadata["nbgrader"])
        _set_type(cell, original.cell_type)
        before = next(index for index, other in enumerate(notebook.cells) if other is cell)
    for stranger in theirs.values():
        del stranger.metadata["nbgrader"]
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
