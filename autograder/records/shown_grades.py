"""What a feedback page shows of grades: nbgrader's, apart from those that a person has still to give.

Imports no torch.
"""

from __future__ import annotations

from typing import Any

from nbformat import NotebookNode
from nbgrader.preprocessors import GetGrades


class ShownGrades(GetGrades):
    """Marks answers that wait for a person, and leaves their points out of the sum, as `fxopt grade` does."""

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
        told["waiting"] = bool(grade.needs_manual_grade)
        if told["waiting"]:
            self._points_that_wait += grade.max_score
