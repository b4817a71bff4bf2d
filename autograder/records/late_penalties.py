"""What lateness costs, by the rules of `course.toml`, where nbgrader and its form grader show it. Imports no torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from nbgrader.api import Gradebook
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Unicode

from autograder.course.course import Course
from autograder.course.rules import Rules
from autograder.course.rules_file import read_rules
from autograder.records.verdicts import VerdictStore


class LatePenalties(NbGraderPreprocessor):
    """Takes the place of nbgrader's `AssignLatePenalties`, which knows of no extensions for one student."""

    course_root = Unicode(help="Root folder of the course.").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        """Set the penalty of one notebook that has just been graded."""
        names = resources["nbgrader"]
        rules = read_rules(Course(Path(self.course_root)))
        set_penalty(names["db_url"], rules, names["student"], names["assignment"], names["notebook"])
        return nb, resources


def set_penalty(database: str, rules: Rules, student: str, unit: str, notebook: str) -> None:
    """Bring the penalty of a submitted notebook up to date with its points and the rules.

    Raises:
        nbgrader.api.MissingEntry: it was not submitted.
    """
    with VerdictStore(database) as store:
        # By our own records: what is handed in again, byte for byte, came when it came first.
        times = [each.received_at for each in store.attempts(student, unit) if each.notebook == notebook]
    lateness = rules.for_student(student, unit).lateness(times[-1] if times else None)
    with Gradebook(database) as gradebook:
        found = gradebook.find_submission_notebook(notebook, unit, student)
        found.late_submission_penalty = round(float(found.score) * lateness.share, 4)
        gradebook.db.commit()
