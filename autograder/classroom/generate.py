"""A class for rehearsals: submissions of students who do not exist, right and wrong in the ways that tasks know.

For trying a week before the first real one, for tests, and for the instructor's guide. Each answer is the reference, or
one of the right and wrong answers that come with a task, or none. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random

import nbformat
from nbformat import NotebookNode
from nbgrader.api import Gradebook

from autograder.course.course import Course
from autograder.course.notebooks import grade_id
from autograder.course.reading import read_notebook
from autograder.course.sources import read_source
from autograder.course.submission import TIMESTAMP_FORMAT
from autograder.course.task import UNITS, Task
from autograder.course.tasks import all_tasks, tasks_of_notebook, written_tasks
from autograder.records.gradebook import prepare_gradebook
from fxopt_workbench.files import write_whole

FIRST = "Ada Alan Barbara Blaise Claude Dana Edsger Emmy Frances Grace Hedy Ivan John Karen Ken Leslie Lynn".split()
LAST = "Allen Bartik Conway Dijkstra Easley Franklin Goldberg Hopper Iverson Johnson Keller Lamport McCarthy".split()

KINDS = {"reference": 50, "right": 12, "wrong": 28, "blank": 10}
"""How often in a hundred answers each kind comes."""

WORDS = (
    "Dynamo reads the bytecode and hands the graph to AOTAutograd, which hands it to the backend.",
    "I measured it ten times and took the median; the spread was a few percent.",
    "It depends.",
)


class GenerateError(ValueError):
    """The class cannot be made; the message says why."""


@dataclass(frozen=True)
class Generated:
    """One submission that was made.

    Attributes:
        student: in whose name.
        unit: the assignment's folder.
        answers: by task, which answer it holds, such as `wrong/keeps_the_last`.
    """

    student: str
    unit: str
    answers: dict[str, str]


def generate(course: Course, students: int, unit: str, seed: int = 0) -> Iterator[Generated]:
    """Hand in for students `rehearsal-001` and so on, and put them on the class list. The same seed, the same class.

    Args:
        course: the course.
        students: how many, from 1 to 9999.
        unit: the assignment (folder name).
        seed: of what is drawn.

    Raises:
        GenerateError: no such assignment, or students of these names have handed it in already.
    """
    names = list(dict.fromkeys(task.notebook for task in all_tasks() if UNITS[task.unit] == unit))
    if not names:
        known = ", ".join(dict.fromkeys(UNITS[task.unit] for task in all_tasks()))
        raise GenerateError(f"there is no assignment {unit!r} with an exercise; there are {known}")
    keys = [f"rehearsal-{number:03}" for number in range(1, students + 1)]
    there = [key for key in keys if (course.submitted / key / unit).exists()]
    if there:
        raise GenerateError(
            f"{there[0]} has handed in {unit} already; remove course/submitted/rehearsal-* to make the class anew"
        )
    prepare_gradebook(course)
    with Gradebook(course.database, "fxopt") as gradebook:
        for number, key in enumerate(keys):
            first, last = FIRST[number % len(FIRST)], LAST[number * 5 % len(LAST)]
            gradebook.update_or_create_student(key, first_name=first, last_name=last, email=f"{key}@students.example")
    random, now = Random(f"{seed} {unit}"), datetime.now(UTC)
    releases = {name: read_notebook(course.curriculum / unit / f"{name}.ipynb") for name in names}
    references = {name: read_source(course.sources_of(unit) / f"{name}.py") for name in names}
    for key in keys:
        # Weak and strong students: one draw for each, not only one for each answer.
        skill = random.betavariate(3, 1.6)
        handed_in = now - timedelta(minutes=random.randrange(1, 600))
        answers: dict[str, str] = {}
        for name in names:
            notebook = nbformat.from_dict(releases[name])
            for task in tasks_of_notebook(name):
                answers[task.name] = _answer(notebook, references[name], task, random, skill)
            _write_words(notebook, name, random)
            content = nbformat.writes(notebook).encode()
            stamp = handed_in.strftime("%Y%m%dT%H%M%S%fZ")
            write_whole(course.records / "history" / key / unit / f"{name}-{stamp}.ipynb", content)
            write_whole(course.submitted / key / unit / f"{name}.ipynb", content)
        write_whole(course.submitted / key / unit / "timestamp.txt", handed_in.strftime(TIMESTAMP_FORMAT))
        yield Generated(key, unit, answers)


def _answer(notebook: NotebookNode, reference: NotebookNode, task: Task, random: Random, skill: float) -> str:
    """Put an answer to one task into a notebook; its name."""
    weights = dict(KINDS)
    weights["wrong"] = round(2 * KINDS["wrong"] * (1 - skill))
    weights["blank"] = round(2 * KINDS["blank"] * (1 - skill))
    [kind] = random.choices(list(weights), list(weights.values()))
    cell = next(cell for cell in notebook.cells if grade_id(cell) == task.answer_id)
    if kind == "reference":
        cell.source = next(other for other in reference.cells if grade_id(other) == task.answer_id).source
    elif kind != "blank":
        path = random.choice(sorted((task.folder / kind).glob("*.py")))
        cell.source = path.read_text()
        return f"{kind}/{path.stem}"
    return kind


def _write_words(notebook: NotebookNode, name: str, random: Random) -> None:
    """Answer some of the questions that a person grades."""
    questions = {task.name for task in written_tasks() if task.notebook == name}
    for cell in notebook.cells:
        if grade_id(cell) in questions and random.random() < 0.7:
            cell.source = random.choice(WORDS)
