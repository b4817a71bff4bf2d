"""Where each student stands with each assignment: the one place that says how many points count, and why.

From all attempts (the judge's), a person's points (nbgrader's gradebook) and the rules of `course.toml`. Whatever shows
points, exports, the dashboard and `fxopt progress`, asks here. What is no grade never becomes a number: *not
submitted*, *not graded yet*, *too late* and *infrastructure error* are states of their own, and none of them is 0.
Imports no torch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from nbgrader.api import Assignment, BaseCell, Gradebook, GradeCell, Notebook, Student
from sqlalchemy import func, select

from autograder.course.course import Course
from autograder.course.rules import Lateness, Rules, Terms
from autograder.course.rules_file import read_rules
from autograder.course.task import UNITS
from autograder.course.tasks import all_tasks
from autograder.records.admission import Refusal, graded, refusal
from autograder.records.intake import IntakeError, handed_in, look_into
from autograder.records.manual_grades import CellGrade, cell_grades
from autograder.records.verdicts import Attempt, Verdict, VerdictStore

State = Literal["graded", "waits for a person", "not graded yet", "infrastructure error", "too late", "not submitted"]
"""What there is to say of a student's work.

- `graded`: the points are final, as far as nobody hands in again.
- `waits for a person`: the judge's points are there, a written answer has none yet.
- `not graded yet`: handed in and not graded; `fxopt grade` grades it.
- `infrastructure error`: grading itself failed, through no fault of the learner; `fxopt grade` tries again.
- `too late`: handed in only when it was no longer taken.
- `not submitted`: nothing was handed in.
"""

STATES: tuple[State, ...] = (
    "graded",
    "waits for a person",
    "not graded yet",
    "infrastructure error",
    "too late",
    "not submitted",
)


@dataclass(frozen=True)
class Counted:
    """An attempt, and what it comes to.

    Attributes:
        attempt: the attempt.
        lateness: how late it came.
        judged: points of the tasks that a judge grades, a person's in their place where there are any.
        penalty: points that lateness costs, of these and of the written ones.
        score: all points after the penalty.
    """

    attempt: Attempt
    lateness: Lateness
    judged: float
    penalty: float
    score: float


@dataclass(frozen=True)
class Standing:
    """Where one student stands with one notebook of an assignment.

    Attributes:
        student: who.
        assignment: the assignment's folder.
        notebook: file name without suffix.
        state: see `State`.
        judged_max: most points of the tasks that a judge grades.
        written_max: most points for answers in words; 0 when there are none.
        written: a person's points for them; `None` while they wait.
        extra: further points that a person gave.
        counted: the attempt that counts; `None` unless something was graded.
        attempts: how many attempts there are.
        refused: attempts that are kept and not graded, and why.
        by_hand: names of tasks whose judge's points a person replaced.
    """

    student: str
    assignment: str
    notebook: str
    state: State
    judged_max: float
    written_max: float
    written: float | None = None
    extra: float = 0.0
    counted: Counted | None = None
    attempts: int = 0
    refused: tuple[tuple[Attempt, Refusal], ...] = ()
    by_hand: tuple[str, ...] = ()

    @property
    def final(self) -> bool:
        """Whether there is a number to give away."""
        return self.state == "graded" and self.counted is not None

    @property
    def score(self) -> float | None:
        """All points after the penalty; `None` where there is no final number."""
        return self.counted.score if self.final and self.counted is not None else None

    @property
    def judged(self) -> float | None:
        """Points of the judged tasks after their part of the penalty; `None` where there are none that may be shown."""
        if self.counted is None or self.state not in ("graded", "waits for a person"):
            return None
        return self.counted.judged * (1 - self.counted.lateness.share)

    @property
    def written_after(self) -> float | None:
        """Points of the written answers and extra points, after their part of the penalty."""
        if self.counted is None or self.written is None or self.state != "graded":
            return None
        return (self.written + self.extra) * (1 - self.counted.lateness.share)


@dataclass(frozen=True)
class Person:
    """A student as nbgrader's gradebook knows them; everything but the name of the folder may be empty.

    Attributes:
        student: name of the folder of submissions, key of the gradebook.
        first_name, last_name, email: from the class list (`nbgrader db student import`).
        lms_id: number in a learning management system.
    """

    student: str
    first_name: str = ""
    last_name: str = ""
    email: str = ""
    lms_id: str = ""

    @property
    def name(self) -> str:
        """Family name first where it is known; else the student's key."""
        whole = ", ".join(part for part in (self.last_name, self.first_name) if part)
        return whole or self.student


