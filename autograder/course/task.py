"""What a task is: a row of the tables in `exercises/DAY/__init__.py`. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
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

PACKAGE = "my_fxopt"
"""The learner's package: a folder in the workspace."""


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
            get it by `autograder.use(name)`. Empty for tasks that export nothing.
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
