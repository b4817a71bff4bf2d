"""What a verdict on an answer depends on, as digests: equal digests, equal verdicts. Imports no torch."""

from __future__ import annotations

import ast
import hashlib
import json
import sys
from collections.abc import Iterable
from functools import cache
from importlib.metadata import version
from pathlib import Path

from autograder.course.course import Course
from autograder.course.sources import read_source
from autograder.course.task import UNITS, Task
from autograder.course.tasks import all_tasks

HOUSE = Path(__file__).resolve().parents[2]
"""The folder that holds the packages."""

PACKAGES = ("fxopt_core", "fxopt_workbench", "autograder")

GRADERS = (
    "autograder.grading.grading",
    "autograder.grading.judging",
    "autograder.grading.runner",
    "autograder.learner_side.worker",
    "autograder.learner_side.warm",
)
"""Where the grading path begins; what these import belongs to it."""

RULES = 1
"""Counts up when mutants are put to the graders in another way (`trials.py`): earlier verdicts then count no more."""


def module_path(name: str) -> Path | None:
    """The file of one of our modules; `None` where there is none of this name."""
    base = HOUSE.joinpath(*name.split("."))
    return next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()), None)


@cache
def imports_of(source: str) -> frozenset[str]:
    """Our modules that a piece of code imports, wherever in it.

    Raises:
        SyntaxError: it is not Python.
    """
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(name for name in names if name.partition(".")[0] in PACKAGES and module_path(name))


@cache
def reached(root: str) -> frozenset[str]:
    """A module, every one of ours that it imports, and so on."""
    found: set[str] = set()
    waiting = [root]
    while waiting:
        name = waiting.pop()
        path = module_path(name)
        if path is None or name in found:
            continue
        found.add(name)
        waiting += imports_of(path.read_text())
        waiting += [name.rpartition(".")[0]] if "." in name else []
    return frozenset(found)


@cache
def _digest_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def digest(value: object) -> str:
    """A digest of JSON values."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _files(names: Iterable[str]) -> dict[str, str]:
    paths = {name: module_path(name) for name in names}
    return {name: _digest_of(path) for name, path in paths.items() if path is not None}


def modules_digest(names: Iterable[str]) -> str:
    """The modules of ours among these names, and every one that they import, and so on."""
    return digest(_files(set().union(*(reached(name) for name in names))))


def grading_digest(task: Task) -> str:
    """Everything of ours that decides how a task is graded: its judge and probe, what they import, and the graders.

    With it go the versions of Python and torch, the task's row, and the answers of earlier units, which a learner's
    code is given.
    """
    names = set().union(*(reached(root) for root in (f"{task.module}.judge", f"{task.module}.visible", *GRADERS)))
    earlier = [other for other in all_tasks() if list(UNITS).index(other.unit) < list(UNITS).index(task.unit)]
    answers = {other.name: _digest_of(path) for other in earlier if (path := other.folder / "reference.py").exists()}
    row = [task.name, task.provides, task.withheld, task.seconds, task.imports, task.compiles]
    return digest([RULES, _files(names), answers, row, sys.version_info[:2], version("torch")])


def content_digest(course: Course, task: Task) -> str:
    """What an author of the task may change that its mutants depend on, and nothing else.

    Its judge and probe, what these share with other tasks, its reference, its other right answers, and what was said of
    equivalent mutants. Not the tables of units, where the title of any task may change.
    """
    shared = reached(f"{task.module}.judge") | reached(f"{task.module}.visible")
    tables = {f"autograder.exercises.{unit}" for unit in UNITS}
    named = {name for name in shared if name.startswith("autograder.exercises.") and name not in tables}
    answers = {path.name: _digest_of(path) for path in sorted((task.folder / "right").glob("*.py"))}
    equivalents = task.folder / "equivalent.toml"
    said = _digest_of(equivalents) if equivalents.exists() else ""
    reference = cells_of(course.sources_of(UNITS[task.unit]) / f"{task.notebook}.py")[task.answer_id]
    return digest([_files(named), answers, said, reference])


@cache
def cells_of(source: Path) -> dict[str, str]:
    """The cells of a notebook's source by id; read once in a process, as all files here."""
    return {cell["id"]: cell.source for cell in read_source(source).cells}


def operators_digest() -> str:
    """What decides which mutants there are."""
    names = {name for name in reached("autograder.mutation.mutants") if name.startswith("autograder.mutation.")}
    return digest([_files(names), version("libcst")])
