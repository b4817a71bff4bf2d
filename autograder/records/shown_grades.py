"""What a page shows of grades: nbgrader's points, and who gave them, or whether anybody has yet.

Imports no torch.
"""

from __future__ import annotations

from typing import Any, Literal

from nbformat import NotebookNode
from nbgrader.api import Grade
from nbgrader.preprocessors import GetGrades

GivenBy = Literal["waits for a person", "given by a person", "not written", "given by the judge"]
"""Whose points are shown."""


class ShownGrades(GetGrades):
    """Tells whose the points are, and leaves out of the sum what waits for a person, as `fxopt grade` does."""

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        """A graded notebook with its grades."""
        # Of the gradebook, not of the notebook, whose other cells may say whatever their author likes.
        self._points_that_wait = 0.0
        nb, resources = super().preprocess(nb, resources)
        resources["nbgrader"]["max_score"] -= self._points_that_wait
        return nb, resources

    def _get_score(self, cell: NotebookNode, resources: dict[str, Any]) -> None:
        super()._get_score(cell, resources)
        told = cell.metadata.nbgrader
        grade = self.gradebook.find_grade(told.grade_id, self.notebook_id, self.assignment_id, self.student_id)
        told["said"] = in_words(grade)
        if grade.needs_manual_grade:
            self._points_that_wait += grade.max_score


def given_by(grade: Grade) -> GivenBy:
    """Whose the points of a graded cell are."""
    if grade.needs_manual_grade:
        return "waits for a person"
    if grade.manual_score is not None:
        return "given by a person"
    # Words that were written wait for a person, so these are not there.
    return "not written" if grade.cell.cell_type == "markdown" else "given by the judge"


def in_words(grade: Grade) -> str:
    """The points of a graded cell for its learner; what nobody has looked at does not read as if it were graded."""
    most = f"{round(float(grade.max_score), 2):g} points"
    points = f"{round(float(grade.score), 2):g} of {most}"
    by = given_by(grade)
    if by == "waits for a person":
        return f"{by}: up to {most}"
    if by == "not written":
        return f"{by}: {points}"
    return f"{points}, {by}" if by == "given by a person" else points
