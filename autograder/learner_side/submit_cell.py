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
    from autograder.course.submission import UnsavedAnswersError, check_saved

    try:
        check_saved(exercise)
    except UnsavedAnswersError as error:
        print(error)
        return
    print("Handing in; then every task is graded, on hidden cases too. This takes one to four minutes.", flush=True)
    command = [sys.executable, "-m", "fxopt_workbench.cli", "submit", exercise, "--grade"]
    finished = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"COLUMNS": "100", "NO_COLOR": "1"},
    )
    print(finished.stdout + finished.stderr, end="")
