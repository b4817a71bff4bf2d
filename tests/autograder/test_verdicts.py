"""The verdict store: one record for a key, the newest submission counts, and nothing that failed is 0 points."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from databases import database, postgres
from nbgrader.api import Gradebook
from sqlalchemy import inspect, text

from autograder.records import verdicts
from autograder.records.database import connect
from autograder.records.recording import status_of
from autograder.records.verdicts import TaskVerdict, Verdict, VerdictStatus, VerdictStore

__all__ = ["database", "postgres"]

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
DAY, NOTEBOOK = "day1_compile_stack", "ex_01_stack"


def verdict(
    points: float | None = 5.0,
    submission: str = "a" * 64,
    grader: str = "1",
    status: VerdictStatus = "graded",
    at: datetime = NOON,
    who: str = "ada",
) -> Verdict:
    tasks = (
        TaskVerdict("first", "First", "passed", points, 5.0, evidence="artefact", seconds=0.5),
        TaskVerdict("second", "Second", "wrong", 0.0, 10.0, ("Almost.", "And this."), ("", "off by one"), "answer"),
    )
    tasks = tasks if points is not None else tuple(replace(task, points=None) for task in tasks)
    details = {"sandboxed": True, "seconds": 1.5}
    return Verdict(who, DAY, NOTEBOOK, submission, grader, status, at, at + timedelta(1), tasks, ("odd",), details)


@pytest.fixture
def store(database: str) -> Iterator[VerdictStore]:
    with VerdictStore(database) as opened:
        yield opened


def rows(store: VerdictStore) -> list[int]:
    with store._engine.connect() as connection:
        names = ("fxopt_attempt", "fxopt_verdict", "fxopt_task_verdict")
        return [connection.execute(text(f"SELECT count(*) FROM {name}")).scalar_one() for name in names]


def test_what_is_written_is_read_by_another_process(store: VerdictStore, database: str) -> None:
    written = verdict()
    store.record(written)
    with VerdictStore(database) as other:
        assert other.latest() == [replace(written, attempt=1)]
        (found,) = other.latest()
    assert (found.points, found.max_points) == (5.0, 15.0)
    assert (found.tasks[1].misconception, found.tasks[1].message) == ("off by one", "Almost.")


def test_the_same_key_twice_is_one_record(store: VerdictStore) -> None:
    for _ in range(3):
        store.record(verdict())
    assert rows(store) == [1, 1, 2]
    store.record(verdict(points=2.0))
    assert rows(store) == [1, 1, 2]
    assert store.latest()[0].points == 2.0


def test_a_newer_submission_supersedes_whenever_verdicts_arrive(store: VerdictStore) -> None:
    newer = verdict(1.0, "b" * 64, at=NOON + timedelta(hours=1))
    store.record(newer)
    store.record(verdict())
    assert [found.submission for found in store.latest()] == ["b" * 64]
    assert [(each.submission[0], each.number) for each in store.attempts()] == [("a", 1), ("b", 2)]
    # As grading does: noted when seen, in this order, whatever the clock says.
    for digest, when in (("c" * 64, NOON), ("d" * 64, NOON - timedelta(days=1))):
        assert store.receive("bob", DAY, NOTEBOOK, digest, when) == "cd".index(digest[0]) + 1
    store.record(verdict(3.0, "d" * 64, who="bob", at=NOON - timedelta(days=1)))
    store.record(verdict(4.0, "c" * 64, who="bob"))
    (found,) = store.latest("bob")
    assert (found.submission, found.attempt) == ("d" * 64, 2)


def test_what_is_handed_in_again_is_the_same_attempt_and_an_old_one_becomes_the_latest(store: VerdictStore) -> None:
    def receive(letter: str, hours: int) -> int:
        return store.receive("ada", DAY, NOTEBOOK, letter * 64, NOON + timedelta(hours=hours))

    def stored() -> list[tuple[str, int]]:
        return [(each.submission[0], each.received_at.hour) for each in store.attempts()]

    assert receive("a", 0) == 1
    store.record(verdict(at=NOON))
    assert [receive("a", 1), receive("b", 2), receive("b", 3)] == [1, 2, 2]
    # What has a verdict came when it came first; what has none (it was kept, and not graded) comes again.
    assert stored() == [("a", 12), ("b", 15)]
    assert receive("a", 4) == 2
    assert stored() == [("b", 15), ("a", 12)]
    store.record(verdict(None, "b" * 64, status="infrastructure_error", at=NOON + timedelta(hours=3)))
    assert receive("b", 9) == 2
    assert stored() == [("a", 12), ("b", 15)]


def test_an_infrastructure_error_is_no_points_and_gives_way(store: VerdictStore) -> None:
    failed = verdict(None, status="infrastructure_error")
    store.record(failed)
    (found,) = store.latest()
    assert found.points is None
    assert [task.points for task in found.tasks] == [None, None]
    store.record(verdict())
    assert store.latest()[0].points == 5.0
    store.record(failed)
    assert store.latest()[0].points == 5.0
    # Of another version of the grader: a regrade that fails takes nothing away.
    store.record(replace(failed, grader="2"))
    assert store.latest()[0].points == 5.0
    assert [(found.grader, found.status) for found in store.every()] == [("1", "graded"), ("2", "infrastructure_error")]
    # Points that were handed over with a failure are not kept.
    store.record(replace(verdict(9.0, "c" * 64), status="infrastructure_error", student="eve"))
    assert [task.points for task in store.latest("eve")[0].tasks] == [None, None]


def test_a_newer_grader_regrades_and_both_stay(store: VerdictStore) -> None:
    store.record(verdict())
    store.record(replace(verdict(0.0, grader="2"), graded_at=NOON - timedelta(days=9)))  # its clock is wrong
    assert [found.points for found in store.latest()] == [0.0]
    assert [found.grader for found in store.every()] == ["1", "2"]
    assert store.find(verdict().key) == replace(verdict(), attempt=1)
    assert store.find(verdict(grader="3").key) is None


def test_not_submitted_and_not_graded_are_not_0(store: VerdictStore) -> None:
    store.receive("ada", DAY, NOTEBOOK, "a" * 64, NOON)
    assert store.latest() == []
    (attempt,) = store.attempts("ada")
    assert attempt.verdict is None
    assert store.attempts("bob") == []


def test_tasks_of_the_verdicts_that_count(store: VerdictStore) -> None:
    store.record(verdict())
    store.record(verdict(0.0, "b" * 64, at=NOON + timedelta(1)))
    store.record(verdict(who="bob"))
    found = [(row.verdict.student, row.task.task, row.task.points) for row in store.task_rows(DAY)]
    assert found == [("ada", "first", 0.0), ("ada", "second", 0.0), ("bob", "first", 5.0), ("bob", "second", 0.0)]
    assert len(store.task_rows(task="first")) == 2
    assert store.task_rows("day0_start") == []


def test_a_verdict_that_breaks_off_leaves_nothing(store: VerdictStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.record(verdict(1.0))
    before = rows(store), store.latest()

    def broken(*_: object) -> list[dict[str, object]]:
        raise KeyboardInterrupt

    monkeypatch.setattr(verdicts, "task_values", broken)
    for written in (verdict(2.0), verdict(2.0, "b" * 64)):
        with pytest.raises(KeyboardInterrupt):
            store.record(written)
    assert (rows(store), store.latest()) == before


def test_a_reader_does_not_wait_for_a_writer(store: VerdictStore, database: str) -> None:
    from autograder.records.database import writing

    store.record(verdict(1.0))
    with writing(store._engine) as connection, VerdictStore(database) as reader:
        connection.execute(text("UPDATE fxopt_verdict SET grader = '9'"))
        assert [found.grader for found in reader.latest()] == ["1"]


def test_times_keep_their_zone(store: VerdictStore) -> None:
    there = datetime(2026, 3, 2, 13, tzinfo=timezone(timedelta(hours=1)))
    store.record(verdict(at=there))
    assert store.latest()[0].received_at == NOON
    assert store.latest()[0].received_at.tzinfo == UTC
    with pytest.raises(ValueError, match="received_at 2026-03-02T12:00:00: a time with its time zone was expected"):
        store.receive("ada", DAY, NOTEBOOK, "f" * 64, NOON.replace(tzinfo=None))
    with pytest.raises(ValueError, match="a time with its time zone"):
        verdict(at=NOON.replace(tzinfo=None))
    with pytest.raises(ValueError, match="status 'lost': one of graded, timeout"):
        verdict(status="lost")  # type: ignore[arg-type]


def test_nbgrader_finds_its_gradebook_as_it_made_it(database: str) -> None:
    with VerdictStore(database) as store, Gradebook(database, "fxopt") as gradebook:
        store.record(verdict())
        gradebook.add_assignment(DAY)
        assert [assignment.name for assignment in gradebook.assignments] == [DAY]
    engine = connect(database)
    with engine.connect() as connection:
        assert connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    assert {"grade", "fxopt_verdict"} <= set(inspect(engine).get_table_names())
    engine.dispose()


def test_a_file_has_a_write_ahead_log(tmp_path: object) -> None:
    path = f"{tmp_path}/gradebook.db"
    with VerdictStore(f"sqlite:///{path}"):
        pass
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


@pytest.mark.parametrize(
    ("statuses", "unreadable", "expected"),
    [
        (["passed", "wrong", "not written", "error"], False, "graded"),
        (["passed", "time limit"], False, "timeout"),
        (["time limit", "memory limit", "passed"], False, "crashed"),
        # Also of a task that was regraded beside others on which grading failed.
        (["infrastructure error", "passed", "crashed"], False, "infrastructure_error"),
        (["passed"], True, "invalid"),
    ],
)
def test_a_verdict_has_the_gravest_status_of_its_tasks(
    statuses: list[str], unreadable: bool, expected: VerdictStatus
) -> None:
    tasks = [TaskVerdict(str(number), "T", status, None, 5.0) for number, status in enumerate(statuses)]
    assert status_of(tasks, unreadable) == expected
