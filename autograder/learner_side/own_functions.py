"""`use("name")`: the learner's own function from an earlier unit, or the reference's where there is none yet.

While grading there is the reference only, so that a task is not graded by what another one came to; it is then also
what `from my_fxopt import name` gives. Imports no torch.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from autograder.course.task import PACKAGE, UNITS, Task
from autograder.course.tasks import all_tasks
from autograder.learner_side.mode import is_grading
from fxopt_core.suggestions import did_you_mean


def exports() -> dict[str, Task]:
    """Every name that an exercise exports to the learner's package, and the task whose answer it is."""
    return {name: task for task in all_tasks() if task.export for name in task.provides}


def earlier_exports(unit: str) -> list[Task]:
    """The tasks of earlier units whose answers are exported; none for the capstone, which brings its own code."""
    units = list(UNITS)
    if unit not in units:
        return []
    return [task for task in all_tasks() if task.export and units.index(task.unit) < units.index(unit)]


def use(name: str) -> Any:
    """The learner's own function (or class) of this name, else the reference's; prints which it is.

    Args:
        name: a name that an exercise of an earlier unit exports.

    Raises:
        LookupError: no exercise exports this name; the message offers the nearest names.
        ImportError: while grading: the name belongs to this unit or a later one.
    """
    known = exports()
    if name not in known:
        hint = did_you_mean(name, known, most=3) or f" They export {', '.join(sorted(known))}."
        raise LookupError(f"no exercise exports {name!r}.{hint}")
    task = known[name]
    why = ""
    if not is_grading():
        try:
            own = getattr(own_module(task), name, None)
        except Exception as error:  # the learner's module may raise anything when it is imported
            own, why = None, f" (my_fxopt/{task.export}.py cannot be imported: {type(error).__name__}: {error})"
        if own is not None:
            print(f"{name}: yours, from {PACKAGE}/{task.export}.py")
            return own
    found = getattr(importlib.import_module(reference_module(task)), name)
    print(f"{name}: the reference's{why}")
    return found


def reference_module(task: Task) -> str:
    """Dotted name of the module that holds the reference answer of a task that exports."""
    return f"{task.module}.reference"


def own_module(task: Task) -> ModuleType | None:
    """The learner's module for an exporting task, read anew, or `None` where there is none.

    Only a process that works in the workspace has one: a notebook that is built must not depend on what lies there.
    """
    from autograder.course.course import NoCourseError, find_course

    try:
        workspace = find_course().workspace
    except NoCourseError:
        return None
    if not Path.cwd().resolve().is_relative_to(workspace.resolve()):
        return None
    if not (workspace / PACKAGE / f"{task.export}.py").is_file():
        return None
    if str(workspace) not in sys.path:
        sys.path.append(str(workspace))
    for name in [name for name in sys.modules if name == PACKAGE or name.startswith(f"{PACKAGE}.")]:
        del sys.modules[name]
    importlib.invalidate_caches()
    return importlib.import_module(f"{PACKAGE}.{task.export}")


def stand_in(tasks: Sequence[Task]) -> None:
    """Put a `my_fxopt` of references in place of the learner's: its names are looked up when they are first read.

    Without tasks nothing is put there: a capstone may be called so itself.
    """
    for module in ["", *sorted({task.export for task in tasks})] if tasks else []:
        inside = {name: task for task in tasks if module in ("", task.export) for name in task.provides}
        made = ModuleType(f"{PACKAGE}.{module}" if module else PACKAGE, "The references for what comes before.")
        made.__getattr__ = _lookup(made.__name__, inside)  # type: ignore[method-assign]
        if not module:
            made.__path__ = []
        sys.modules[made.__name__] = made
        if module:
            setattr(sys.modules[PACKAGE], module, made)


def _lookup(module: str, inside: dict[str, Task]) -> Any:
    def find(name: str) -> Any:
        if name not in inside:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return getattr(importlib.import_module(reference_module(inside[name])), name)

    return find
