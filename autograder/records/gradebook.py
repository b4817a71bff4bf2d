"""Grading submissions into nbgrader's gradebook, and the feedback pages. Imports no torch."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED as ANY
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import nbformat
from nbconvert.preprocessors import CSSHTMLHeaderPreprocessor
from nbformat import NotebookNode
from nbgrader.api import Gradebook, MissingEntry
from nbgrader.converters import GenerateFeedback
from nbgrader.coursedir import CourseDirectory
from sqlalchemy.exc import SQLAlchemyError
from traitlets import List

from autograder.course.converting import TellsWhy, convert
from autograder.course.course import Course, course_config
from autograder.course.rules_file import read_rules
from autograder.course.sources import make_assignments, read_source, sources
from autograder.course.task import UNITS, WrittenTask
from autograder.course.tasks import tasks_of_notebook, written_tasks
from autograder.exchange.scratch import remove_leftovers
from autograder.exchange.verdict import one_line
from autograder.grading.batch import Batch, Graders, Here
from autograder.grading.work import InfrastructureError, Work, reason_of
from autograder.records.admission import reason_to_keep
from autograder.records.database import one_engine
from autograder.records.intake import HandedIn, IntakeError, handed_in, read_submission, rebuilt
from autograder.records.lock import course_lock
from autograder.records.nbgrader_plugin import AutogradeReceived, outcome_file
from autograder.records.recording import (
    NOT_GRADED,
    Judged,
    note_receipt,
    record_failure,
    record_outcomes,
    whole_outcome,
    work_of,
)
from autograder.records.shown_grades import GivenBy, ShownGrades, given_by
from autograder.records.trouble import explained, shown
from autograder.records.verdicts import Attempt, VerdictStore
from fxopt_workbench.files import write_whole


@dataclass(frozen=True)
class Graded:
    """What grading did with one submitted notebook.

    Attributes:
        student: whose it is.
        unit: the assignment's folder.
        notebook: file name without suffix.
        outcome: the recorded outcome (see `NotebookOutcome.to_json`), or `None` when grading itself failed.
        failure: why grading failed, or `""`.
        feedback: the feedback page, when there is one.
        anew: whether it was graded now; otherwise it had been graded since it was handed in.
        waits: whether grading itself failed, so that the next run tries it again; that is nobody's 0 points.
        kept: why what was handed in last is kept and not graded, or `""`; the outcome is then that of an earlier one.
    """

    student: str
    unit: str
    notebook: str
    outcome: dict[str, Any] | None
    failure: str
    feedback: Path | None
    anew: bool
    waits: bool = False
    kept: str = ""


class GradingStoppedError(RuntimeError):
    """Grading itself does not work here; the message is one line that says why, and what becomes of the rest."""


def prepare_gradebook(course: Course, store: VerdictStore | None = None) -> None:
    """Bring the gradebook up to date with the authoring sources: assignments, cells and points.

    Args:
        course: the course.
        store: the opened store; `None` opens it.

    Raises:
        ReleaseError: nbgrader refused.
        RecordsError: the gradebook cannot be used.
    """
    if store is None:
        with explained(course.database, course.records), VerdictStore(course.database) as opened:
            prepare_gradebook(course, opened)
        return
    hasher = hashlib.sha256()
    for source in sources(course):
        hasher.update(f"{source.relative_to(course.solutions)}\0".encode() + source.read_bytes() + b"\0")
    state = hasher.hexdigest()
    if store.fact(PREPARED) == state and not store.is_new():
        return
    with tempfile.TemporaryDirectory() as folder:
        for source in sources(course):
            target = Path(folder) / "source" / source.parent.name / f"{source.stem}.ipynb"
            target.parent.mkdir(parents=True, exist_ok=True)
            nbformat.write(read_source(source), target)
        make_assignments(course, Path(folder) / "source", Path(folder) / "release", course.database)
    # In the gradebook, so that another one is never taken for prepared.
    store.set_fact(PREPARED, state)


@dataclass(frozen=True)
class Due:
    """A submission in a run of grading.

    Attributes:
        student: the name of the folder, which may be none of a student.
        unit: the assignment's folder.
        submission: what was handed in, when the run began; `None` when it cannot be read.
        refusal: why it cannot be graded, or `""`.
        anew: whether it will be graded; otherwise it was, since it was handed in.
        kept: why it is kept and not graded (see `admission`), or `""`.
    """

    student: str
    unit: str
    submission: HandedIn | None
    refusal: str
    anew: bool
    kept: str = ""


def plan(
    course: Course, store: VerdictStore, who: str | None = None, unit: str | None = None, force: bool = False
) -> Iterator[Due]:
    """What a run of grading would do, assignment by assignment; see `grade` for the arguments.

    Raises:
        RulesError: there are mistakes in `course.toml`.
    """
    rules = read_rules(course)
    attempts: defaultdict[tuple[str, str], list[Attempt]] = defaultdict(list)
    for attempt in store.attempts(who, unit):
        attempts[attempt.student, attempt.assignment].append(attempt)
    folders = [
        (student, name) for student, name in handed_in(course) if who in (None, student) and unit in (None, name)
    ]
    finished = store.finished()
    for student, name in sorted(folders, key=lambda found: (found[1], found[0])):
        try:
            submission = read_submission(course, student, name)
        except IntakeError as error:
            yield Due(one_line(ascii(student)[1:-1], 80), name, None, str(error), False)
            continue
        if not submission.contents:
            released = ", ".join(sorted(path.name for path in (course.curriculum / name).glob("*.ipynb")))
            wanted = f"expected one of {released}" if released else f"there is no assignment {one_line(name, 80)}"
            yield Due(student, name, None, f"no notebook of the assignment was handed in ({wanted})", False)
            continue
        same = finished.get((student, name)) == submission.fingerprint and _is_complete(course, submission)
        terms = rules.for_student(student, name)
        kept = "" if same else reason_to_keep(terms, submission, attempts[student, name])
        yield Due(student, name, submission, "", (force or not same) and not kept, kept)


def _is_complete(course: Course, submission: HandedIn) -> bool:
    """Whether everything that grading writes besides the gradebook is there."""
    student, unit = submission.folder.student, submission.folder.unit
    return all(
        outcome_file(course, student, unit, name).is_file()
        and (course.feedback / student / unit / f"{name}.html").is_file()
        and (course.records / "autograded" / student / unit / f"{name}.ipynb").is_file()
        for name in submission.contents
    )


def grade(
    course: Course,
    who: str | None = None,
    unit: str | None = None,
    force: bool = False,
    jobs: int = 1,
    *,
    graders: Graders | None = None,
    wait: bool = False,
    begun: Callable[[int], None] = lambda count: None,
    note: Callable[[str], None] = lambda line: None,
) -> Iterator[Graded]:
    """Grade what was handed in since it was last graded; one result per submitted notebook, as soon as it is known.

    A submission on which grading fails is reported and delays no other. Assignment by assignment, so that what is warm
    for one submission is warm for the next. However many processes grade, only this one writes.

    Args:
        course: the course.
        who: only this student's submissions.
        unit: only this assignment (folder name).
        force: grade even what has been graded since it was handed in.
        jobs: how many processes run and judge notebooks at once.
        graders: what grades, in the place of `jobs` processes.
        wait: whether to wait for another process that grades this course.
        begun: is told how many submissions will be graded, before the first one is.
        note: is told what the person who grades should know of the gradebook.

    Raises:
        CourseLockedError: another process is grading this course.
        RecordsError: the gradebook or another file cannot be read or written.
        ReleaseError: the gradebook cannot be brought up to date.
        RulesError: there are mistakes in `course.toml`.
        GradingStoppedError: grading itself does not work here.
        ValueError: fewer jobs than one.
    """
    if graders is None:
        graders = Here() if jobs == 1 else Batch(jobs)
    with explained(course.database, course.records), course_lock(course, wait):
        remove_leftovers()
        with VerdictStore(course.database) as store:
            if store.is_new() and (before := len(list((course.records / "autograded").glob("*/*")))):
                note(ANEW.format(file=shown(course.database), count=before))
            prepare_gradebook(course, store)
            every = list(plan(course, store, who, unit, force))
            begun(sum(due.anew for due in every))
            try:
                with graders, one_engine():
                    yield from _Run(course, store, graders).results(every)
            finally:
                # Of processes that were lost meanwhile.
                remove_leftovers()


PREPARED = "prepared"
"""Name of the fact of which sources the gradebook was prepared from."""

ANEW = (
    "The gradebook {file} is new or empty, but {count} submissions were graded before: they are graded again. Points "
    "that people gave are not in it; to keep them, stop this and put a copy of the old gradebook back."
)

IN_A_ROW = 3
"""After how many failures in a row it is looked whether grading works here at all."""


class _Run:
    """One run of grading: submissions go out to the graders, and what they come to is written one by one."""

    def __init__(self, course: Course, store: VerdictStore, graders: Graders) -> None:
        self._course, self._store, self._graders = course, store, graders
        self._failures = 0

    def results(self, every: Sequence[Due]) -> Iterator[Graded]:
        """Everything that is due, as soon as it is known."""
        waiting: list[_Begun] = []
        for due in every:
            if due.refusal or not due.anew:
                yield from self._known(due)
                continue
            while len(waiting) >= self._graders.ahead:
                yield from self._next(waiting)
            try:
                waiting.append(self._begin(due))
            except IntakeError as error:
                yield Graded(due.student, due.unit, "-", None, str(error), None, False)
        while waiting:
            yield from self._next(waiting)

    def _known(self, due: Due) -> Iterator[Graded]:
        """What need not be graded."""
        if due.submission is None:
            yield Graded(due.student, due.unit, "-", None, due.refusal, None, False)
            return
        if due.kept:
            note_receipt(self._store, self._course, due.submission)
        yield from self._graded(due.submission, anew=False, kept=due.kept)

    def _begin(self, due: Due) -> _Begun:
        """Hand a submission over to the graders, as it lies in its folder now."""
        # Read again: of a thousand submissions not all that was read for the plan is kept.
        submission = read_submission(self._course, due.student, due.unit)
        notebooks = rebuilt(self._course, submission)
        note_receipt(self._store, self._course, submission)
        works = {}
        for name, notebook in notebooks.items():
            work = work_of(self._course, submission.folder, name, notebook)
            works[name] = None if work is None else (work, self._graders.submit(work))
        return _Begun(submission, notebooks, works)

    def _next(self, waiting: list[_Begun]) -> Iterator[Graded]:
        """Write the first submission that is graded."""
        while True:
            ready = next((begun for begun in waiting if begun.done), None)
            if ready is not None:
                break
            wait([future for begun in waiting for future in begun.futures if not future.done()], return_when=ANY)
        waiting.remove(ready)
        yield from self._write(ready)

    def _write(self, begun: _Begun) -> Iterator[Graded]:
        course, store, submission = self._course, self._store, begun.submission
        student, unit = submission.folder.student, submission.folder.unit
        outcomes = {}
        try:
            for name, given in begun.works.items():
                graded = None if given is None else self._graders.outcome(*given)
                outcomes[name] = whole_outcome(course, unit, name, begun.notebooks[name], graded)
        except InfrastructureError as error:
            record_failure(store, course, submission, str(error))
            for name in begun.works:
                yield Graded(student, unit, name, None, NOT_GRADED.format(reason=error), None, True, waits=True)
            self._failed(begun, str(error))
            return
        self._failures = 0
        record_outcomes(store, course, submission, begun.notebooks, outcomes)
        failure = self._convert(Judged(submission, begun.notebooks, outcomes))
        if not failure:
            store.finish(student, unit, submission.fingerprint)
        yield from self._graded(submission, anew=True, failure=failure)

    def _failed(self, begun: _Begun, reason: str) -> None:
        """After several failures in a row: does grading work with a notebook that is none of a learner's?

        Raises:
            GradingStoppedError: it does not.
        """
        self._failures += 1
        work = next((given[0] for given in begun.works.values() if given is not None), None)
        if self._failures % IN_A_ROW or work is None:
            return
        blank = replace(work, notebook=work.release)
        try:
            self._graders.outcome(blank, self._graders.submit(blank))
        except InfrastructureError as error:
            raise GradingStoppedError(
                f"grading does not work here: {error}. Nobody loses points: mend that, and run `fxopt grade` again"
            ) from error

    def _convert(self, judged: Judged) -> str:
        """Write a submission into nbgrader's gradebook, and its feedback; why that failed, or `""`."""
        config = course_config(self._course)
        folder = judged.submission.folder
        config.CourseDirectory.student_id = folder.student
        config.CourseDirectory.assignment_id = folder.unit
        autograde = AutogradeReceived(coursedir=CourseDirectory(config=config), config=config)
        autograde.judged[folder.student, folder.unit] = judged
        feedback = feedback_of(self._course, folder.student, folder.unit)
        try:
            for converter in (autograde, feedback):
                converter.force = True
                convert(converter)
        except (SQLAlchemyError, OSError):
            raise  # of the disk or the database: the next submission would fare no better
        except Exception as error:
            return reason_of(error)
        return ""

    def _graded(self, submission: HandedIn, *, anew: bool, failure: str = "", kept: str = "") -> Iterator[Graded]:
        student, unit = submission.folder.student, submission.folder.unit
        for name in submission.contents:
            outcome = None if failure else _read_outcome(self._course, student, unit, name)
            page = self._course.feedback / student / unit / f"{name}.html"
            found = page if page.exists() else None
            yield Graded(
                student, unit, name, outcome, failure, found, anew, kept=kept if tasks_of_notebook(name) else ""
            )


