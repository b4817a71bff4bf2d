"""The right answers of a notebook's tasks, and the cells that are run for another answer in their place.

Imports no torch.
"""

from __future__ import annotations

from autograder.authoring.gate import compose
from autograder.course.course import Course
from autograder.course.notebooks import grade_id
from autograder.course.reading import read_notebook
from autograder.course.sources import read_source
from autograder.course.task import UNITS, Task
from autograder.course.tasks import tasks_of_notebook

REFERENCE = "reference"
"""Name of the answer in the notebook's source."""


class AuthoredNotebook:
    """A notebook as its authors wrote it: the tasks, their right answers and the cells between.

    Attributes:
        name: file name without suffix.
        tasks: its tasks, in order.
    """

    def __init__(self, course: Course, name: str) -> None:
        """Read the notebook `name` of a course."""
        self.name = name
        self.tasks = list(tasks_of_notebook(name))
        unit = UNITS[self.tasks[0].unit]
        solution = read_source(course.sources_of(unit) / f"{name}.py")
        self._blank = read_notebook(course.curriculum / unit / f"{name}.ipynb")
        self._references = {grade_id(cell) or "": cell.source for cell in solution.cells}

    def answers(self, task: Task) -> dict[str, str]:
        """The right answers to a task by name: the reference, then the files of `right/`."""
        right = sorted((task.folder / "right").glob("*.py"))
        return {REFERENCE: self._references[task.answer_id]} | {path.stem: path.read_text() for path in right}

    def cells(self, task: Task, answer: str) -> list[dict[str, str]]:
        """The cells that are run for an answer: the references before it, then the answer."""
        return compose(self._blank, self._references, self.tasks, task, answer)
