"""Makes notebooks from their authoring source: `solutions/UNIT/NAME.py` to the executed solution notebook beside it,
and, through nbgrader, to the student's `curriculum/UNIT/NAME.ipynb`.

Two builds of the same source are identical: cell ids come from the nbgrader id or a hash of the source, what
varies from run to run is taken out of outputs, and a notebook is executed again only when its source or the
code that it used has changed.
"""

from __future__ import annotations

import copy
import hashlib
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

from autograder.authoring.glossary import PAGE, glossary_page
from autograder.course.course import Course
from autograder.course.definitions import definitions_of
from autograder.course.sources import (
    KERNELSPEC,
    ReleaseError,
    make_assignments,
    read_source,
    sources,
    without_claims,
)
from autograder.course.task import UNITS
from autograder.course.tasks import all_tasks
from autograder.records.database import make_nbgraders_tables
from fxopt_workbench.files import write_whole

CELL_SECONDS = 300
"""Longest that one cell may run while a notebook is built, in seconds."""

_SOLUTION_MARK = re.compile(r"^ *### (?:BEGIN|END) SOLUTION\n?", re.MULTILINE)

_VARYING = (
    # Addresses, process ids and temporary names differ from run to run and say nothing.
    (re.compile(r"0x[0-9a-f]{6,16}"), "0x…"),
    (re.compile(r"/tmp/ipykernel_\d+/\d+\.py"), "<cell>"),
    (re.compile(r"/tmp/torchinductor_[^/\s'\"]+"), "<inductor cache>"),
    (re.compile(r"(?:/private)?/(?:tmp|var/folders)/[\w./+-]+"), "<temporary>"),
)


@dataclass
class BuildReport:
    """What a build did.

    Attributes:
        executed: notebooks that were run anew.
        kept: notebooks whose outputs are still valid.
        released: student notebooks that were written.
        stale: with `check=True`: files that are out of step with their source, and how.
    """

    executed: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    released: list[str] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)


def _digest(notebook: NotebookNode, files: Sequence[Path], root: Path) -> str:
    hasher = hashlib.sha256()
    for cell in notebook.cells:
        hasher.update(f"{cell['id']}\0{cell.cell_type}\0{cell.source}\0{sorted(cell.metadata.items())}\0".encode())
    for file in sorted(files):
        hasher.update(f"{file.relative_to(root)}\0".encode() + file.read_bytes() + b"\0")
    return hasher.hexdigest()


_LIST_USED = """
import sys as _sys
print("\\n".join(sorted({getattr(m, "__file__", None) or "" for m in list(_sys.modules.values())})))
"""


def execute(notebook: NotebookNode, folder: Path, course: Course) -> list[Path]:
    """Run a notebook in place; the files of this repository that it used.

    Raises:
        ReleaseError: a cell raised or took too long.
    """
    client = NotebookClient(
        notebook,
        timeout=CELL_SECONDS,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
        allow_errors=False,
    )
    try:
        with client.setup_kernel():
            for index, cell in enumerate(notebook.cells):
                client.execute_cell(cell, index)
            extra = nbformat.v4.new_code_cell(_LIST_USED)
            notebook.cells.append(extra)
            client.execute_cell(extra, len(notebook.cells) - 1)
            notebook.cells.pop()
    except Exception as error:
        raise ReleaseError(f"{folder.name}: {str(error)[-2000:]}") from error
    listed = "".join(output.get("text", "") for output in extra.outputs).splitlines()
    packages = [course.root / name for name in ("fxopt_core", "fxopt_workbench", "autograder")]
    used = [Path(name) for name in listed if name]
    # Modules that only make or grade notebooks cannot change what a notebook prints.
    return [path for path in used if any(path.is_relative_to(package) for package in packages)]


def references(course: Course) -> Iterator[tuple[Path, str]]:
    """The reference answer of each task that exports, as the file and the text of a module of its own.

    Raises:
        ReleaseError: an answer needs what no cell of its notebook defines.
    """
    for task in all_tasks():
        source = course.sources_of(UNITS[task.unit]) / f"{task.notebook}.py"
        if not task.export or not source.is_file():
            continue
        notebook = read_source(source)
        code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
        try:
            found = definitions_of([_SOLUTION_MARK.sub("", source) for source in code], task.provides)
        except LookupError as error:
            raise ReleaseError(f"{task.notebook}: {task.name} cannot be exported: {error}") from error
        head = f'"""The reference answer of {task.name}, made from its notebook by `make notebooks`."""\n\n'
        if not found.imports:
            head += "\n"
        yield task.folder / "reference.py", head + found.source


def normalise(notebook: NotebookNode, root: Path) -> None:
    """Take out of the outputs what differs from run to run or from machine to machine."""
    notebook.metadata.pop("widgets", None)
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        for output in cell.get("outputs", []):
            if "text" in output:
                output["text"] = _normal(output["text"], root)
            for kind, value in output.get("data", {}).items():
                if kind.startswith("text/") and isinstance(value, str):
                    output["data"][kind] = _normal(value, root)
            if "traceback" in output:
                output["traceback"] = [_normal(line, root) for line in output["traceback"]]


def _normal(text: str, root: Path) -> str:
    text = text.replace(str(root), "<repository>").replace(sys.prefix, "<environment>")
    text = text.replace(sys.base_prefix, "<python>").replace(str(Path.home()), "~")
    for pattern, replacement in _VARYING:
        text = pattern.sub(replacement, text)
    return text


