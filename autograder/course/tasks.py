"""The table of graded tasks: what each task asks for and under which conditions it is graded.

This module and the `exercises/DAY/__init__.py` tables import no torch, so that the command line and the
Jupyter server can read them quickly. Points are not here: they live in the notebook metadata.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from functools import cache
from importlib import import_module, resources
from pathlib import Path
from typing import Literal

EvidenceKind = Literal["answer", "artefact", "trace", "measured"]

DAYS = {
    "day0": "day0_start",
    "day1": "day1_compile_stack",
    "day2": "day2_fx_graphs",
    "day3": "day3_model_extraction",
    "day4": "day4_huggingface",
    "day5": "day5_review",
}
"""Short name of each day (as in `check.day1`) and its folder in `solutions/` and `curriculum/`."""


class UnknownTaskError(LookupError):
    """No task has this name."""


@dataclass(frozen=True)
class Task:
    """One graded exercise.

    Attributes:
        name: the task's name; also the `grade_id` of its check cell in the notebook.
        day: short name of the day, a key of `DAYS`.
        notebook: file name of the notebook without its suffix.
        title: one line for tables.
        provides: the names that the learner's cell must define, in the order in which the check takes them.
        evidence: what the grade rests on (see `EvidenceKind`).
        withheld: modules that would answer the task; importing one while graded says "write your own".
        seconds: wall-clock limit for the learner's cells and all cases together, in seconds.
        checklist: keys of the Week 1 success checklist that this task helps to tick.
        export: module of the learner's package `my_fxopt` to which the answer goes once its check passes; later days
            get it by `autograder.learner_side.own_functions.use(name)`. Empty for tasks that export nothing.
        imports: modules that take seconds to import; a worker does so once, before it forks for each answer.
    """

    name: str
    day: str
    notebook: str
    title: str
    provides: tuple[str, ...]
    evidence: EvidenceKind
    withheld: tuple[str, ...] = ()
    seconds: float = 60.0
    checklist: tuple[str, ...] = ()
    export: str = ""
    imports: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """The folder that holds `visible.py`, `judge.py`, `wrong/` and `right/`."""
        return Path(str(resources.files("autograder"))) / "exercises" / self.day / self.name

    @property
    def module(self) -> str:
        """Dotted name of the task's package."""
        return f"autograder.exercises.{self.day}.{self.name}"

    @property
    def answer_id(self) -> str:
        """The `grade_id` of the cell in which the learner writes the answer."""
        return f"{self.name}-answer"


@dataclass(frozen=True)
class WrittenTask:
    """A question that is answered in words and graded by a person, outside the points of the day.

    The rubric and the points stand in the metadata of its cell.

    Attributes:
        name: the task's name; also the `grade_id` of the text cell in which the learner writes.
        day: short name of the day, a key of `DAYS`.
        notebook: file name of the notebook without its suffix.
        title: one line for tables.
        checklist: keys of the Week 1 success checklist that this task helps to tick.
    """

    name: str
    day: str
    notebook: str
    title: str
    checklist: tuple[str, ...] = ()


@cache
def written_tasks() -> tuple[WrittenTask, ...]:
    """Every task that a person grades: `WRITTEN` in the tables of those days that have such tasks."""
    tables = (getattr(import_module(f"autograder.exercises.{day}"), "WRITTEN", ()) for day in DAYS)
    return tuple(task for table in tables for task in table)


@cache
def all_tasks() -> tuple[Task, ...]:
    """Every task that a judge grades, in the order of the notebooks."""
    tables = (import_module(f"autograder.exercises.{day}").TASKS for day in DAYS)
    return tuple(task for table in tables for task in table)


@cache
def capstone_tasks() -> dict[str, Task]:
    """The tasks of the capstone by kind of package (`pass`, `capture`, `cost`); the answer is no cell of a notebook."""
    return {kind.name: kind.task for kind in import_module("autograder.exercises.capstone").KINDS}


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
    near = difflib.get_close_matches(name, by_name, n=3, cutoff=0.4)
    hint = f" Did you mean {', '.join(near)}?" if near else f" Known: {', '.join(by_name)}."
    raise UnknownTaskError(f"no task is named {name!r}.{hint}")


def find_notebook(short: str) -> tuple[str, str]:
    """Folder and file name (without suffix) of the one exercise notebook whose name starts with `short`.

    Raises:
        UnknownTaskError: no notebook, or more than one, starts like this.
    """
    known = sorted({(DAYS[task.day], task.notebook) for task in all_tasks()})
    hits = [pair for pair in known if pair[1].startswith(short)]
    if len(hits) != 1:
        names = ", ".join(name for _, name in (hits or known))
        what = "several exercises start" if hits else "no exercise starts"
        raise UnknownTaskError(f"{what} with {short!r}: {names}")
    return hits[0]
