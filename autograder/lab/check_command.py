"""`fxopt check NOTEBOOK`: all checks of a notebook in a process of its own, on visible cases.

For tasks whose answer is a graph it also shows what the learner's own code did: tables as text, pictures as files.
Imports no torch until there is such a thing to show.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from textwrap import indent
from typing import Any

from rich.console import Console
from rich.markup import escape

from autograder.course.course import NoCourseError, find_course
from autograder.course.notebooks import compare_with_release
from autograder.course.own_package import export_passed
from autograder.course.progress import append_event
from autograder.course.reading import UnreadableNotebookError, read_notebook
from autograder.course.saved import saved_notebook
from autograder.course.task import UNITS, Task
from autograder.course.tasks import tasks_of_notebook
from autograder.exchange.channel import Message
from autograder.grading.grading import NotebookOutcome, grade_notebook
from autograder.grading.task_run import Watch
from autograder.records.intake import kernel_problems

ALL_PASSED, NOT_PASSED, NOT_CHECKED = 0, 1, 2
"""Exit codes of `fxopt check`."""


@dataclass
class Checked:
    """What `fxopt check` found.

    Attributes:
        outcome: of every task on its visible cases; a notebook that cannot be checked has its reason in `problems`.
        exit_code: of the command.
        saved: task to a line that says what became of its answer in the learner's package.
    """

    outcome: NotebookOutcome
    exit_code: int
    saved: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Everything as JSON values."""
        return {**self.outcome.to_json(), "saved": self.saved}


def check_notebook(path: Path, watch: Watch | None = None) -> Checked:
    """Try every task of a notebook on its visible cases.

    Of a notebook in the workspace the outcomes count towards the checklist, and answers that pass go into the learner's
    package, as after a check in the notebook.

    Args:
        path: the notebook.
        watch: is told each case with its evidence.
    """
    name = path.name.removesuffix(".ipynb").removesuffix(".new")
    outcome = NotebookOutcome(name)
    try:
        notebook = saved_notebook(path)
        tasks = tasks_of_notebook(name)
        if not tasks:
            outcome.problems = [f"{path.name}: no exercise of this name has checks; nothing to check here"]
            return Checked(outcome, ALL_PASSED if _is_lesson(name) else NOT_CHECKED)
        course = find_course()
        release = read_notebook(course.curriculum / UNITS[tasks[0].unit] / f"{name}.ipynb")
    except (UnreadableNotebookError, NoCourseError) as error:
        outcome.problems = [str(error)]
        return Checked(outcome, NOT_CHECKED)
    problems = compare_with_release(notebook, release).problems() + kernel_problems(notebook)
    # The learner's own machine and code: a sandbox would only hide files that the learner may want to read.
    outcome = grade_notebook(name, notebook, release, tasks, None, sandboxed=False, watch=watch)
    outcome.problems = problems + outcome.problems
    found = Checked(outcome, ALL_PASSED if outcome.passed else NOT_PASSED)
    if path.resolve().is_relative_to(course.workspace.resolve()):
        statuses = {task.task: task.status for task in outcome.tasks}
        for task in tasks:
            append_event(course.workspace, "check", task.name, statuses[task.name])
        passed = [task for task in tasks if statuses[task.name] == "passed"]
        found.saved = export_passed(notebook, passed, course.workspace)
    return found


def _is_lesson(name: str) -> bool:
    try:
        return any(find_course().curriculum.glob(f"*/{name}.ipynb"))
    except NoCourseError:
        return False


class Exhibits:
    """Collects the evidence of the graph tasks of a notebook, to show what the learner's own code did."""

    def __init__(self) -> None:
        self._seen: dict[str, list[tuple[Task, Message, Message]]] = {}

    def watch(self, task: Task, case: Message, evidence: Message) -> None:
        """Keep what came with graphs."""
        if evidence.header.get("graphs"):
            self._seen.setdefault(task.name, []).append((task, case, evidence))

    def lines(self, task: str, folder: Path) -> Iterator[str]:
        """Texts of what a task's code did; pictures are written to `folder` and named, each with its text."""
        from autograder.exchange.evidence import Case, Evidence
        from autograder.learner_side.check import exhibit_text

        pictures = 0
        for owner, case, evidence in self._seen.get(task, []):
            visible = import_module(owner.module + ".visible")
            shown = visible.show(Case.from_message(*case), Evidence.from_message(*evidence))
            for exhibit in shown:
                if isinstance(exhibit, str):
                    yield exhibit
                    continue
                pictures += 1
                folder.mkdir(parents=True, exist_ok=True)
                path = exhibit.save(folder / f"{task}-{pictures}.svg")
                yield f"{exhibit_text(exhibit).splitlines()[0]}: {path}"


def print_outcome(found: Checked, console: Console, exhibits: Exhibits, folder: Path) -> None:
    """Print what was found for a person; pictures of what the code did go into `folder`."""
    outcome = found.outcome
    for problem in outcome.problems:
        console.print(f"! {escape(problem)}", soft_wrap=True)
    for task in outcome.tasks:
        console.print(f"{escape(task.title)}: {task.status}", soft_wrap=True)
        for message in task.messages:
            console.print(f"  → {escape(message)}", soft_wrap=True)
        if task.task in found.saved:
            console.print(f"  {escape(found.saved[task.task])}.", soft_wrap=True)
        for text in exhibits.lines(task.task, folder):
            console.print(escape(indent(text, "    ")), soft_wrap=True, highlight=False)
    if outcome.tasks:
        passed = sum(task.status == "passed" for task in outcome.tasks)
        console.print(f"{passed} of {len(outcome.tasks)} checks pass ({outcome.seconds:.1f} s)")
