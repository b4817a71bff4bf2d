"""`fxopt check NOTEBOOK`: all checks of a notebook in a process of its own, on visible cases. Imports no torch."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.markup import escape

from autograder.course import NoCourseError, find_course
from autograder.grading import NotebookOutcome, grade_notebook
from autograder.nbgrader_plugin import kernel_problems
from autograder.notebooks import UnreadableNotebookError, compare_with_release, read_notebook
from autograder.tasks import DAYS, tasks_of_notebook

ALL_PASSED, NOT_PASSED, NOT_CHECKED = 0, 1, 2
"""Exit codes of `fxopt check`."""


def check_notebook(path: Path) -> tuple[NotebookOutcome, int]:
    """Outcome of every task of a notebook on its visible cases, and the exit code.

    A notebook that cannot be checked has its reason in `problems`.
    """
    name = path.name.removesuffix(".ipynb").removesuffix(".new")
    outcome = NotebookOutcome(name)
    try:
        notebook = read_notebook(path)
        tasks = tasks_of_notebook(name)
        if not tasks:
            outcome.problems = [f"{path.name}: no exercise of this name has checks; nothing to check here"]
            return outcome, ALL_PASSED if _is_lesson(name) else NOT_CHECKED
        release = read_notebook(find_course().curriculum / DAYS[tasks[0].day] / f"{name}.ipynb")
    except (UnreadableNotebookError, NoCourseError) as error:
        outcome.problems = [str(error)]
        return outcome, NOT_CHECKED
    problems = compare_with_release(notebook, release).problems() + kernel_problems(notebook)
    # The learner's own machine and code: a sandbox would only hide files that the learner may want to read.
    outcome = grade_notebook(name, notebook, release, tasks, None, sandboxed=False)
    outcome.problems = problems + outcome.problems
    return outcome, ALL_PASSED if outcome.passed else NOT_PASSED


def _is_lesson(name: str) -> bool:
    try:
        return any(find_course().curriculum.glob(f"*/{name}.ipynb"))
    except NoCourseError:
        return False


def print_outcome(outcome: NotebookOutcome, console: Console) -> None:
    """Print an outcome for a person."""
    for problem in outcome.problems:
        console.print(f"! {escape(problem)}", soft_wrap=True)
    for task in outcome.tasks:
        console.print(f"{escape(task.title)}: {task.status}", soft_wrap=True)
        for message in task.messages:
            console.print(f"  → {escape(message)}", soft_wrap=True)
    if outcome.tasks:
        passed = sum(task.status == "passed" for task in outcome.tasks)
        console.print(f"{passed} of {len(outcome.tasks)} checks pass ({outcome.seconds:.1f} s)")
