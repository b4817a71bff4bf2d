"""Grading in several processes: the same points as in one, nothing depends on which process, and none may be missed."""

from __future__ import annotations

import os
import signal
from typing import Any

import psutil
import pytest
from classroom import BLANK, DAY, RIGHT, TASK, Classroom, outcome_of, when_called

from autograder.course.tasks import tasks_of_notebook
from autograder.grading import grading
from autograder.grading.batch import Batch
from autograder.grading.work import do, work_for
from autograder.grading.work import outcome_of as rebuilt
from autograder.records.gradebook import recorded_points

ANSWERS = {"right": RIGHT, "wrong": when_called("self.graphs = []"), "blank": BLANK, "blank_too": BLANK}


@pytest.fixture
def started_here(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Graders that this process started itself from now on."""
    started: list[str] = []
    original = grading.Grader.__enter__

    def counted(grader: grading.Grader) -> grading.Grader:
        started.append("here")
        return original(grader)

    monkeypatch.setattr(grading.Grader, "__enter__", counted)
    return started


def test_two_processes_grade_and_one_writes(classroom: Classroom, started_here: list[str]) -> None:
    for who, answer in ANSWERS.items():
        classroom.hand_in(answer, who)
    graded = classroom.grade(jobs=2)
    assert started_here == []
    expected = {"right": ("passed", 15.0), "wrong": ("wrong", 0.0), "blank": ("not written", 0.0)}
    expected["blank_too"] = expected["blank"]
    for who, (status, points) in expected.items():
        assert outcome_of(graded[who])["status"] == status
        found = recorded_points(classroom.course, who, DAY, TASK.notebook)
        assert found is not None
        assert found[0] == points
    assert "You kept only one of them" in classroom.feedback("wrong")
    assert not any(graded.anew for graded in classroom.grade(jobs=2).values())


def test_what_a_lost_process_graded_is_graded_again_by_another_one(room: Classroom, started_here: list[str]) -> None:
    work = work_for(TASK.notebook, room.answered(BLANK), room.released, tasks_of_notebook(TASK.notebook), None)
    with Batch(1) as batch:
        future = batch.submit(work)
        (process,) = batch._pool._processes.values()
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        outcome = batch.outcome(work, future)
        assert started_here == []
        assert {task.status for task in outcome.tasks} == {"not written"}
        # The next one has processes again.
        assert {task.status for task in batch.outcome(work, batch.submit(work)).tasks} == {"not written"}


def test_work_is_plain_data_both_ways(room: Classroom, monkeypatch: pytest.MonkeyPatch) -> None:
    import json

    from autograder.grading import work as module

    asked: list[Any] = []

    def stand_in(*arguments: Any) -> grading.NotebookOutcome:
        asked.append(arguments)
        return grading.NotebookOutcome("n", [module.TaskOutcome("t", "T", "passed", points=1.0)], ["odd"], True)

    monkeypatch.setattr(module, "grade_notebook", stand_in)
    monkeypatch.setattr(module, "keep_warm", lambda: None)
    work = work_for(TASK.notebook, room.answered(RIGHT), room.released, (TASK,), "seed")
    came = rebuilt(json.loads(json.dumps(do(work))))
    assert (came.tasks[0].points, came.problems, came.sandboxed) == (1.0, ["odd"], True)
    name, notebook, release, tasks, seed = asked[0]
    assert (name, release, list(tasks), seed) == (TASK.notebook, room.released, [TASK], "seed")
    assert notebook == room.answered(RIGHT)


def test_graders_stay_warm_from_notebook_to_notebook_and_are_let_go(room: Classroom, started_here: list[str]) -> None:
    tasks, before = (TASK,), psutil.Process().children(recursive=True)
    grading.keep_warm()
    try:
        for _ in range(2):
            outcome = grading.grade_notebook(TASK.notebook, room.answered(BLANK), room.released, tasks, None)
            assert [task.status for task in outcome.tasks] == ["not written"]
        assert started_here == ["here"]
        assert outcome.phases["starting"] < 5
    finally:
        children = set(psutil.Process().children(recursive=True)) - set(before)
        grading.let_go()
    assert children
    assert not psutil.wait_procs(list(children), timeout=10)[1]
    grading.let_go()


def test_fewer_processes_than_one_are_refused(classroom: Classroom) -> None:
    with pytest.raises(ValueError, match="at least one process"):
        classroom.grade(jobs=0)
