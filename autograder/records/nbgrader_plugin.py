"""How nbgrader grades with our worker and judge: classes named in its configuration (`course.course_config`).

nbgrader's command line, its form grader and `fxopt grade` all read that configuration, so that they share one
grading path. Imports no torch.
"""

from __future__ import annotations

import html
import json
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import nbformat
from jinja2 import Environment
from nbconvert.exporters import HTMLExporter
from nbformat import NotebookNode
from nbgrader.converters import Autograde
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Unicode, default

from autograder.course.course import Course
from autograder.course.notebooks import grade_id, points_of
from autograder.course.reading import read_notebook
from autograder.course.tasks import tasks_of_notebook
from autograder.exchange.markup import with_code
from autograder.exchange.verdict import TaskOutcome
from autograder.grading.grading import NotebookOutcome, grade_notebook
from autograder.records.intake import PROBLEMS_KEY, IntakeError, handed_in, look_into, take_in
from autograder.records.pages import StrictTemplates
from fxopt_workbench.files import write_whole


class AutogradeReceived(Autograde):
    """nbgrader's autograding, of submissions as `intake` rebuilt them and of nothing else in a learner's folder."""

    course_root = Unicode(help="Root folder of the course.").tag(config=True)

    @property
    def _input_directory(self) -> str:
        course = Course(Path(self.course_root))
        return str(course.received.relative_to(course.records) if self._sanitizing else super()._input_directory)

    def init_notebooks(self) -> None:
        """Take in every submission that was asked for, then find the notebooks among what was taken in."""
        course = Course(Path(self.course_root))
        for student, day in handed_in(course):
            if fnmatchcase(student, self.coursedir.student_id) and fnmatchcase(day, self.coursedir.assignment_id):
                try:
                    take_in(course, look_into(course, student, day))
                except IntakeError as error:
                    self.log.error(str(error))
        super().init_notebooks()


def grade_what_was_received() -> None:
    """Make nbgrader's own command and its form grader autograde as `fxopt grade` does; they have no setting for it."""
    from nbgrader.apps import api, autogradeapp

    for module in (api, autogradeapp):
        module.Autograde = AutogradeReceived


class FeedbackExporter(HTMLExporter):
    """Writes feedback pages without scripts, from a template that builds on nbgrader's and finds it by its folder."""

    @default("template_paths")
    def _template_paths(self, prune: bool = True, root_dirs: list[str] | None = None) -> list[str]:
        return [*super()._template_paths(prune, root_dirs), *self.extra_template_basedirs]

    def _create_environment(self) -> Environment:
        environment = super()._create_environment()
        environment.loader = StrictTemplates(environment.loader, None)
        return environment


class GradeByJudge(NbGraderPreprocessor):
    """Takes the place of nbgrader's `Execute`: the learner's cells run in the sandbox, the judge gives the grade."""

    course_root = Unicode(help="Root folder of the course.").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        """Grade one sanitised notebook; fills the outputs of its cells."""
        course = Course(Path(self.course_root))
        names = resources["nbgrader"]
        name = names["notebook"]
        tasks = tasks_of_notebook(name)
        noted = nb.metadata.pop(PROBLEMS_KEY, {"problems": [], "unreadable": False})
        release = read_notebook(course.curriculum / names["assignment"] / f"{name}.ipynb")
        if noted["unreadable"]:
            outcome = unreadable_outcome(name, release, noted["problems"])
        elif not tasks:
            outcome = NotebookOutcome(name, problems=noted["problems"])
        else:
            outcome = grade_notebook(name, nb, release, tasks, course.seed())
            outcome.problems = noted["problems"] + outcome.problems
        fill_outputs(nb, outcome)
        write_outcome(course, names["student"], names["assignment"], outcome)
        return nb, resources


def unreadable_outcome(name: str, release: NotebookNode, problems: list[str]) -> NotebookOutcome:
    """Zero points for every task of a submission that could not be read."""
    points = points_of(release)
    tasks = [
        TaskOutcome(
            task.name,
            task.title,
            "error",
            ["Not graded: the notebook could not be read."],
            ["unreadable"],
            max_points=points.get(task.name, 0.0),
        )
        for task in tasks_of_notebook(name)
    ]
    return NotebookOutcome(name, tasks, problems)


def fill_outputs(notebook: NotebookNode, outcome: NotebookOutcome) -> None:
    """Put points and messages below the checks, and what the learner's cells printed below these."""
    by_task = {task.task: task for task in outcome.tasks}
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        name = grade_id(cell)
        if name in by_task:
            cell.outputs = task_outputs(by_task[name])
        elif cell.metadata.get("nbgrader", {}).get("grade"):
            # Without output nbgrader would give all the points.
            missing = TaskOutcome(name or "", name or "", "error", ["Not graded: there is no task of this name."])
            cell.outputs = task_outputs(missing)
        else:
            outputs = outcome.outputs.get(name or cell["id"], [])
            cell.outputs = [nbformat.from_dict(output) for output in outputs]
    if outcome.problems:
        listed = "\n".join(f"- {problem}" for problem in outcome.problems)
        text = f"**About this notebook**\n\n{listed}"
        notebook.cells.insert(0, nbformat.v4.new_markdown_cell(text, id="fxopt-problems"))


def task_outputs(task: TaskOutcome) -> list[NotebookNode]:
    """Output of a check cell: messages as HTML; as plain text the points, which is where nbgrader reads them."""
    head = f"{task.status}: {task.points:g} of {task.max_points:g} points"
    lines = task.messages or ["All visible and hidden cases pass."]
    body = "".join(f"<p>→ {with_code(line)}</p>" for line in lines)
    data = {"text/plain": f"{task.points:g}", "text/html": f"<p><b>{html.escape(head)}</b></p>{body}"}
    told = {"title": task.title, "status": task.status}  # for the list at the head of the feedback page
    return [nbformat.v4.new_output("execute_result", data=data, metadata=told, execution_count=None)]


def outcome_file(course: Course, student: str, day: str, notebook: str) -> Path:
    """Where the latest outcome of one submitted notebook is recorded."""
    return course.records / "outcomes" / student / day / f"{notebook}.json"


def write_outcome(course: Course, student: str, day: str, outcome: NotebookOutcome) -> None:
    """Record an outcome at once and whole, so that a grading run that is killed later loses nothing."""
    path = outcome_file(course, student, day, outcome.notebook)
    values = outcome.to_json() | {
        "student": student,
        "day": day,
        "graded_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    write_whole(path, json.dumps(values, indent=1))