@dataclass(frozen=True)
class Sheet:
    """A notebook that is graded, with its points.

    Attributes:
        assignment: the assignment's folder.
        notebook: file name without suffix.
        judged_max: most points of the tasks that a judge grades.
        written_max: most points for answers in words.
    """

    assignment: str
    notebook: str
    judged_max: float
    written_max: float


@dataclass(frozen=True)
class ClassRecords:
    """All that is known of a class, read once.

    Attributes:
        people: every student, by key: those of the class list, and those who handed in.
        sheets: the notebooks that are graded.
        attempts: every attempt, oldest first, by student, assignment and notebook.
        grades: the points of nbgrader's gradebook, likewise.
        rules: what `course.toml` says.
        handed_in: (student, assignment, notebook) of all that lies in the folder of submissions.
    """

    people: Mapping[str, Person]
    sheets: Sequence[Sheet]
    attempts: Mapping[tuple[str, str, str], Sequence[Attempt]]
    grades: Mapping[tuple[str, str, str], Sequence[CellGrade]] = field(default_factory=dict)
    rules: Rules = field(default_factory=Rules)
    handed_in: frozenset[tuple[str, str, str]] = frozenset()

    def standings(self, student: str | None = None, assignment: str | None = None) -> list[Standing]:
        """Where everybody stands, by student and assignment.

        Args:
            student: only this one.
            assignment: only this assignment (folder name).
        """
        found = []
        for who in sorted(self.people):
            if student not in (None, who):
                continue
            for sheet in self.sheets:
                if assignment in (None, sheet.assignment):
                    key = who, sheet.assignment, sheet.notebook
                    terms = self.rules.for_student(who, sheet.assignment)
                    grades = self.grades.get(key, ())
                    attempts = self.attempts.get(key, ())
                    found.append(standing(who, sheet, attempts, grades, terms, key in self.handed_in))
        return found


def read_class(course: Course, student: str | None = None) -> ClassRecords:
    """Read what is known of a class, or of one student.

    Raises:
        RulesError: there are mistakes in `course.toml`.
        DatabaseError: the gradebook cannot be read.
    """
    rules = read_rules(course)
    attempts: defaultdict[tuple[str, str, str], list[Attempt]] = defaultdict(list)
    with VerdictStore(course.database) as store:
        for attempt in store.attempts(student):
            attempts[attempt.student, attempt.assignment, attempt.notebook].append(attempt)
    grades: defaultdict[tuple[str, str, str], list[CellGrade]] = defaultdict(list)
    table = Student.__table__
    with Gradebook(course.database, "fxopt") as gradebook:
        people = {
            str(row.id): Person(*(str(value or "") for value in row))
            for row in gradebook.db.execute(
                select(table.c.id, table.c.first_name, table.c.last_name, table.c.email, table.c.lms_user_id)
            )
            if student in (None, row.id)
        }
        for grade in cell_grades(gradebook, student):
            grades[grade.student, grade.assignment, grade.notebook].append(grade)
        sheets = _sheets(gradebook)
    there = frozenset(_handed_in(course, student))
    for who, _, _ in [*attempts, *there]:
        people.setdefault(who, Person(who))
    if student is not None:
        people.setdefault(student, Person(student))
    return ClassRecords(people, sheets, attempts, grades, rules, there)


def _handed_in(course: Course, student: str | None) -> Iterator[tuple[str, str, str]]:
    for who, unit in handed_in(course):
        if student in (None, who):
            try:
                folder = look_into(course, who, unit)
            except (IntakeError, OSError):
                continue  # no student, or gone meanwhile: grading reports it
            yield from ((who, unit, name) for name in folder.notebooks)


