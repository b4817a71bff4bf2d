"""What a learner's code may import while it is graded: the day's programs, the references of earlier days, all tables,
and no judge and no answer to the day itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from autograder.course.task import UNITS
from autograder.course.tasks import all_tasks, tasks_of_notebook
from autograder.grading.view import FOLDERS, build_view

TASKS = tasks_of_notebook("ex_02_fx_graph_manipulation")


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("view")
    build_view(folder, TASKS)
    return folder


def test_probes_and_references_of_earlier_days_are_there_and_judges_and_answers_are_not(view: Path) -> None:
    exercises = view / "autograder" / "exercises"
    found = {path.relative_to(exercises).as_posix() for path in exercises.rglob("*.py")}
    expected = {"__init__.py", "day2/programs.py", "day2/old_code.py", *(f"{unit}/__init__.py" for unit in UNITS)}
    expected |= {f"day2/{task.name}/{name}.py" for task in TASKS for name in ("__init__", "visible")}
    earlier = [task for task in all_tasks() if task.unit in ("day0", "day1") and task.export]
    assert {"conv_output_shape", "operation_histogram"} <= {task.name for task in earlier}
    expected |= {f"{task.unit}/{task.name}/{name}.py" for task in earlier for name in ("__init__", "reference")}
    assert found == expected


def test_withheld_modules_are_empty_and_their_package_can_be_imported(view: Path) -> None:
    withheld = {name for task in TASKS for name in task.withheld if name.startswith("fxopt_core")}
    assert len(withheld) >= 5
    for name in withheld:
        path = view.joinpath(*name.split("."))
        held = sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]
        assert [file.read_text() for file in held] == [""]
    code = "import fxopt_core.optimizer as m; print(m.__file__)"
    done = _run_in(view, code)
    assert done.stdout.startswith(str(view)), done.stderr


def test_the_modules_of_the_view_need_none_that_it_leaves_out(view: Path) -> None:
    own = view / "autograder"
    held = sorted(path for folder in FOLDERS for path in (own / folder).rglob("*.py"))
    modules = [".".join(path.relative_to(view).with_suffix("").parts).removesuffix(".__init__") for path in held]
    assert {"autograder.learner_side.check", "autograder.exchange.graph_form.decode"} <= set(modules)
    code = """
import sys
for name in sys.argv[1:]:
    __import__(name)
for name, module in list(sys.modules.items()):
    if name.partition(".")[0] in ("autograder", "fxopt_core", "fxopt_workbench") and getattr(module, "__file__", None):
        print(module.__file__)
"""
    # A linked package is found again where it is linked to, so that an import alone would succeed.
    done = _run_in(view, code, "autograder", *modules)
    files = done.stdout.splitlines()
    assert len(files) >= len(modules), done.stderr
    assert str(own / "learner_side" / "check.py") in files
    assert not [path for path in files if not path.startswith(str(view))]


def test_nothing_in_the_view_is_a_judge_an_answer_or_a_record(view: Path) -> None:
    assert _names_in(view / "autograder" / "course") == {"__init__.py", "task.py", "tasks.py", "tracks.py"}
    assert _names_in(view / "autograder") == {"__init__.py", "course", "exchange", "exercises", "learner_side"}


def _names_in(folder: Path) -> set[str]:
    """What lies in a folder, but for what Python compiled: tests of this file run it in the view."""
    return {path.name for path in folder.iterdir()} - {"__pycache__"}


def _run_in(view: Path, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(view)}
    command = [sys.executable, "-P", "-c", code, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