@dataclass(frozen=True)
class _Begun:
    """A submission that the graders have: its notebooks, and the work of each with what will come of it."""

    submission: HandedIn
    notebooks: dict[str, NotebookNode]
    works: dict[str, tuple[Work, Future[dict[str, Any]]] | None]

    @property
    def futures(self) -> list[Future[dict[str, Any]]]:
        return [given[1] for given in self.works.values() if given is not None]

    @property
    def done(self) -> bool:
        return all(future.done() for future in self.futures)


class GenerateFeedbackOf(TellsWhy, GenerateFeedback):
    """nbgrader's feedback, which says why it failed.

    Attributes:
        best_counts: whether the page says that the best attempt counts, and not the one that it shows.
    """

    preprocessors = List([ShownGrades, CSSHTMLHeaderPreprocessor]).tag(config=True)
    best_counts = False

    def init_single_notebook_resources(self, notebook_filename: str) -> dict[str, Any]:
        """As nbgrader's, with what the page says of attempts."""
        resources: dict[str, Any] = super().init_single_notebook_resources(notebook_filename)
        return resources | {"best_counts": self.best_counts}


def feedback_of(course: Course, who: str, unit: str) -> GenerateFeedbackOf:
    """What writes the feedback pages of one submission, over those that there are.

    Raises:
        RulesError: there are mistakes in `course.toml`.
    """
    config = course_config(course)
    config.CourseDirectory.student_id = who
    config.CourseDirectory.assignment_id = unit
    converter = GenerateFeedbackOf(coursedir=CourseDirectory(config=config), config=config)
    converter.best_counts = read_rules(course).for_student(who, unit).counts == "best"
    converter.force = True
    return converter


