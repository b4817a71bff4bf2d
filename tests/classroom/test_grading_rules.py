"""What `course.toml` says is what grading does; regrading touches one task only; what a person gave is kept."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import nbformat
import pytest
from classroom import BLANK, DAY, RIGHT, TASK, cell
from nbgrader.api import Gradebook
from nbgrader.apps import NbGraderAPI
from nbgrader.apps import api as nbgrader_api
from nbgrader.coursedir import CourseDirectory
from small_course import SmallCourse, small
from stub_grader import stub

from autograder.classroom.feedback import write_feedback
from autograder.classroom.regrade import Report, regrade
from autograder.classroom.standing import Standing, read_class
from autograder.course.course import course_config
from autograder.course.rules_file import NAME
from autograder.course.task import Task
from autograder.exchange.verdict import TaskOutcome
from autograder.grading import work
from autograder.grading.batch import Here
from autograder.grading.grading import NotebookOutcome
from autograder.records import gradebook
from autograder.records.nbgrader_plugin import AutogradeReceived

__all__ = ["small"]

NOW = datetime.now(UTC)
WRONG = "class GraphRecorder:\n    pass"
OTHER = "operation_histogram"


@dataclass
class Judges:
    """A judge whose mind can be changed: which tasks pass, whatever the answer."""

    passes: set[str]
    asked: list[tuple[str, ...]]
    seeds: list[str] = field(default_factory=list)

    def __call__(
        self, name: str, notebook: Any, release: Any, tasks: tuple[Task, ...], seed: str, **options: Any
    ) -> NotebookOutcome:
        stub(name, notebook, release, tasks, seed, **options)
        self.asked.append(tuple(task.name for task in tasks))
        self.seeds.append(seed)
        right = RIGHT in cell(notebook, TASK.answer_id).source
        outcomes = []
        for task in tasks:
            passed = task.name in self.passes or (task.name == TASK.name and right)
            status, most = ("passed", 15.0) if passed else ("wrong", 15.0)
            found = TaskOutcome(task.name, task.title, status, max_points=most, points=most * passed)  # type: ignore[arg-type]
            outcomes.append(found)
        return NotebookOutcome(name, outcomes)


@pytest.fixture
def judges(monkeypatch: pytest.MonkeyPatch) -> Judges:
    made = Judges(set(), [])
    monkeypatch.setattr(work, "grade_notebook", made)
    return made


@pytest.fixture
def rules(small: SmallCourse) -> Callable[[str], None]:
    def write(text: str) -> None:
        (small.course.root / NAME).write_text(text)

    return write


def deadline(hours: float, more: str = "") -> str:
    when = (NOW + timedelta(hours=hours)).isoformat(timespec="seconds")
    return f"{more}\n[assignments.{DAY}]\ndeadline = {when}\n"


def grade(small: SmallCourse, **options: Any) -> dict[str, gradebook.Graded]:
    return {graded.student: graded for graded in gradebook.grade(small.course, **options)}


def stands(small: SmallCourse, who: str) -> Standing:
    [found] = read_class(small.course, who).standings(who)
    return found


def page(small: SmallCourse, who: str) -> str:
    return small.room.feedback(who)


def person_gives(small: SmallCourse, who: str, points: float, task: str = TASK.name) -> None:
    """As the form grader saves it."""
    with Gradebook(small.course.database, "fxopt") as book:
        found = book.find_grade(task, TASK.notebook, DAY, who)
        found.manual_score, found.needs_manual_grade = points, False
        book.db.commit()


def needs_a_person(small: SmallCourse, who: str) -> bool:
    with Gradebook(small.course.database, "fxopt") as book:
        return bool(book.find_grade(TASK.name, TASK.notebook, DAY, who).needs_manual_grade)


def test_lateness_costs_what_the_rules_say(small: SmallCourse, rules: Callable[[str], None], judges: Judges) -> None:
    extension = '[[extensions]]\nstudent = "extended"\ndays = 3\n'
    rules(deadline(-30, "late_days = 2\npenalty_a_day = 10") + extension)
    for who, hours in {"early": -31, "late": -20, "later": 0, "too_late": 19, "extended": 0}.items():
        small.hand_in(who, RIGHT, NOW + timedelta(hours=hours))
    graded = grade(small)
    assert {who: stands(small, who).score for who in graded} == {
        "early": 15,
        "late": pytest.approx(13.5),
        "later": pytest.approx(12),
        "too_late": None,
        "extended": 15,
    }
    assert stands(small, "too_late").state == "too late"
    assert graded["too_late"].failure == ""
    assert "Kept, but not graded" in graded["too_late"].kept
    assert graded["too_late"].outcome is None
    # nbgrader, its form grader and the page say the same.
    with Gradebook(small.course.database, "fxopt") as book:
        assert book.find_submission(DAY, "late").late_submission_penalty == pytest.approx(1.5)
        assert book.find_submission(DAY, "extended").late_submission_penalty == 0
    assert "Late submission penalty (Score: -1.5)" in page(small, "late")
    assert "Late submission penalty" not in page(small, "extended")
    # With more time the same submission is graded, without being handed in again.
    rules(deadline(-30, "late_days = 2\npenalty_a_day = 10") + extension.replace("extended", "too_late"))
    assert grade(small)["too_late"].anew
    assert stands(small, "too_late").score == 15


def test_attempts_beyond_the_limit_of_a_day_are_kept_and_the_learner_is_told(
    small: SmallCourse, rules: Callable[[str], None], judges: Judges
) -> None:
    rules("attempts_a_day = 2\ntimezone = 'UTC'\n")
    noon = NOW.replace(hour=12, minute=0) - timedelta(days=2)
    for number in range(2):
        small.hand_in("ada", f"{WRONG}\n# {number}", noon + timedelta(hours=number))
        assert grade(small)["ada"].anew
    small.hand_in("ada", RIGHT, noon + timedelta(hours=2))
    third = grade(small)["ada"]
    assert not third.anew
    assert "2 attempts a day are graded" in third.kept
    assert third.outcome is not None  # the points from before stay
    assert len(judges.asked) == 2
    [(attempt, why)] = stands(small, "ada").refused
    assert (attempt.number, why.message) == (3, third.kept)
    told = small.run("progress", FXOPT_STUDENT="ada")
    assert "2 attempts a day are graded" in re.sub(r"\s+", " ", told.stdout), told.stderr
    # It is told each time, never graded behind the learner's back, and a new day is a new day.
    assert grade(small, force=True)["ada"].kept
    small.hand_in("ada", RIGHT, noon + timedelta(hours=13))
    assert grade(small)["ada"].anew
    assert stands(small, "ada").score == 15


def test_the_best_attempt_counts_and_the_last_where_the_rules_say_so(
    small: SmallCourse, rules: Callable[[str], None], judges: Judges
) -> None:
    for number, answer in enumerate((RIGHT, WRONG)):
        small.hand_in("ada", answer, NOW + timedelta(seconds=number))
        grade(small)
    assert stands(small, "ada").score == 15
    rules('counts = "last"\n')
    assert stands(small, "ada").score == 0


def test_handing_the_same_in_again_costs_nothing_and_gains_nothing(
    small: SmallCourse, rules: Callable[[str], None], judges: Judges
) -> None:
    rules(deadline(-24, "late_days = 3\npenalty_a_day = 10\nattempts_a_day = 2\ntimezone = 'UTC'\ncounts = 'last'"))
    early = NOW - timedelta(hours=30)
    for answer in (RIGHT, WRONG):
        small.hand_in("ada", answer, early)
        grade(small)
    assert stands(small, "ada").score == 0
    # The right answer again, after the deadline: it was there in time.
    small.hand_in("ada", RIGHT, NOW)
    assert grade(small)["ada"].anew
    assert stands(small, "ada").score == 15
    with Gradebook(small.course.database, "fxopt") as book:
        assert book.find_submission(DAY, "ada").late_submission_penalty == 0
    # Too many on one day; each of them again on the next day is one of the next day's, and late.
    noon = NOW.replace(hour=12, minute=0)
    many = [f"{WRONG}\n# {number}" for number in range(6)]
    for days, expected in ((-5, 2), (-4, 2), (-3, 2)):
        before = len(judges.asked)
        for answer in many:
            small.hand_in("bob", answer, noon + timedelta(days=days))
            grade(small, who="bob")
        graded_before = 2 * (days + 5)
        # What was graded before is graded again, and uses up nothing.
        assert len(judges.asked) - before == graded_before + expected
    assert stands(small, "bob").refused == ()


def test_the_form_grader_keeps_to_the_rules_and_says_what_it_did_not_grade(
    small: SmallCourse, rules: Callable[[str], None], judges: Judges, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules("attempts_a_day = 1\ntimezone = 'UTC'\n")
    monkeypatch.setattr(nbgrader_api, "Autograde", AutogradeReceived)
    gradebook.prepare_gradebook(small.course)
    config = course_config(small.course)
    api = NbGraderAPI(CourseDirectory(config=config), config=config)
    noon = NOW.replace(hour=12, minute=0)
    small.hand_in("ada", RIGHT, noon)
    assert api.autograde(DAY, "ada")["success"]
    small.hand_in("ada", WRONG, noon + timedelta(minutes=1))
    second = api.autograde(DAY, "ada")
    assert not second["success"]
    assert "ada / day1_compile_stack: Kept, but not graded: 1 attempt a day" in second["log"]
    assert len(judges.asked) == 1
    assert small.points("ada") == stands(small, "ada").score == 15
    assert [attempt.number for attempt, _ in stands(small, "ada").refused] == [2]
    # So with what grading itself fails on; and a mistake in the rules takes nothing away.
    small.hand_in("eve", f"# stub: lost\n{RIGHT}", noon)
    assert "not the learner's fault" in api.autograde(DAY, "eve")["log"]
    assert not api.autograde(DAY, "eve")["success"]
    rules("attempts_day = 1\n")
    assert "there is no such key" in api.autograde(DAY, "ada")["log"]
    assert (small.course.records / "autograded" / "ada" / DAY / f"{TASK.notebook}.ipynb").is_file()


def test_a_mistake_in_the_rules_stops_grading_before_anything_is_graded(
    small: SmallCourse, rules: Callable[[str], None]
) -> None:
    small.hand_in("ada")
    rules("late_day = 3\n")
    done = small.run("grade")
    assert done.returncode == 2
    assert f"{NAME}:1: late_day: there is no such key here. Did you mean 'late_days'" in done.stderr
    assert "Traceback" not in done.stderr


def again(small: SmallCourse, **options: Any) -> Report:
    return regrade(small.course, TASK, Here(), **options)


def test_regrading_touches_one_task_of_every_attempt(small: SmallCourse, judges: Judges) -> None:
    judges.passes = {OTHER}
    for who, answer in {"right": RIGHT, "wrong": WRONG, "lost": f"# stub: lost\n{RIGHT}"}.items():
        small.hand_in(who, answer)
    grade(small)
    assert {who: stands(small, who).score for who in ("right", "wrong")} == {"right": 30, "wrong": 15}
    # The judge is mended: now everybody's answer to this task is right, and the other task would be wrong.
    judges.passes, judges.asked, judges.seeds = {TASK.name}, [], []
    before = small.records()
    dry = again(small, dry_run=True)
    assert dry.dry_run
    assert small.records() == before
    assert stands(small, "wrong").score == 15
    report = again(small)
    assert judges.asked == [(TASK.name,)] * 4
    # Everybody has their own hidden cases again.
    assert judges.seeds == [small.course.seed_for(who) for who in ("right", "wrong")] * 2
    for found in (dry, report):
        assert [(c.student, c.before.score, c.after.score) for c in found.changes] == [("wrong", 15, 30)]
    assert stands(small, "wrong").score == 30
    assert small.points("wrong") == 30
    assert "passed (15 of 15 points)" in page(small, "wrong")
    # What could not be graded then is none of its business, and nothing is graded twice now.
    assert stands(small, "lost").state == "infrastructure error"
    judges.asked = []
    assert not grade(small)["wrong"].anew
    assert again(small).changes == ()


def test_regrading_weighs_earlier_attempts_and_keeps_those_that_are_gone(small: SmallCourse, judges: Judges) -> None:
    first = small.course.submitted / "ada" / DAY / f"{TASK.notebook}.ipynb"
    small.hand_in("ada", f"{WRONG}\n# first", NOW)
    history = small.course.records / "history" / "ada" / DAY
    history.mkdir(parents=True)
    (history / f"{TASK.notebook}-1.ipynb").write_bytes(first.read_bytes())
    grade(small)
    small.hand_in("ada", f"{WRONG}\n# second", NOW + timedelta(seconds=1))
    grade(small)
    small.hand_in("ada", f"{WRONG}\n# third", NOW + timedelta(seconds=2))
    grade(small)
    # What grading has seen is kept, whoever brought it; only once, and not for ever.
    kept = {path.read_bytes(): path for path in sorted(history.iterdir())}
    assert len(kept) == len(list(history.iterdir())) == 3
    [second] = [path for content, path in kept.items() if b"# second" in content]
    second.unlink()
    judges.passes = {TASK.name}
    report = again(small)
    assert sorted(found.attempt.number for found in report.regraded if found.changed) == [1, 3]
    assert [attempt.number for attempt in report.gone] == [2]
    told = json.dumps(report.to_json())
    assert '"not_kept": [{"student": "ada", "attempt": 2}]' in told


def test_what_a_person_gave_stays_over_regrades_and_the_same_words(small: SmallCourse, judges: Judges) -> None:
    small.hand_in("ada", WRONG, NOW)
    grade(small)
    assert stands(small, "ada").score == 0
    person_gives(small, "ada", 11)
    assert stands(small, "ada").score == 11
    # The judge finds something else, the person's points stay, and nobody has to look again.
    judges.passes = {TASK.name}
    report = again(small)
    assert [(change.by_hand, change.after.score) for change in report.changes] == [(True, 11)]
    assert not needs_a_person(small, "ada")
    assert grade(small, force=True)["ada"].anew
    assert not needs_a_person(small, "ada")
    # The same words, in a notebook that differs elsewhere.
    notebook = small.room.answered(WRONG + "   \n")
    notebook.cells.insert(1, nbformat.v4.new_markdown_cell("A note."))
    small.room.place(json.dumps(notebook).encode(), "ada")
    (small.course.submitted / "ada" / DAY / "timestamp.txt").write_text("2030-01-01 00:00:00.0 UTC")
    assert grade(small)["ada"].anew
    assert not needs_a_person(small, "ada")
    assert stands(small, "ada").score == 11
    # Other words: they are asked again; the old words: not.
    for answer, asked in ((RIGHT, True), (WRONG, False), (BLANK, True)):
        small.hand_in("ada", answer, datetime.now(UTC) + timedelta(days=3650))
        grade(small)
        assert needs_a_person(small, "ada") is asked, answer


def test_a_persons_points_are_on_the_page_at_once(
    small: SmallCourse, rules: Callable[[str], None], judges: Judges
) -> None:
    rules(deadline(-1, "late_days = 5\npenalty_a_day = 50"))
    small.hand_in("ada", RIGHT, NOW)
    grade(small)
    person_gives(small, "ada", 10)
    write_feedback(small.course, "ada", DAY)
    assert "(10 of 15 points, given by a person)" in page(small, "ada")
    assert "Late submission penalty (Score: -5.0)" in page(small, "ada")
    assert "Score: 5.0 /" in page(small, "ada")
    told = small.run("progress", FXOPT_STUDENT="ada")
    line = next(line for line in told.stdout.splitlines() if DAY in line and "10/" in line)
    assert "−5" in line
    assert f"a person's points for {TASK.title}" in line


def test_feedback_keeps_what_cells_showed_that_grading_does_not_run(small: SmallCourse, judges: Judges) -> None:
    notebook = small.room.answered(RIGHT)
    measured = nbformat.v4.new_code_cell("measure()", id="own-measurement")
    evil = "<b>fast</b><script>window.ran=1</script>"
    measured.outputs = [
        nbformat.v4.new_output("stream", name="stdout", text="median 12.5 ms\n"),
        nbformat.v4.new_output("display_data", {"text/html": evil, "application/json": {"a": [1]}}),
    ]
    notebook.cells.append(measured)
    check = cell(notebook, TASK.name)
    check.outputs = [nbformat.v4.new_output("stream", name="stdout", text="forged: 100 of 100")]
    small.room.place(json.dumps(notebook).encode(), "ada")
    grade(small)
    shown = page(small, "ada")
    assert "median 12.5 ms" in shown
    assert "as handed in: grading did not run this cell" in shown
    assert "<b>fast</b>" in shown
    assert "<script" not in shown.partition("<body")[2]
    assert "forged" not in shown


def test_the_command_says_whose_points_changed(small: SmallCourse, judges: Judges) -> None:
    small.hand_in("ada", RIGHT)
    grade(small)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return small.run("regrade", *arguments)

    # The stand-in of the command is another judge: it passes what is right, as before.
    done = run(TASK.name, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "1 attempt regraded, 0 would change. Nothing was written (--dry-run)." in done.stdout
    assert "did you mean 'record_graphs'" in run("record_graph").stderr.lower()
    assert f"belongs to {DAY}" in run(TASK.name, "--unit", "day2_fx_graphs").stderr
