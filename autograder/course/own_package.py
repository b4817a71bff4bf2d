"""The learner's own package grows: the answer of a task that is marked for export goes to `workspace/my_fxopt/`.

Each statement that was written here is remembered by a hash in the workspace's private folder. One that the learner
edited since is never replaced: the new version is laid beside it as `NAME.new.py`. Imports no torch.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from nbformat import NotebookNode

from autograder.course.definitions import (
    Definitions,
    MissingDefinitionError,
    Statement,
    definitions_of,
    span,
    split_statements,
)
from autograder.course.task import PACKAGE, Task
from autograder.course.workspace import PRIVATE_FOLDER, write_atomically

RECORD = f"{PACKAGE}.json"
"""File in the private folder: for each module, what was written and for which tasks."""

PYPROJECT = f"""\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "my-fxopt"
version = "0.1.0"
description = "The graph tools that I wrote in the course fxopt"
requires-python = ">=3.11"
dependencies = ["fxopt"]

[tool.setuptools]
packages = ["{PACKAGE}"]
package-dir = {{ "{PACKAGE}" = "." }}
"""

INIT = '"""The graph tools that I wrote in the course fxopt."""\n'


class ExportError(RuntimeError):
    """An answer cannot be exported; the message says why and what to do."""


def export_answer(task: Task, cells: Sequence[str], workspace: Path) -> str:
    """Write the answer of a task, with what it needs, into the learner's package; a line that says what became of it.

    Args:
        task: a task with an `export`.
        cells: the sources of the notebook's cells in the order in which they ran.
        workspace: the learner's folder.

    Raises:
        ExportError: the answer uses a name that no cell defines, or a name that another task's answer defines
            differently in the same module.
    """
    try:
        wanted = definitions_of(cells, task.provides)
    except MissingDefinitionError as error:
        raise ExportError(f"not saved to {PACKAGE}/{task.export}.py: {error}") from error
    package = workspace / PACKAGE
    package.mkdir(parents=True, exist_ok=True)
    for name, content in (("pyproject.toml", PYPROJECT), ("__init__.py", INIT)):
        if not (package / name).exists():
            write_atomically(workspace, package / name, content.encode())
    target = package / f"{task.export}.py"
    names = ", ".join(f"`{name}`" for name in task.provides)
    record = _Record(workspace)
    source = target.read_text() if target.exists() else f'"""{task.export}: written in the course fxopt."""\n'
    written = record.of(task.export)
    _check_shared(wanted, task, written, cells)
    merged = _merged(source, wanted, written)
    if merged is None:
        beside = target.with_suffix(".new.py")
        write_atomically(workspace, beside, wanted.source.encode())
        return (
            f"You changed {PACKAGE}/{target.name} yourself, so it stays; this version of {names} lies beside it "
            f"as {beside.name}"
        )
    if not target.exists() or merged != source:
        write_atomically(workspace, target, merged.encode())
    record.note(task.export, task, wanted)
    _import_in_package(package / "__init__.py", task, workspace)
    return f"Saved {names} to {PACKAGE}/{target.name}"


def export_passed(notebook: NotebookNode, tasks: Iterable[Task], workspace: Path) -> dict[str, str]:
    """Write the answers of those of these tasks that are exported; task to a line that says what became of its answer.

    Args:
        notebook: the learner's, whose code cells are taken in its order.
        tasks: which passed.
        workspace: the learner's folder.
    """
    cells = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    said = {}
    for task in tasks:
        if task.export:
            try:
                said[task.name] = export_answer(task, cells, workspace)
            except ExportError as error:
                said[task.name] = str(error)
    return said


def _check_shared(wanted: Definitions, task: Task, written: dict[str, Any], cells: Sequence[str]) -> None:
    """A helper that other answers use too may change only where the same cells give it to them as well.

    Raises:
        ExportError: another answer uses another helper of that name.
    """
    for statement in wanted.statements:
        noted = written.get(_key(statement))
        if noted is None or noted["hash"] == _hash(statement.source):
            continue
        for other, names in noted["tasks"].items():
            try:
                same = other == task.name or statement in definitions_of(cells, names).statements
            except MissingDefinitionError:
                same = False
            if not same:
                raise ExportError(
                    f"not saved to {PACKAGE}/{task.export}.py: `{_key(statement)}` there belongs to the task {other} "
                    "and is written differently; rename yours"
                )


def _merged(source: str, wanted: Definitions, written: dict[str, Any]) -> str | None:
    """The module with the wanted statements in it; `None` where that would overwrite what the learner wrote."""
    try:
        present = list(split_statements(source))
    except SyntaxError:
        return None
    new = {statement: _key(statement) for statement in wanted.statements}
    lines = source.splitlines()
    left = dict(new)
    replacements: list[tuple[int, int, str]] = []
    imported: set[str] = set()
    import_after = 1 if ast.get_docstring(ast.parse(source)) is not None else 0
    for position, (node, statement) in enumerate(present):
        first, last = span(node)
        if isinstance(node, ast.Import | ast.ImportFrom):
            imported.add(statement.source)
            import_after = position + 1
        for other in [other for other in left if other.binds & statement.binds]:
            if _hash(statement.source) not in (written.get(left[other], {}).get("hash"), _hash(other.source)):
                return None
            replacements.append((first, last, other.source))
            del left[other]
    missing = [line for line in wanted.imports if line not in imported]
    if missing:
        place = span(present[import_after - 1][0])[1] if import_after else 0
        before = [""] if place and not imported else []
        replacements.append((place, place, "\n".join([*before, *missing])))
    for first, last, text in sorted(replacements, reverse=True):
        lines[first:last] = text.splitlines()
    for statement in left:
        lines += ["", "", *statement.source.splitlines()]
    return "\n".join(lines).strip("\n") + "\n"


def _import_in_package(init: Path, task: Task, workspace: Path) -> None:
    """Make `from my_fxopt import NAME` work; what else stands in the file stays."""
    source = init.read_text()
    lines = [f"from {PACKAGE}.{task.export} import {name} as {name}" for name in task.provides]
    missing = [line for line in lines if line not in source.splitlines()]
    if missing:
        write_atomically(workspace, init, (source.rstrip("\n") + "\n" + "\n".join(missing) + "\n").encode())


def _key(statement: Statement) -> str:
    return ", ".join(sorted(statement.binds))


def _hash(source: str) -> str:
    return hashlib.sha256(source.strip("\n").encode()).hexdigest()


class _Record:
    """What was written into the learner's package: for each module and statement a hash and the answers that use it."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self._path = workspace / PRIVATE_FOLDER / RECORD
        self._modules: dict[str, dict[str, Any]] = {}
        if self._path.exists():
            try:
                self._modules = json.loads(self._path.read_bytes())
            except ValueError:
                # Everything in the package then counts as the learner's own, and nothing is overwritten.
                self._modules = {}

    def of(self, module: str) -> dict[str, Any]:
        """The statements that were written into a module."""
        return self._modules.get(module, {})

    def note(self, module: str, task: Task, wanted: Definitions) -> None:
        """Remember what was just written."""
        written = self._modules.setdefault(module, {})
        for statement in wanted.statements:
            owners = written.get(_key(statement), {}).get("tasks", {})
            owners[task.name] = list(task.provides)
            written[_key(statement)] = {"tasks": owners, "hash": _hash(statement.source)}
        write_atomically(self._workspace, self._path, (json.dumps(self._modules, indent=1) + "\n").encode())
