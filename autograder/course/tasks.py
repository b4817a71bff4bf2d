"""The table of graded tasks: what each task asks for and under which conditions it is graded.

This module and the `exercises/UNIT/__init__.py` tables import no torch, so that the command line and the
Jupyter server can read them quickly. Points are not here: they live in the notebook metadata.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module

from autograder.course.task import UNITS, Task, WrittenTask
from fxopt_core.suggestions import did_you_mean


class UnknownTaskError(LookupError):
    """No task has this name."""


@cache
def written_tasks() -> tuple[WrittenTask, ...]:
    """Every task that a person grades: `WRITTEN` in the tables of those units that have such tasks."""
    tables = (getattr(import_module(f"autograder.exercises.{unit}"), "WRITTEN", ()) for unit in UNITS)
    return tuple(task for table in tables for task in table)


@cache
def all_tasks() -> tuple[Task, ...]:
    """Every task that a judge grades, in the order of the notebooks."""
    tables = (import_module(f"autograder.exercises.{unit}").TASKS for unit in UNITS)
    return tuple(task for table in tables for task in table)


@cache
def capstone_tasks() -> dict[str, Task]:
    """The tasks of the capstone by kind of package (`pass`, `capture`, `cost`); the answer is no cell of a notebook."""
    name = "autograder.exercises.capstone"
    try:
        kinds = import_module(name).KINDS
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        return {}  # where a learner's cells are graded, the capstone's table is not in the view
    return {kind.name: kind.task for kind in kinds}


def tasks_of_notebook(notebook: str) -> tuple[Task, ...]:
    """The tasks of one notebook (file name without suffix), in order; empty for a lesson."""
    return tuple(task for task in all_tasks() if task.notebook == notebook)


def find_task(name: str) -> Task:
    """The task of this name.

    Raises:
        UnknownTaskError: there is none; the message offers the nearest names.
    """
    by_name = {task.name: task for task in (*all_tasks(), *capstone_tasks().values())}
    if name in by_name:
        return by_name[name]
    hint = did_you_mean(name, by_name, most=3) or f" The tasks are {', '.join(by_name)}."
    raise UnknownTaskError(f"no task is named {name!r}.{hint}")


def task_titles() -> dict[str, str]:
    """What to call each task, graded by a judge or by a person, by its name."""
    tasks: tuple[Task | WrittenTask, ...] = (*all_tasks(), *written_tasks())
    return {task.name: task.title for task in tasks}


def find_notebook(short: str) -> tuple[str, str]:
    """Folder and file name (without suffix) of the one exercise notebook whose name starts with `short`.

    Raises:
        UnknownTaskError: no notebook, or more than one, starts like this.
    """
    known = sorted({(UNITS[task.unit], task.notebook) for task in all_tasks()})
    hits = [pair for pair in known if pair[1].startswith(short)]
    if len(hits) != 1:
        names = ", ".join(name for _, name in (hits or known))
        what = "several exercises start" if hits else "no exercise starts"
        raise UnknownTaskError(f"{what} with {short!r}: {names}")
    return hits[0]
