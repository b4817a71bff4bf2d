"""The view: what a learner's code may import while it is graded.

It holds `fxopt_core` and `fxopt_workbench` without the modules that the tasks withhold, and of `autograder` two whole
folders, what crosses the wall (`exchange`) and what runs beside the learner's code (`learner_side`), with the tables of
tasks, the probes of the tasks that are graded, and the references of earlier units that later tasks build on. Judges,
wrong and right answers, other references and notebooks with solutions are not in it. Imports no torch.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import autograder
import fxopt_core
import fxopt_workbench
from autograder.course.task import UNITS, Task
from autograder.learner_side.own_functions import earlier_exports

PACKAGES = (autograder, fxopt_core, fxopt_workbench)
"""The packages of the course; outside the view, none of them is in the sandbox."""

FOLDERS = ("exchange", "learner_side")
"""The folders of `autograder` that are in the view whole. Nothing in them may hold an answer or a secret."""

FILES = (
    "__init__.py",
    *(f"course/{name}.py" for name in ("__init__", "task", "tasks", "tracks")),
    "exercises/__init__.py",
)
"""Its further files that are in every view: the tables of tasks hold no answers, and `use` looks into them."""


class SandboxError(RuntimeError):
    """The worker could not be started; the message says why, or holds what it printed."""


def build_view(folder: Path, tasks: Sequence[Task]) -> None:
    """Fill `folder` with what a learner's code may import while `tasks` are graded.

    Raises:
        SandboxError: a module that a task withholds does not exist.
    """
    without_caches = shutil.ignore_patterns("__pycache__")
    for package in (fxopt_core, fxopt_workbench):
        shutil.copytree(_home(package), folder / package.__name__, ignore=without_caches)
    _withhold(folder, {name for task in tasks for name in task.withheld if name.split(".")[0] in _OURS})
    own, target = _home(autograder), folder / "autograder"
    for package_name in {name for task in tasks for name in task.without}:
        (folder / package_name).mkdir()
        shutil.copy(own / "learner_side" / "stand_in.py", folder / package_name / "__init__.py")
    for name in FOLDERS:
        shutil.copytree(own / name, target / name, ignore=without_caches)
    for relative in (*FILES, *_exercise_files(own, tasks)):
        (target / relative).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(own / relative, target / relative)


def foreign_modules(tasks: Sequence[Task]) -> set[str]:
    """The withheld modules of packages that are not the course's; what tasks are graded `without` is not among them."""
    return {
        name
        for task in tasks
        for name in task.withheld
        if name.split(".")[0] not in _OURS and name.split(".")[0] not in task.without
    }


GRAPH_FILES = (
    "autograder.grading.graph_server",
    "autograder.traps.trap",
    "autograder.course.task",
    "autograder.course.tracks",
)
"""Modules that the process which runs graphs needs besides `exchange`, the core and its questions."""


def build_graph_view(folder: Path, questions: Sequence[str]) -> None:
    """Fill `folder` with what the process that runs learners' graphs may import: no judge, no case, no answer.

    Args:
        folder: where to.
        questions: dotted names of the modules with the questions that are put to graphs.
    """
    without_caches = shutil.ignore_patterns("__pycache__")
    shutil.copytree(_home(fxopt_core), folder / "fxopt_core", ignore=without_caches)
    own, target = _home(autograder), folder / "autograder"
    shutil.copytree(own / "exchange", target / "exchange", ignore=without_caches)
    for name in (*GRAPH_FILES, *questions):
        parts = name.split(".")[1:]
        above = [Path(*parts[:depth], "__init__.py") for depth in range(len(parts))]
        for relative in (*above, Path(*parts).with_suffix(".py")):
            (target / relative).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(own / relative, target / relative)


_OURS = {package.__name__ for package in PACKAGES}


def _home(package: ModuleType) -> Path:
    return Path(next(iter(package.__path__)))


def _withhold(folder: Path, names: set[str]) -> None:
    # The longest first: a folder that goes takes what is withheld inside it along.
    for name in sorted(names, key=len, reverse=True):
        path = folder.joinpath(*name.split("."))
        # Its package may import it by name, and must still be there for other tasks: what is withheld becomes empty.
        if path.is_dir():
            shutil.rmtree(path)
            path.mkdir()
            (path / "__init__.py").touch()
        elif path.with_suffix(".py").is_file():
            path.with_suffix(".py").write_text("")
        else:
            raise SandboxError(f"the withheld module {name} does not exist; correct the table of tasks")


def _exercise_files(own: Path, tasks: Sequence[Task]) -> list[str]:
    """The tables of all units, what the probes of a unit share, the probes, and the references of earlier units."""
    units = sorted({task.unit for task in tasks})
    earlier = {task for unit in units for task in earlier_exports(unit)}
    found = [f"exercises/{unit}/__init__.py" for unit in UNITS]
    found += [
        f"exercises/{unit}/{path.name}" for unit in units for path in sorted((own / "exercises" / unit).glob("*.py"))
    ]
    for task in tasks:
        found += [f"exercises/{task.unit}/{task.name}/{name}" for name in ("__init__.py", "visible.py")]
    for task in earlier:
        found += [f"exercises/{task.unit}/{task.name}/{name}" for name in ("__init__.py", "reference.py")]
    return found
