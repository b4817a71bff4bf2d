"""The table of tasks: complete, and helpful to who mistypes a name."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from autograder.course.task import UNITS
from autograder.course.tasks import UnknownTaskError, all_tasks, find_notebook, find_task, tasks_of_notebook
from autograder.grading.hollow import write_hollow
from autograder.grading.view import foreign_modules


def test_names_are_there_once_and_days_are_known() -> None:
    names = [task.name for task in all_tasks()]
    assert names
    assert len(names) == len(set(names))
    assert {task.unit for task in all_tasks()} <= set(UNITS)


@pytest.mark.parametrize("task", all_tasks(), ids=lambda task: task.name)
def test_every_task_is_whole(task, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    assert (task.folder / "visible.py").is_file()
    assert (task.folder / "judge.py").is_file()
    assert find_spec(task.module) is not None
    assert task.provides
    assert task.answer_id == f"{task.name}-answer"
    for module in task.withheld:
        if module not in foreign_modules([task]):
            assert find_spec(module) is not None, f"{task.name} withholds {module}, which does not exist"
    # Raises where something is withheld that is not there.
    assert bool(write_hollow(tmp_path, foreign_modules([task]))) == bool(foreign_modules([task]))


def test_find_task() -> None:
    task = all_tasks()[0]
    assert find_task(task.name) is task
    with pytest.raises(UnknownTaskError, match=f"Did you mean '{task.name}'"):
        find_task(task.name[:-1])
    with pytest.raises(UnknownTaskError, match=f"The tasks are .*{task.name}"):
        find_task("zzz")


def test_find_notebook() -> None:
    task = all_tasks()[0]
    assert find_notebook(task.notebook[:5]) == (UNITS[task.unit], task.notebook)
    with pytest.raises(UnknownTaskError, match=f"no exercise starts with 'ex_99': .*{task.notebook}"):
        find_notebook("ex_99")
    assert tasks_of_notebook("lesson_compile_stack") == ()
    assert task in tasks_of_notebook(task.notebook)


def test_checks_offer_the_tasks_of_a_day() -> None:
    from autograder.learner_side import check

    task = all_tasks()[0]
    assert task.name in dir(getattr(check, task.unit))
    with pytest.raises(AttributeError, match="units: day0, day1"):
        check.day99  # noqa: B018
    with pytest.raises(UnknownTaskError, match="Did you mean"):
        getattr(getattr(check, task.unit), task.name + "x")
    with pytest.raises(TypeError, match=f"takes {len(task.provides)} answers, got 0"):
        getattr(getattr(check, task.unit), task.name)()


def test_reading_the_table_imports_no_torch() -> None:
    code = "import sys, autograder.course.tasks as t; t.all_tasks(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
