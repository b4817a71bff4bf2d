"""What a task is: a row of the tables in `exercises/UNIT/__init__.py`. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Literal

from autograder.course.tracks import TRACKS

EvidenceKind = Literal["answer", "artefact", "instrument", "measured"]
"""What the points of a task rest on.

- `answer`: values that the learner's code computes from what it is given; the judge computes them anew.
- `artefact`: something that the judge looks at and tries by itself (a graph, a file with its loader), on inputs that
  the learner's process has not seen.
- `instrument`: what an instrument outside the learner's process saw, which no reading can be known from beforehand.
- `measured`: what a probe saw inside the learner's process, which could be forged there.
"""

UNITS = {unit.name: unit.folder for track in TRACKS for unit in track.units}
"""Short name of each unit (as in `check.day1`) and its folder in `curriculum/`."""

PACKAGE = "my_fxopt"
"""The learner's package: a folder in the workspace."""


@dataclass(frozen=True)
class Task:
    """One graded exercise.

    Attributes:
        name: the task's name; also the `grade_id` of its check cell in the notebook.
        unit: short name of the unit, a key of `UNITS`.
        notebook: file name of the notebook without its suffix.
        title: one line for tables.
        provides: the names that the learner's cell must define, in the order in which the check takes them.
        evidence: what the grade rests on (see `EvidenceKind`).
        measured: misconceptions that a probe finds only by what it sees inside the learner's process.
        withheld: modules that would answer the task; importing one while graded says "write your own", and so does
            calling what is in it, by whatever name, for in the sandbox they are empty (PyTorch's: hollow).
        without: packages that are not in the sandbox at all while this task is graded; what stands in for them takes
            every name and computes nothing.
        instrument: whether the probe asks an instrument that the judge holds (`visible.instrument(case)`); its record
            is the evidence's value `seen`.
        fresh: whether what the answer made goes on in a fresh process, on inputs that the judge adds then
            (`judge.follow_up(case, evidence)`, `visible.fresh(case)`).
        seconds: wall-clock limit for the learner's cells and all cases together, in seconds.
        checklist: keys of the success checklist of its track that this task helps to tick.
        export: module of the learner's package `my_fxopt` to which the answer goes once its check passes; later units
            get it by `autograder.use(name)`. Empty for tasks that export nothing.
        imports: modules that take seconds to import; a worker does so once, before it forks for each answer.
        compiles: whether cells, probe or answers capture, export or compile, or import what does: a worker then takes
            PyTorch's compiler into use once, before it forks for each answer, which takes four seconds.
    """

    name: str
    unit: str
    notebook: str
    title: str
    provides: tuple[str, ...]
    evidence: EvidenceKind
    withheld: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    measured: tuple[str, ...] = ()
    instrument: bool = False
    fresh: bool = False
    seconds: float = 60.0
    checklist: tuple[str, ...] = ()
    export: str = ""
    imports: tuple[str, ...] = ()
    compiles: bool = False

    @property
    def folder(self) -> Path:
        """The folder that holds `visible.py`, `judge.py`, `wrong/` and `right/`."""
        return Path(str(resources.files("autograder"))) / "exercises" / self.unit / self.name

    @property
    def module(self) -> str:
        """Dotted name of the task's package."""
        return f"autograder.exercises.{self.unit}.{self.name}"

    @property
    def answer_id(self) -> str:
        """The `grade_id` of the cell in which the learner writes the answer."""
        return f"{self.name}-answer"


@dataclass(frozen=True)
class WrittenTask:
    """A question that is answered in words and graded by a person, outside the points of the unit.

    The rubric and the points stand in the metadata of its cell.

    Attributes:
        name: the task's name; also the `grade_id` of the text cell in which the learner writes.
        unit: short name of the unit, a key of `UNITS`.
        notebook: file name of the notebook without its suffix.
        title: one line for tables.
        checklist: keys of the success checklist of its track that this task helps to tick.
    """

    name: str
    unit: str
    notebook: str
    title: str
    checklist: tuple[str, ...] = ()
