"""`submit("ex_01")` at the end of an exercise notebook: hands the saved notebook in, grades it, shows the result."""

from __future__ import annotations

import os
import subprocess
import sys

from autograder.learner_side.mode import is_grading


def submit(exercise: str) -> None:
    """Submit the saved notebook and grade it in a process of its own; prints points, messages and the feedback's place.

    Args:
        exercise: how the notebook's name begins, such as `"ex_01"`.
    """
    if is_grading():
        print("Submissions do nothing while grading.")
        return
    from autograder.course.course import NoCourseError
    from autograder.course.reading import UnreadableNotebookError
    from autograder.course.submission import UnsavedAnswersError, check_saved
    from autograder.course.tasks import UnknownTaskError

    try:
        check_saved(exercise)
    except UnsavedAnswersError as error:
        print(error)
        return
    except (NoCourseError, UnknownTaskError, UnreadableNotebookError) as error:
        print(f"Not submitted: {error}.")
        return
    print("Handing in; then every task is graded, on hidden cases too. This takes one to four minutes.", flush=True)
    command = [sys.executable, "-m", "fxopt_workbench.cli", "submit", exercise, "--grade"]
    # A kernel asks every process for a terminal's colours; a cell would show each step of a bar on a line of its own.
    environment = {name: value for name, value in os.environ.items() if name != "FORCE_COLOR"}
    environment |= {"COLUMNS": "100", "NO_COLOR": "1", "TTY_COMPATIBLE": "0", "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as running:
        assert running.stdout is not None
        for line in running.stdout:
            print(line, end="", flush=True)
