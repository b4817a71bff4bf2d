"""Points that a person gave, kept over regrading and over a submission with the same words.

nbgrader asks a person to look again whenever a submission is graded anew, also where not a word of the answer changed.
Here a person is asked again only about words that they have not seen. Imports no torch.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from nbconvert.exporters.exporter import ResourcesDict
from nbformat import NotebookNode
from nbgrader.api import (
    Assignment,
    BaseCell,
    Grade,
    Gradebook,
    GradeCell,
    Notebook,
    SubmittedAssignment,
    SubmittedNotebook,
)
from nbgrader.preprocessors import SaveAutoGrades
from sqlalchemy import Column, MetaData, String, Table, delete, insert, select
from sqlalchemy.engine import Connection

from autograder.course.notebooks import grade_id
from autograder.records.database import connect, prepare_tables, writing

_METADATA = MetaData()

_WORDS = Table(
    "fxopt_graded_words",
    _METADATA,
    Column("grade_id", String(32), primary_key=True),
    # Of the answer that was graded last, and of the one for which the person's points are.
    Column("latest", String(64), nullable=False),
    Column("settled", String(64)),
)


def words_of(notebook: NotebookNode, name: str) -> str:
    """A hash of what the learner wrote for a graded cell: its own text, or that of the answer cell of its task."""
    sources = {grade_id(cell): cell.source for cell in notebook.cells}
    answer = sources.get(f"{name}-answer", sources.get(name, ""))
    return hashlib.sha256("\n".join(line.rstrip() for line in answer.strip().splitlines()).encode()).hexdigest()


class SaveGrades(SaveAutoGrades):
    """nbgrader's step that saves the judge's points; it remembers for which words a person gave theirs."""

    def preprocess(self, nb: NotebookNode, resources: ResourcesDict) -> tuple[NotebookNode, ResourcesDict]:
        """Save the points of one graded notebook."""
        self._notebook = nb
        self._engine = connect(resources["nbgrader"]["db_url"])
        try:
            prepare_tables(self._engine, _METADATA)
            return super().preprocess(nb, resources)
        finally:
            self._engine.dispose()

    def _add_score(self, cell: NotebookNode, resources: ResourcesDict) -> None:
        place = self.notebook_id, self.assignment_id, self.student_id
        grade = self.gradebook.find_grade(cell.metadata["nbgrader"]["grade_id"], *place)
        was_settled = grade.manual_score is not None and not grade.needs_manual_grade
        super()._add_score(cell, resources)
        latest = words_of(self._notebook, cell.metadata["nbgrader"]["grade_id"])
        with writing(self._engine) as connection:
            settled = _update(connection, str(grade.id), latest, was_settled)
        if grade.manual_score is not None and settled == latest:
            grade.needs_manual_grade = False
            self.gradebook.db.commit()


def _update(connection: Connection, grade: str, latest: str, was_settled: bool) -> str | None:
    """Note the words that are graded now; the words for which the person's points are, if there are any."""
    known = connection.execute(select(_WORDS).where(_WORDS.c.grade_id == grade)).one_or_none()
    settled = None if known is None else known.latest if was_settled else known.settled
    connection.execute(delete(_WORDS).where(_WORDS.c.grade_id == grade))
    connection.execute(insert(_WORDS).values(grade_id=grade, latest=latest, settled=settled))
    return settled


@dataclass(frozen=True)
class CellGrade:
    """The points of one graded cell, as nbgrader's gradebook has them.

    Attributes:
        student: whose it is.
        assignment: the assignment's folder.
        notebook: file name without suffix.
        name: the task's name.
        written: whether it is answered in words, so that only a person gives points.
        max_points: most points.
        judged: points of the judge, on the latest attempt that was graded; `None` where only a person gives them.
        manual: points that a person gave; `None` while nobody did.
        extra: further points that a person gave.
        waits: whether a person has to look at it.
    """

    student: str
    assignment: str
    notebook: str
    name: str
    written: bool
    max_points: float
    judged: float | None
    manual: float | None
    extra: float
    waits: bool

    @property
    def person(self) -> float | None:
        """What counts in place of the judge's points; `None` where theirs count, or while a person has to look."""
        if self.manual is not None and not (self.written and self.waits):
            return self.manual
        # Without a person there are points for words only where nothing was written.
        return self.judged if self.written and not self.waits else None


def cell_grades(gradebook: Gradebook, student: str | None = None) -> list[CellGrade]:
    """The points of every graded cell that was handed in, in one query."""
    # Tables, not mapped classes: nbgrader's classes ask the database again for every property of every row.
    grade, base, cell = Grade.__table__, BaseCell.__table__, GradeCell.__table__
    submitted, sheet = SubmittedAssignment.__table__, SubmittedNotebook.__table__
    notebook, assignment = Notebook.__table__, Assignment.__table__
    query = (
        select(
            submitted.c.student_id,
            assignment.c.name.label("assignment"),
            notebook.c.name.label("notebook"),
            base.c.name.label("cell"),
            cell.c.cell_type,
            cell.c.max_score,
            grade.c.auto_score,
            grade.c.manual_score,
            grade.c.extra_credit,
            grade.c.needs_manual_grade,
        )
        .select_from(grade)
        .join(base, base.c.id == grade.c.cell_id)
        .join(cell, cell.c.id == base.c.id)
        .join(sheet, sheet.c.id == grade.c.notebook_id)
        .join(submitted, submitted.c.id == sheet.c.assignment_id)
        .join(notebook, notebook.c.id == sheet.c.notebook_id)
        .join(assignment, assignment.c.id == submitted.c.assignment_id)
        .order_by(submitted.c.student_id, assignment.c.name, notebook.c.name, base.c.name)
    )
    if student is not None:
        query = query.where(submitted.c.student_id == student)
    rows: Any = gradebook.db.execute(query)
    return [
        CellGrade(
            row.student_id,
            row.assignment,
            row.notebook,
            row.cell,
            row.cell_type == "markdown",
            float(row.max_score),
            row.auto_score,
            row.manual_score,
            row.extra_credit or 0.0,
            bool(row.needs_manual_grade),
        )
        for row in rows
    ]
