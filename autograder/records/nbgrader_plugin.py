"""How nbgrader grades with our worker and judge: classes named in its configuration (`course.course_config`).

nbgrader's command line, its form grader and `fxopt grade` all read that configuration, so that they share one
grading path. Imports no torch.
"""

from __future__ import annotations

import html
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import nbformat
from nbconvert.exporters import HTMLExporter, NotebookExporter
from nbformat import NotebookNode
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Unicode, default

from autograder.course.course import Course
from autograder.course.notebooks import (
    UnreadableNotebookError,
    compare_with_release,
    grade_id,
    points_of,
    read_notebook,
    restored,
)
from autograder.course.tasks import tasks_of_notebook
from autograder.exchange.markup import with_code
from autograder.exchange.verdict import TaskOutcome
from autograder.grading.grading import NotebookOutcome, grade_notebook
from fxopt_workbench.files import write_whole

PROBLEMS_KEY = "fxopt_problems"
"""Notebook metadata that carries problems from reading a submission to its feedback."""


class TolerantNotebookExporter(NotebookExporter):
    """Reads submissions that stock nbgrader stops at: what is no notebook becomes an empty one that says why."""

    course_root = Unicode(help="Root folder of the course.").tag(config=True)

    def from_filename(
        self, filename: str, resources: dict[str, Any] | None = None, **options: Any
    ) -> tuple[NotebookNode, dict[str, Any]]:
        """Read one notebook for grading; problems with it are noted in its metadata."""
        course, path = Course(Path(self.course_root)), Path(filename)
        if not path.resolve().is_relative_to(course.submitted.resolve()):
            return super().from_filename(filename, resources=resources, **options)
        release = read_notebook(course.curriculum / path.parent.name / path.name)
        try:
            notebook = read_notebook(path)
            problems = compare_with_release(notebook, release).problems()
            problems += kernel_problems(notebook)
            notebook, unreadable = restored(notebook, release), False
        except UnreadableNotebookError as error:
            notebook, problems, unreadable = release, [str(error)], True
        notebook.metadata[PROBLEMS_KEY] = {"problems": problems, "unreadable": unreadable}
        notebook.metadata["kernelspec"] = release.metadata["kernelspec"]
        return self.from_notebook_node(notebook, resources=resources or {}, **options)


class FeedbackExporter(HTMLExporter):
    """Writes feedback pages, from a template that builds on nbgrader's and finds it by its folder."""

    @default("template_paths")
    def _template_paths(self, prune: bool = True, root_dirs: list[str] | None = None) -> list[str]:
        return [*super()._template_paths(prune, root_dirs), *self.extra_template_basedirs]


def kernel_problems(notebook: NotebookNode) -> list[str]:
    """A line when the notebook was made for another language than Python."""
    kernelspec = notebook.metadata.get("kernelspec", {})
    language = str(kernelspec.get("language", kernelspec.get("name", "python")))[:40]
    if "python" in language.lower():
        return []
    return [f"the notebook's kernel is {language!r}; it is graded with Python 3"]


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
