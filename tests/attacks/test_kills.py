"""Processes that are lost while they grade: the gradebook equals an undisturbed one, and nothing stays behind."""

from __future__ import annotations

import argparse
import os
import signal
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest
from classroom import RIGHT, SMALL, TASK, Classroom, need_bubblewrap, when_called
from databases import need_postgresql
from kills import compare
from small_course import SmallCourse, make_small_course, small
from stub_grader import stand_in_here

from autograder.exchange import scratch
from autograder.grading.batch import Batch, end_with_parent
from autograder.grading.grading import Grader
from autograder.grading.view import SandboxError
from autograder.grading.work import InfrastructureError, work_for

__all__ = ["small"]

WRONG = "class GraphRecorder:\n    pass"


def class_of(folder: Path) -> SmallCourse:
    """Six submissions, two of which take a while."""
    made = make_small_course(folder)
    for number, answer in enumerate((RIGHT, WRONG, "# stub: slow\n" + WRONG) * 2):
        made.hand_in(f"student{number}", answer, datetime(2026, 3, 2, tzinfo=UTC) + timedelta(hours=number))
    return made


@pytest.mark.parametrize(
    "postgresql", [False, pytest.param(True, marks=pytest.mark.long)], ids=["sqlite", "postgresql"]
)
def test_a_class_is_graded_as_if_nobody_had_been_killed(postgresql: bool) -> None:
    if postgresql:
        need_postgresql()
    kills = 2 if postgresql else 4
    given = argparse.Namespace(seed=3, postgresql=postgresql, kills=kills, jobs=2, pause=4.0)
    report = compare(class_of, given)
    assert report.killed.total() == kills
    assert report.runs >= 2


def descendants(process: int) -> list[int]:
    """Process ids of all descendants, parents first. Asks the kernel for each one's children, where psutil would read
    through all processes of the machine."""
    found = [process]
    for one in found:
        with suppress(FileNotFoundError, ProcessLookupError):
            found += map(int, Path(f"/proc/{one}/task/{one}/children").read_text().split())
    return found[1:]


def lose(grader: Grader, kind: str) -> Future[bool]:
    """Kill the warm process, or the process of the running task, as soon as there is one; whether there was."""

    def kill() -> bool:
        worker = grader._warm_worker(TASK)
        assert worker._process is not None
        end = time.monotonic() + 60
        while time.monotonic() < end:
            family = descendants(worker._process.pid)
            # Its process may end between two looks at it: then there will be another one.
            with suppress(psutil.NoSuchProcess, ProcessLookupError):
                # bubblewrap, the warm process, the submission's, the task's.
                if len(family) >= 4 and sum(psutil.Process(family[-1]).cpu_times()[:2]) > 0.01:
                    os.kill(worker._process.pid if kind == "worker" else family[-1], signal.SIGKILL)
                    return True
            time.sleep(0.02)
        return False

    pool = ThreadPoolExecutor(1)
    killed = pool.submit(kill)
    pool.shutdown(wait=False)
    return killed


SLOW = when_called("import time\ntime.sleep(0.2)")


def test_a_task_whose_process_was_killed_from_outside_is_tried_once_more(room: Classroom) -> None:
    need_bubblewrap()
    task = replace(TASK, seconds=120.0)
    with Grader([task], "a seed for tests", sandboxed=True, limits=SMALL) as grader:
        blank, _ = grader.grade(task, room.cells(WRONG))
        assert blank.status == "wrong"
        killed = lose(grader, "task")
        outcome, _ = grader.grade(task, room.cells(SLOW))
        assert killed.result()
        assert outcome.status == "passed", outcome.messages
        # Code that kills itself does so each time.
        own, _ = grader.grade(task, room.cells(when_called("import os\nos.kill(os.getpid(), 9)")))
        assert own.status == "crashed"
        assert "seconds" not in own.messages[0]
        killed = lose(grader, "worker")
        with pytest.raises(SandboxError, match="ended from outside"):
            grader.grade(task, room.cells(SLOW))
        assert killed.result()
        after, _ = grader.grade(task, room.cells(RIGHT))
        assert after.status == "passed", after.messages


def test_of_two_works_only_the_deadly_one_is_lost(small: SmallCourse) -> None:
    """Which of several works was to blame when a pool breaks cannot be told, so each is done again by itself."""
    room = small.room
    answers = {"deadly": "# stub: dies\n" + WRONG, "right": RIGHT}
    works = {
        name: work_for(TASK.notebook, room.answered(answer), room.released, (TASK,), None)
        for name, answer in answers.items()
    }
    with Batch(2, stand_in_here) as batch:
        futures = {name: batch.submit(work) for name, work in works.items()}
        assert batch.outcome(works["right"], futures["right"]).tasks[0].status == "passed"
        with pytest.raises(InfrastructureError, match="was lost 3 times"):
            batch.outcome(works["deadly"], futures["deadly"])


def test_folders_of_processes_that_were_killed_are_removed_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(scratch.PARENT_VARIABLE, str(tmp_path))
    monkeypatch.setattr(scratch, "_own", None)
    (tmp_path / "fxopt-run-a-file").touch()
    (tmp_path / "others").mkdir()
    ready, telling = os.pipe()
    child = os.fork()
    if child == 0:
        made = scratch.scratch_folder("fxopt-")
        Path(made.name, "large").write_text("x")
        os.write(telling, made.name.encode())
        signal.pause()
    theirs = Path(os.read(ready, 1000).decode())
    ours = scratch.scratch_folder("fxopt-")
    assert scratch.remove_leftovers() == []
    assert (theirs / "large").exists()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert scratch.remove_leftovers() == [theirs.parent]
    assert Path(ours.name).is_dir()
    assert not theirs.parent.exists()
    assert {path.name for path in tmp_path.iterdir()} == {"fxopt-run-a-file", "others", Path(ours.name).parent.name}
    ours.cleanup()


def test_nobody_goes_on_grading_for_a_process_that_is_gone() -> None:
    import multiprocessing

    context = multiprocessing.get_context("spawn")
    reading, writing = context.Pipe(duplex=False)
    parent = context.Process(target=_start_another, args=(writing,))
    parent.start()
    grandchild = psutil.Process(reading.recv())
    assert grandchild.is_running()
    parent.kill()
    parent.join()
    grandchild.wait(30)


def _start_another(writing: object) -> None:
    import multiprocessing

    child = multiprocessing.get_context("spawn").Process(target=_sleep, args=(writing,))
    child.start()
    child.join()


def _sleep(writing: object) -> None:
    end_with_parent()
    writing.send(os.getpid())  # type: ignore[attr-defined]
    time.sleep(300)
