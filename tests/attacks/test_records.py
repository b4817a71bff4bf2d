"""One grader at a time, and a gradebook that is gone or another: nothing is lost, and nothing is taken for graded."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from classroom import stand_in
from databases import database, postgres
from nbgrader import api as nbgrader_api
from small_course import SmallCourse, small
from sqlalchemy import Engine, text

from autograder.grading import work
from autograder.records import gradebook
from autograder.records.lock import CourseLockedError, course_lock
from autograder.records.verdicts import VerdictStore

__all__ = ["database", "postgres", "small"]

WRONG = "class GraphRecorder:\n    pass"


def grade(small: SmallCourse, **options: object) -> dict[str, gradebook.Graded]:
    return {graded.student: graded for graded in gradebook.grade(small.course, **options)}  # type: ignore[arg-type]


def held_by_another(small: SmallCourse, **environment: str) -> subprocess.Popen[str]:
    """A grader that has begun, and goes on when the file `go` is there."""
    small.hand_in("slow", "# stub: waits\n" + WRONG)
    environment["FXOPT_STUB_GO"] = str(small.course.root / "go")
    process = subprocess.Popen(
        small.command("grade"), env=small.environment(**environment), stdout=subprocess.PIPE, text=True
    )
    lock = small.course.records / "grading.lock"
    end = time.monotonic() + 120
    while not (lock.exists() and lock.read_text()):
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.02)
    return process


def test_a_second_grader_gets_one_line_or_waits_and_a_crash_frees_the_course(
    small: SmallCourse, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FXOPT_DATABASE", database)
    small.hand_in("ada")
    first = held_by_another(small)
    with pytest.raises(CourseLockedError, match=rf"another grader .*process {first.pid} on .*--wait") as refused:
        grade(small)
    assert "\n" not in str(refused.value)
    first.kill()
    first.wait()
    (small.course.root / "go").touch()
    monkeypatch.setenv("FXOPT_STUB_GO", str(small.course.root / "go"))
    assert grade(small)["ada"].anew
    # One that waits comes after the other, and finds everything graded.
    (small.course.root / "go").unlink()
    small.hand_in("bob")
    first = held_by_another(small)
    threading.Timer(1.0, (small.course.root / "go").touch).start()
    waited = grade(small, wait=True)
    assert first.wait(60) == 0
    assert not any(graded.anew or graded.failure for graded in waited.values())
    assert small.points("bob") == 15.0


def test_two_machines_share_a_server(small: SmallCourse, postgres: object, tmp_path: Path) -> None:
    """Their folders are different ones, and so are their locks on files."""
    from small_course import make_small_course

    url = postgres.database()  # type: ignore[attr-defined]
    other = make_small_course(tmp_path / "other")
    environment = {"FXOPT_DATABASE": url}
    first = held_by_another(small, **environment)
    second = other.run("grade", **environment)
    assert second.returncode == 2
    assert second.stderr.startswith("fxopt: another grader is at work on this course;")
    assert second.stderr.count("\n") == 1
    first.kill()
    first.wait()
    # The server notices that the connection is gone.
    assert other.run("grade", "--wait", **environment).returncode == 0


def test_the_command_says_who_grades(small: SmallCourse) -> None:
    with course_lock(small.course), course_lock(small.course):
        refused = small.run("grade")
    assert refused.returncode == 2
    assert refused.stdout == ""
    assert refused.stderr.startswith(f"fxopt: another grader is at work on this course (process {os.getpid()} on ")
    assert refused.stderr.count("\n") == 1
    assert small.run("grade").returncode == 0


def gone(file: Path, _: Path) -> None:
    for path in file.parent.glob("gradebook.db*"):
        path.unlink()


def emptied(file: Path, _: Path) -> None:
    gone(file, file)
    file.touch()


def older(file: Path, copy: Path) -> None:
    gone(file, file)
    shutil.copy(copy, file)


@pytest.mark.parametrize("replace", [gone, emptied, older])
def test_a_gradebook_that_was_replaced_is_never_graded_before(
    small: SmallCourse, tmp_path: Path, replace: object
) -> None:
    small.hand_in("ada")
    grade(small)
    with VerdictStore(small.course.database):
        pass  # the last connection to close leaves all in one file
    copy = tmp_path / "copy.db"
    shutil.copy(small.course.records / "gradebook.db", copy)
    small.hand_in("bob", WRONG)
    grade(small)
    assert not any(graded.anew for graded in grade(small).values())
    replace(small.course.records / "gradebook.db", copy)  # type: ignore[operator]
    notes: list[str] = []
    again = grade(small, note=notes.append)
    assert again["bob"].anew
    assert again["ada"].anew == (replace is not older)
    assert bool(notes) == (replace is not older)
    assert all("2 submissions were graded before" in note and "gradebook.db" in note for note in notes)
    assert (small.points("ada"), small.points("bob")) == (15.0, 0.0)
    assert not any(graded.anew for graded in grade(small).values())


def test_what_a_person_removed_from_nbgrader_is_graded_again(small: SmallCourse) -> None:
    from nbgrader.api import Gradebook

    small.hand_in("ada")
    grade(small)
    with Gradebook(small.course.database, "fxopt") as book:
        book.remove_student("ada")
    assert grade(small)["ada"].anew
    for part in ("autograded", "feedback", "outcomes"):
        shutil.rmtree(small.course.records / part)
        assert grade(small)["ada"].anew
    assert not grade(small)["ada"].anew


def test_a_failure_of_grading_itself_is_no_points_and_is_tried_again(
    small: SmallCourse, monkeypatch: pytest.MonkeyPatch
) -> None:
    when = datetime(2026, 3, 2, tzinfo=UTC)
    for number, answer in enumerate(("# stub: lost\n", "# stub: full\n", ""), 1):
        small.hand_in(f"student{number}", answer + WRONG, when)
    done = small.run("grade")
    assert done.returncode == 1
    assert done.stdout.count("not the learner's fault") == 2
    assert "no process can be started" in done.stdout
    assert "No space left on device" in done.stdout
    with VerdictStore(small.course.database) as store:
        found = {verdict.student: verdict for verdict in store.latest()}
        assert [found[f"student{n}"].status for n in (1, 2, 3)] == ["infrastructure_error"] * 2 + ["graded"]
        assert found["student1"].points is None
        assert found["student3"].points == 0.0
        assert "it is not your fault" in found["student1"].tasks[0].message
        assert "no process can be started" in found["student1"].details["reason"]
    # nbgrader would show 0 for what it knows of; a page with a grade there is not either.
    assert small.points("student1") is None
    assert not list(small.course.feedback.glob("student1/**/*.html"))
    assert small.points("student3") == 0.0
    monkeypatch.setattr(work, "grade_notebook", stand_in)
    again = grade(small)
    assert [again[f"student{n}"].anew for n in (1, 2, 3)] == [True, True, False]
    assert small.points("student1") == 0.0
    with VerdictStore(small.course.database) as store:
        assert {verdict.status for verdict in store.every()} == {"graded"}


def test_a_failed_regrade_leaves_the_grade_before_as_it_was(small: SmallCourse) -> None:
    small.hand_in("ada")
    grade(small)
    page = small.room.feedback("ada")
    small.hand_in("ada", "# stub: lost\n" + WRONG)
    assert grade(small)["ada"].waits
    assert small.points("ada") == 15.0
    assert small.room.feedback("ada") == page
    with VerdictStore(small.course.database) as store:
        assert [attempt.verdict and attempt.verdict.points for attempt in store.attempts()] == [15.0, None]
        assert store.latest()[0].status == "infrastructure_error"


def test_where_grading_does_not_work_at_all_it_stops_and_says_so(
    small: SmallCourse, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        small.hand_in(f"student{number}", "# stub: lost\n" + WRONG)
    # With notebooks that are nobody's it works: these five are odd, and the others' turn comes.
    assert sum(graded.waits for graded in grade(small).values()) == 5
    tried: list[str] = []

    def broken(name: str, *_: object) -> None:
        tried.append(name)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(work, "grade_notebook", broken)
    with pytest.raises(gradebook.GradingStoppedError, match=r"grading does not work here: .*No space left"):
        grade(small)
    assert len(tried) == 4 * work.TRIES, "three submissions, and a notebook of nobody's"


def test_tries_are_bounded_and_begin_with_fresh_graders(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[object] = []
    monkeypatch.setattr(work, "let_go", lambda: events.append("let go"))

    def fails() -> work.NotebookOutcome:
        events.append("try")
        if events.count("try") < limit:
            raise RuntimeError("lost\nfor now")
        return work.NotebookOutcome("n")

    limit = 3
    assert work.surely(fails, events.append).notebook == "n"
    assert events == ["try", "let go", 0.5, "try", "let go", 1.0, "try"]
    events.clear()
    limit = 4
    with pytest.raises(work.InfrastructureError, match=r"^RuntimeError: lost for now$"):
        work.surely(fails, events.append)
    assert events.count("try") == 3


def test_a_clock_that_jumps_changes_no_grade(small: SmallCourse, monkeypatch: pytest.MonkeyPatch) -> None:
    from autograder.records import recording

    class Clock(datetime):
        jumps = iter([timedelta(), timedelta(days=-4000), timedelta(days=4000), timedelta()])

        @classmethod
        def now(cls, tz: object = None) -> datetime:
            return datetime(2026, 3, 2, tzinfo=UTC) + next(cls.jumps)

    monkeypatch.setattr(recording, "datetime", Clock)
    for number, answer in enumerate((WRONG, None, WRONG, None)):
        small.hand_in("ada", *([answer] if answer else []), when=datetime(2026, 3, 2, 9 - number, tzinfo=UTC))
        assert grade(small)["ada"].anew
        assert small.points("ada") == (0.0 if answer else 15.0)
    with VerdictStore(small.course.database) as store:
        assert [attempt.verdict and attempt.verdict.points for attempt in store.attempts()] == [0.0, 15.0]
        assert store.latest()[0].points == 15.0
    assert not grade(small)["ada"].anew


def test_nbgraders_steps_share_an_engine_which_leaves_the_waiting_to_our_commits(
    small: SmallCourse, monkeypatch: pytest.MonkeyPatch
) -> None:
    small.hand_in("first")
    grade(small)
    make, engines = nbgrader_api.create_engine, []

    def counted(*arguments: object, **options: object) -> Engine:
        engines.append(make(*arguments, **options))
        return engines[-1]

    monkeypatch.setattr(nbgrader_api, "create_engine", counted)
    for number in range(3):
        small.hand_in(f"student{number}")
    run = gradebook.grade(small.course)
    next(graded for graded in run if graded.anew)
    [engine] = engines
    with engine.connect() as connection:
        assert connection.execute(text("PRAGMA journal_mode")).scalar() == "wal"
        assert connection.execute(text("PRAGMA synchronous")).scalar() == 1  # NORMAL
    assert all(graded.failure == "" for graded in run)
    assert engines == [engine]
    assert nbgrader_api.create_engine is counted
    assert [small.points(f"student{number}") for number in range(3)] == [15.0] * 3


@pytest.mark.parametrize("step", ["receive", "record", "finish"])
def test_a_kill_at_any_step_is_made_up_for(small: SmallCourse, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    small.hand_in("ada")
    child = os.fork()
    if child == 0:
        monkeypatch.setattr(VerdictStore, step, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        try:
            grade(small)
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert grade(small)["ada"].anew
    assert small.points("ada") == 15.0