def build(
    course: Course,
    *,
    force: bool = False,
    only: str | None = None,
    begins: Callable[[str, int, int], object] | None = None,
) -> BuildReport:
    """Build every notebook whose source starts with `only` (all without it).

    Args:
        course: where sources and results lie.
        force: execute even what is up to date.
        only: beginning of a notebook's name.
        begins: is told which notebook is to be executed, its place among those that are, and how many these are:
            each takes seconds to minutes.

    Raises:
        ReleaseError: a source is malformed or a cell fails; nothing is written for that notebook.
    """
    report = BuildReport()
    for path, text in references(course):
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            report.released.append(f"{path.parent.name}/{path.name}")
    due: list[tuple[Path, NotebookNode]] = []
    for source in sources(course):
        if only is not None and not source.name.startswith(only):
            continue
        notebook = read_source(source)
        if not force and _up_to_date(source.with_suffix(".ipynb"), notebook, course):
            report.kept.append(source.stem)
        else:
            due.append((source, notebook))
    for place, (source, notebook) in enumerate(due, 1):
        if begins is not None:
            begins(source.stem, place, len(due))
        # A source that is edited while it is executed: the notebook must not claim to be made from the new one.
        executed = copy.deepcopy(notebook)
        used = execute(notebook, source.parent, course)
        normalise(notebook, course.root)
        relative = sorted(str(path.relative_to(course.root)) for path in used)
        notebook.metadata["fxopt"] = {"digest": _digest(executed, used, course.root), "uses": relative}
        _write(source.with_suffix(".ipynb"), notebook)
        report.executed.append(source.stem)
    with tempfile.TemporaryDirectory() as folder:
        for name, path in release(course, Path(folder)):
            target = course.curriculum / name
            if not target.exists() or target.read_bytes() != path.read_bytes():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, target)
                report.released.append(str(name))
    wanted = {Path(source.parent.name) / f"{source.stem}.ipynb" for source in sources(course)}
    if text := glossary_page(course):
        wanted.add(Path(PAGE))
        page = course.curriculum / PAGE
        if not page.exists() or page.read_text() != text:
            page.write_text(text)
            report.released.append(PAGE)
    for extra in _files(course.curriculum):
        if extra not in wanted:
            (course.curriculum / extra).unlink()
            report.released.append(f"{extra} (removed: it has no source)")
    return report


def _up_to_date(target: Path, notebook: NotebookNode, course: Course) -> bool:
    if not target.exists():
        return False
    noted = nbformat.read(target, as_version=4).metadata.get("fxopt", {})
    files = [course.root / name for name in noted.get("uses", [])]
    return all(file.is_file() for file in files) and _digest(notebook, files, course.root) == noted.get("digest")


def _write(path: Path, notebook: NotebookNode) -> None:
    write_whole(path, nbformat.writes(notebook) + "\n")


def release(course: Course, folder: Path) -> Iterator[tuple[Path, Path]]:
    """Make the student notebooks in `folder`, with a gradebook of their own; yields (relative name, file).

    Nothing but notebooks is handed to nbgrader, so nothing else can get into a release.
    """
    for source in sources(course):
        target = folder / "source" / source.parent.name / f"{source.stem}.ipynb"
        target.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(without_claims(read_source(source)), target)
    database = f"sqlite:///{folder / 'gradebook.db'}"
    make_nbgraders_tables(database)
    make_assignments(Course(course.root), folder / "source", folder / "release", database)
    for source in sources(course):
        name = Path(source.parent.name) / f"{source.stem}.ipynb"
        path = folder / "release" / name
        notebook = nbformat.read(path, as_version=4)
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = [], None
        notebook.metadata = nbformat.from_dict({"kernelspec": KERNELSPEC, "language_info": {"name": "python"}})
        nbformat.write(notebook, path)
        yield name, path


def check(course: Course) -> BuildReport:
    """Compare everything generated with its source, without executing anything.

    Sources, ids and metadata are compared; outputs and execution counts are not.
    """
    report = BuildReport()
    for source in sources(course):
        target = source.with_suffix(".ipynb")
        if not target.exists():
            report.stale.append(f"{target.relative_to(course.root)} does not exist")
        elif _shape(nbformat.read(target, as_version=4)) != _shape(read_source(source)):
            report.stale.append(f"{target.relative_to(course.root)} differs from {source.name}")
    with tempfile.TemporaryDirectory() as folder:
        made = {name: path.read_bytes() for name, path in release(course, Path(folder))}
    for path, text in references(course):
        if not path.exists() or path.read_text() != text:
            report.stale.append(f"{path.parent.name}/{path.name} differs from its notebook")
    if text := glossary_page(course):
        made[Path(PAGE)] = text.encode()
    there = set(_files(course.curriculum))
    for name in sorted(made.keys() | there):
        where = f"curriculum/{name}"
        if name not in there:
            report.stale.append(f"{where} does not exist")
        elif name not in made:
            report.stale.append(f"{where} has no source")
        elif (course.curriculum / name).read_bytes() != made[name]:
            report.stale.append(f"{where} differs from its source")
    return report


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and ".ipynb_checkpoints" not in path.parts:
            yield path.relative_to(folder)


def _shape(notebook: NotebookNode) -> list[tuple[str, str, str, str]]:
    # Sorted all the way down, as a notebook is written: a rubric's order is its source's.
    return [
        (cell["id"], cell.cell_type, cell.source, json.dumps(cell.metadata, sort_keys=True)) for cell in notebook.cells
    ]