def _read_outcome(course: Course, student: str, unit: str, notebook: str) -> dict[str, Any] | None:
    path = outcome_file(course, student, unit, notebook)
    return json.loads(path.read_text()) if path.exists() else None


def recorded_points(course: Course, student: str, unit: str, notebook: str) -> tuple[float, float] | None:
    """(score, maximum) of a submitted notebook in the gradebook, or `None` when it is not there."""
    with Gradebook(course.database, "fxopt") as gradebook:
        try:
            found = gradebook.find_submission_notebook(notebook, unit, student)
        except MissingEntry:
            return None
        return float(found.score), float(found.max_score)


def written_scores(course: Course, graded: Graded) -> list[tuple[WrittenTask, float | None, float, GivenBy]]:
    """(task, points or `None` while a person has to look, maximum, whose points) of each written answer."""
    found: list[tuple[WrittenTask, float | None, float, GivenBy]] = []
    with Gradebook(course.database, "fxopt") as gradebook:
        for task in written_tasks():
            if (UNITS[task.unit], task.notebook) != (graded.unit, graded.notebook):
                continue
            try:
                found_grade = gradebook.find_grade(task.name, task.notebook, graded.unit, graded.student)
            except MissingEntry:
                continue
            # Without a person's score there is one only for an answer that was left as it was handed out.
            points = None if found_grade.needs_manual_grade else float(found_grade.score)
            found.append((task, points, float(found_grade.max_score), given_by(found_grade)))
    return found


def publish_feedback(course: Course, graded: Graded) -> Path | None:
    """Copy a feedback page into the workspace, where JupyterLab shows it; its new place."""
    if graded.feedback is None:
        return None
    target = course.workspace / "feedback" / f"{graded.notebook}.html"
    write_whole(target, graded.feedback.read_bytes())
    return target
