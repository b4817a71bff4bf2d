"""A course of one notebook, made in no time, whose grader is `stub_grader`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from classroom import DAY, RIGHT, ROOT, TASK, Classroom
from nbgrader.api import Gradebook, MissingEntry

from autograder.course.course import Course
from autograder.course.notebooks import grade_id
from autograder.course.reading import read_notebook
from autograder.course.sources import read_source
from autograder.course.submission import TIMESTAMP_FORMAT
from autograder.course.task import UNITS
from autograder.course.tasks import tasks_of_notebook
from autograder.records.verdicts import VerdictStore

STUB = Path(__file__).parent / "stub_grader.py"


@dataclass
class SmallCourse:
    """A course of the one notebook of `TASK`, and what is done with it."""

    course: Course
    unit: str = DAY

    @property
    def room(self) -> Classroom:
        """The same course with the helpers of other tests."""
        return Classroom(self.course)

    def hand_in(self, who: str, answer: str = RIGHT, when: datetime | None = None) -> None:
        """Lay an answer where it is graded, with a time."""
        path = self.room.place(json.dumps(self.room.answered(answer)).encode(), who)
        stamp = (when or datetime.now(UTC)).strftime(TIMESTAMP_FORMAT)
        (path.parent / "timestamp.txt").write_text(stamp)

    def command(self, *arguments: str) -> list[str]:
        """The command line of `fxopt` with the stand-in."""
        return [sys.executable, "-W", "ignore", str(STUB), *arguments]

    def environment(self, **further: str) -> dict[str, str]:
        """The environment of `command`."""
        known = {"FXOPT_ROOT": str(self.course.root), "COLUMNS": "500", "NO_COLOR": "1", "FXOPT_SEED": "seed"}
        return os.environ | known | further

    def run(
        self, *arguments: str, before: tuple[str, ...] = (), **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run `fxopt` with the stand-in, behind the command `before`."""
        return subprocess.run(
            [*before, *self.command(*arguments)],
            env=self.environment(**environment),
            capture_output=True,
            text=True,
            check=False,
            cwd=self.course.root,
        )

    def points(self, who: str) -> float | None:
        """A student's points in nbgrader's gradebook."""
        with Gradebook(self.course.database, "fxopt") as gradebook:
            try:
                found = gradebook.find_submission_notebook(TASK.notebook, DAY, who)
            except MissingEntry:
                return None
            return float(found.score)

    def records(self) -> dict[str, Any]:
        """Everything that grading recorded, without times: to compare two runs with."""
        found: dict[str, Any] = {}
        with VerdictStore(self.course.database) as store, Gradebook(self.course.database, "fxopt") as gradebook:
            for attempt in store.attempts():
                verdict = attempt.verdict
                tasks = [] if verdict is None else [(t.task, t.status, t.points, t.messages) for t in verdict.tasks]
                found[f"{attempt.student}#{attempt.number}"] = (
                    attempt.submission,
                    verdict and (verdict.status, verdict.problems, tasks),
                )
            for submission in gradebook.assignment_submissions(self.unit):
                grades = [(g.name, g.auto_score, g.needs_manual_grade) for n in submission.notebooks for g in n.grades]
                found[submission.student.id] = sorted(grades)
            found["finished"] = sorted(store.finished().items())
            found["rows"] = len(store.every())
        for folder in ("autograded", "feedback"):
            files = (self.course.records / folder).rglob("*")
            found[folder] = sorted(str(path.relative_to(self.course.records)) for path in files if path.is_file())
        return found


def make_small_course(folder: Path) -> SmallCourse:
    """A course with the source of one notebook, and that notebook as it is handed out."""
    name = f"{DAY}/{TASK.notebook}"
    for kind, suffix in (("solutions", "py"), ("curriculum", "ipynb")):
        target = folder / kind / f"{name}.{suffix}"
        target.parent.mkdir(parents=True)
        shutil.copy(ROOT / kind / f"{name}.{suffix}", target)
    shutil.copy(ROOT / "Week1.md", folder)
    (folder / "workspace").mkdir()
    return SmallCourse(Course(folder))


class RealCourse(SmallCourse):
    """A course of day 0 that is graded for real."""

    def command(self, *arguments: str) -> list[str]:
        """The command line of `fxopt`."""
        return [sys.executable, "-W", "ignore", "-m", "fxopt_workbench.cli", *arguments]


def make_real_course(folder: Path, submissions: int) -> RealCourse:
    """A course of day 0 with so many submissions, always the same: right, partly right, wrong and empty ones."""
    name = "ex_00_shapes_and_graphs"
    unit = UNITS["day0"]
    for kind, suffix in (("solutions", "py"), ("curriculum", "ipynb")):
        target = folder / kind / unit / f"{name}.{suffix}"
        target.parent.mkdir(parents=True)
        shutil.copy(ROOT / kind / unit / f"{name}.{suffix}", target)
    shutil.copy(ROOT / "Week1.md", folder)
    (folder / "workspace").mkdir()
    made = RealCourse(Course(folder), unit)
    tasks = tasks_of_notebook(name)
    reference = {grade_id(cell): cell.source for cell in read_source(folder / "solutions" / unit / f"{name}.py").cells}
    for number in range(submissions):
        notebook = read_notebook(folder / "curriculum" / unit / f"{name}.ipynb")
        answers = {grade_id(cell): cell for cell in notebook.cells}
        for position, task in enumerate(tasks):
            wrong = sorted((task.folder / "wrong").glob("*.py"))
            if number % 4 == 0 or (number % 4 == 1 and position % 2):
                answers[task.answer_id].source = reference[task.answer_id]
            elif number % 4 == 2:
                answers[task.answer_id].source = wrong[number % len(wrong)].read_text()
        path = made.course.submitted / f"student{number:02}" / unit / f"{name}.ipynb"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(notebook))
        when = datetime(2026, 3, 2, 9, tzinfo=UTC) + timedelta(minutes=number)
        (path.parent / "timestamp.txt").write_text(when.strftime(TIMESTAMP_FORMAT))
    return made


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SmallCourse:
    """A small course of a test's own, which every command finds; and in this process a stand-in for its graders."""
    from stub_grader import stub

    from autograder.grading import work

    monkeypatch.setattr(work, "grade_notebook", stub)
    monkeypatch.setattr(work, "PAUSE_SECONDS", 0.0)
    made = make_small_course(tmp_path / "course")
    for name in ("FXOPT_STUDENT", "FXOPT_DATABASE", "FXOPT_GRADING"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("FXOPT_ROOT", str(made.course.root))
    monkeypatch.setenv("FXOPT_SEED", "seed")
    return made
