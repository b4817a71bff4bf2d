"""Grading on a cluster: the same points as anywhere, and a worker that is lost costs nobody anything."""

from __future__ import annotations

import subprocess
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest
from classroom import RIGHT, TASK, Classroom, when_called
from small_course import SmallCourse, make_small_course, small

from autograder.grading.cluster import Cluster, ClusterError
from autograder.grading.work import InfrastructureError, work_for
from autograder.records.verdicts import VerdictStore

__all__ = ["small"]

WRONG = "class GraphRecorder:\n    pass"


def hand_in(course: SmallCourse) -> SmallCourse:
    for number, answer in enumerate((RIGHT, WRONG) * 3):
        course.hand_in(f"student{number}", f"# stub: slow\n{answer}", datetime(2026, 3, 2, number, tzinfo=UTC))
    return course


def workers(grader: psutil.Popen) -> list[psutil.Process]:
    return [
        process for process in grader.children(recursive=True) if "multiprocessing.spawn" in " ".join(process.cmdline())
    ]


def test_a_worker_that_is_lost_in_the_middle_costs_nobody_anything(small: SmallCourse, tmp_path: Path) -> None:
    hand_in(small)
    grader = psutil.Popen(
        small.command("grade", "--cluster", "local:2"),
        env=small.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    end = time.monotonic() + 300
    with VerdictStore(small.course.database) as store:
        while not store.attempts():
            assert grader.poll() is None, grader.communicate()
            assert time.monotonic() < end
            time.sleep(0.1)
        time.sleep(1.0)
        victim = workers(grader)[0]
        victim.kill()
        out, err = grader.communicate()
        assert grader.returncode == 0, (out, err)
        assert b"Traceback" not in out + err
    other = hand_in(make_small_course(tmp_path / "alone"))
    assert other.run("grade").returncode == 0
    assert small.records() == other.records()


def test_a_cluster_grades_what_any_process_does(room: Classroom) -> None:
    works = [
        work_for(TASK.notebook, room.answered(answer), room.released, (TASK,), "seed")
        for answer in (RIGHT, when_called("self.graphs = []"))
    ]
    with Cluster("local:1") as cluster:
        assert (cluster.workers, cluster.ahead) == (1, 3)
        # Handed over twice, as after a loss that was none: both come to the same.
        futures = [cluster.submit(work) for work in works * 2]
        found = [cluster.outcome(work, future) for work, future in zip(works * 2, futures, strict=True)]
        other = replace(works[0], version="another")
        with pytest.raises(InfrastructureError, match="install the same version of fxopt"):
            cluster.outcome(other, cluster.submit(other))
    statuses = [[(task.status, task.points, task.messages) for task in outcome.tasks] for outcome in found]
    assert statuses[:2] == statuses[2:]
    assert [status[0][0] for status in statuses[:2]] == ["passed", "wrong"]


def test_what_is_no_cluster_is_refused_in_one_line(small: SmallCourse, monkeypatch: pytest.MonkeyPatch) -> None:
    from autograder.grading import cluster

    for address in ("local:0", "local", "http://host:1", "tcp://host", "local:2 --force"):
        with pytest.raises(ClusterError, match=r"expected tcp://HOST:PORT of a scheduler, or local:N"):
            Cluster(address)
    small.hand_in("ada")
    monkeypatch.setattr(cluster, "START_SECONDS", 1)
    with (
        pytest.raises(ClusterError, match="no scheduler with a worker answers there") as refused,
        Cluster("tcp://127.0.0.1:9"),
    ):
        pass
    assert "\n" not in str(refused.value)
    both = small.run("grade", "--cluster", "local:2", "--jobs", "2")
    assert both.returncode == 2
    assert "name one of them" in both.stderr
