"""The authoring sources, read as notebooks, and made into nbgrader's assignments.

They are `solutions/UNIT/NAME.py`, and of Inside PyTorch `solutions/internals/UNIT/NAME.py`.

Imports no torch.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import jupytext
import nbformat
from nbformat import NotebookNode
from nbgrader.converters import GenerateAssignment
from nbgrader.coursedir import CourseDirectory
from sqlalchemy.exc import SQLAlchemyError

from autograder.course.converting import TellsWhy, convert
from autograder.course.course import Course, course_config
from autograder.course.notebooks import grade_id

KERNELSPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}


class ReleaseError(RuntimeError):
    """A notebook cannot be built; the message says which one and why."""


CLAIM = "claim"
"""Tag of a cell of a source that only holds its text to account."""


def sources(course: Course) -> list[Path]:
    """Every authoring source, in order; the name of its folder is that of its assignment.

    Raises:
        ReleaseError: two folders have the same name.
    """
    found = sorted(path for path in course.solutions.rglob("*.py") if path.parent != course.solutions)
    folders: dict[str, Path] = {}
    for path in found:
        if folders.setdefault(path.parent.name, path.parent) != path.parent:
            raise ReleaseError(f"{path.parent} and {folders[path.parent.name]} are both named {path.parent.name!r}")
    return found


def read_source(path: Path) -> NotebookNode:
    """The notebook that an authoring source describes, with deterministic cell ids and without outputs.

    The rubric of a written answer, in its cell's metadata (`fxopt={"rubric": {criterion: points}}`), is also shown as
    a table below the task's text.

    Raises:
        ReleaseError: two cells have the same nbgrader id, a solution cell has no solution region, or the points of a
            rubric do not add up.
    """
    notebook = jupytext.read(path)
    notebook.metadata = nbformat.from_dict({"kernelspec": KERNELSPEC, "language_info": {"name": "python"}})
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    seen: dict[str, int] = {}
    for cell in notebook.cells:
        name = grade_id(cell)
        stem = name or hashlib.sha256(f"{cell.cell_type}\n{cell.source}".encode()).hexdigest()[:12]
        seen[stem] = seen.get(stem, 0) + 1
        if name is not None and seen[stem] > 1:
            raise ReleaseError(f"{path.name}: the nbgrader id {name!r} is used twice")
        solution = cell.metadata.get("nbgrader", {}).get("solution", False)
        if solution and cell.cell_type == "code" and "### BEGIN SOLUTION" not in cell.source:
            raise ReleaseError(f"{path.name}: the answer cell {name!r} has no solution region")
        if rubric := cell.metadata.get("fxopt", {}).get("rubric"):
            _show_rubric(notebook, cell, rubric, path)
        cell["id"] = stem if seen[stem] == 1 else f"{stem}-{seen[stem]}"
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return notebook


def without_claims(notebook: NotebookNode) -> NotebookNode:
    """The notebook as its readers get it: without the cells tagged `claim`.

    A claim holds a sentence of the text beside it to what the notebook measured. It runs where the course is tested, so
    that a new release of PyTorch shows which sentences became false.
    """
    cells = [cell for cell in notebook.cells if CLAIM not in cell.metadata.get("tags", ())]
    return nbformat.from_dict({**notebook, "cells": cells})


def _show_rubric(notebook: NotebookNode, answer: NotebookNode, rubric: dict[str, float], path: Path) -> None:
    name, points = grade_id(answer), answer.metadata.get("nbgrader", {}).get("points")
    if answer.cell_type != "markdown" or sum(rubric.values()) != points:
        raise ReleaseError(f"{path.name}: the rubric of {name!r} must add up to the points of that text cell, {points}")
    texts = [cell for cell in notebook.cells if grade_id(cell) == f"{name}-task"]
    if len(texts) != 1:
        raise ReleaseError(f"{path.name}: {name!r} has a rubric but no cell {name}-task to show it in")
    rows = "".join(f"\n| {criterion} | {worth:g} |" for criterion, worth in rubric.items())
    texts[0].source += f"\n\n| a person looks for | points |\n| --- | --- |{rows}"


def make_assignments(course: Course, source: Path, target: Path, database: str) -> None:
    """Run nbgrader's `generate_assignment` for every unit in `source`; fills `target` and the gradebook.

    Raises:
        ReleaseError: nbgrader refused; its message is passed on.
        SQLAlchemyError, OSError: the gradebook or a file cannot be written.
    """
    config = course_config(course)
    config.CourseDirectory.root = str(source.parent)
    config.CourseDirectory.source_directory = source.name
    config.CourseDirectory.release_directory = str(target)
    config.CourseDirectory.db_url = database
    for unit in sorted(path.name for path in source.iterdir() if path.is_dir()):
        config.CourseDirectory.assignment_id = unit
        directory = CourseDirectory(config=config)
        converter = _GenerateAssignment(coursedir=directory, config=config)
        converter.force = True
        try:
            convert(converter)
        except (SQLAlchemyError, OSError):
            raise
        except Exception as error:
            raise ReleaseError(f"nbgrader could not make {unit}: {type(error).__name__}: {error}") from error


class _GenerateAssignment(TellsWhy, GenerateAssignment):
    pass
