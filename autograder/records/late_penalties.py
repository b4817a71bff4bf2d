"""What lateness costs, by the rules of `course.toml`, where nbgrader and its form grader show it. Imports no torch."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from nbgrader.api import Gradebook, SubmittedNotebook
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Unicode

from autograder.course.course import Course
from autograder.course.rules import Rules
from autograder.course.rules_file import read_rules


class LatePenalties(NbGraderPreprocessor):
    """Takes the place of nbgrader's `AssignLatePenalties`, which knows of no extensions for one student."""

    course_root = Unicode(help="Root folder of the course.").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        """Set the penalty of one notebook that has just been graded."""
        names = resources["nbgrader"]
        rules = read_rules(Course(Path(self.course_root)))
        with Gradebook(names["db_url"]) as gradebook:
            set_penalty(gradebook, rules, names["student"], names["assignment"], names["notebook"])
        return nb, resources


def set_penalty(gradebook: Gradebook, rules: Rules, student: str, day: str, notebook: str) -> None:
    """Bring the penalty of a submitted notebook up to date with its points and the rules.

    Raises:
        nbgrader.api.MissingEntry: it was not submitted.
    """
    found: SubmittedNotebook = gradebook.find_submission_notebook(notebook, day, student)
    when = found.assignment.timestamp
    lateness = rules.for_student(student, day).lateness(None if when is None else when.replace(tzinfo=UTC))
    found.late_submission_penalty = round(float(found.score) * lateness.share, 4)
    gradebook.db.commit()