def _sheets(gradebook: Gradebook) -> list[Sheet]:
    """The notebooks that are graded, in the order of the units, with the points that the gradebook knows."""
    base, cell = BaseCell.__table__, GradeCell.__table__
    notebook, assignment = Notebook.__table__, Assignment.__table__
    rows = gradebook.db.execute(
        select(assignment.c.name, notebook.c.name.label("notebook"), cell.c.cell_type, func.sum(cell.c.max_score))
        .select_from(cell)
        .join(base, base.c.id == cell.c.id)
        .join(notebook, notebook.c.id == base.c.notebook_id)
        .join(assignment, assignment.c.id == notebook.c.assignment_id)
        .group_by(assignment.c.name, notebook.c.name, cell.c.cell_type)
    )
    points = {(name, sheet, kind): float(most) for name, sheet, kind, most in rows}
    graded_notebooks = dict.fromkeys((UNITS[task.unit], task.notebook) for task in all_tasks())
    return [
        Sheet(unit, name, points.get((unit, name, "code"), 0.0), points.get((unit, name, "markdown"), 0.0))
        for unit, name in graded_notebooks
        if (unit, name, "code") in points
    ]


def standing(
    student: str,
    sheet: Sheet,
    attempts: Sequence[Attempt],
    grades: Sequence[CellGrade],
    terms: Terms,
    handed_in: bool = False,
) -> Standing:
    """Where one student stands with one notebook.

    Args:
        student: who.
        sheet: the notebook.
        attempts: all attempts at it, oldest first.
        grades: a person's points for it.
        terms: what holds for this student.
        handed_in: whether something lies in the folder of submissions, which grading may not have seen yet.
    """
    written = [grade for grade in grades if grade.written]
    waiting = any(grade.person is None for grade in written) or (not written and sheet.written_max > 0)
    hand = None if waiting else sum(grade.person or 0.0 for grade in written)
    by_hand = {grade.name: grade.manual for grade in grades if not grade.written and grade.manual is not None}
    extra = sum(grade.extra for grade in grades)
    refused = tuple(
        (attempt, why)
        for attempt in attempts
        if not graded(attempt)
        and (why := refusal(terms, attempts, attempt.submission, attempt.received_at)) is not None
    )
    left = {attempt.number for attempt, _ in refused}
    taken = [attempt for attempt in attempts if attempt.number not in left]
    candidates = [
        _counted(attempt, attempt.verdict, by_hand, (hand or 0.0) + extra, terms)
        for attempt in taken
        if attempt.verdict is not None and graded(attempt)
    ]
    counted = None
    if candidates:
        # Of equal ones the newest: it is the one that the form grader and the feedback page show.
        last_best = max(reversed(candidates), key=lambda found: found.score)
        counted = last_best if terms.counts == "best" else candidates[-1]
    state: State = "graded"
    if not attempts:
        state = "not graded yet" if handed_in else "not submitted"
    elif not taken:
        state = "too late" if any(why.reason == "too late" for _, why in refused) else "not graded yet"
    elif taken[-1].verdict is None:
        state = "not graded yet"
    elif not graded(taken[-1]):
        state = "infrastructure error"
    elif waiting:
        state = "waits for a person"
    return Standing(
        student,
        sheet.assignment,
        sheet.notebook,
        state,
        sheet.judged_max,
        sheet.written_max,
        hand,
        extra,
        counted,
        len(attempts),
        refused,
        tuple(sorted(by_hand)),
    )


def _counted(
    attempt: Attempt, verdict: Verdict, by_hand: Mapping[str, float | None], others: float, terms: Terms
) -> Counted:
    judged = sum(_points(by_hand.get(task.task), task.points) for task in verdict.tasks)
    lateness = terms.lateness(attempt.received_at)
    penalty = (judged + others) * lateness.share
    return Counted(attempt, lateness, judged, penalty, judged + others - penalty)


def _points(by_hand: float | None, judged: float | None) -> float:
    return by_hand if by_hand is not None else judged or 0.0


def count_states(standings: Iterable[Standing]) -> dict[State, int]:
    """How many there are in each state, in the order of `STATES`."""
    found = dict.fromkeys(STATES, 0)
    for each in standings:
        found[each.state] += 1
    return found
