"""What the dashboard shows, as plain data: counted from the gradebook's records, with nothing about how it looks.

Imports no torch.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from autograder.classroom.standing import ClassRecords, Standing, State, count_states, read_class
from autograder.course.course import Course
from autograder.course.notebooks import grade_id
from autograder.course.reading import UnreadableNotebookError, parse_notebook
from autograder.course.tasks import all_tasks
from autograder.records.admission import graded, refusal
from autograder.records.intake import IntakeError, content_of, handed_in, handed_in_at, look_into
from autograder.records.lock import is_graded_now
from autograder.records.verdicts import Attempt, TaskVerdict

RUN_PAUSE = timedelta(minutes=10)
"""Verdicts that lie further apart belong to different grading runs."""

RATE_OF = 40
"""From how many of the latest verdicts the speed of grading is told."""

BINS = 10
"""Bars of a distribution."""

SHOWN_CODE = 3000
"""Most characters of an answer that are shown."""

MISCONCEPTIONS_SHOWN = 5
"""Most misconceptions of one task that are shown."""

RESULTS = ("passed", "wrong", "not written", "stopped or failed")
"""What can become of a task, for counting: the last one is all that ended without a verdict on the answer."""


@dataclass(frozen=True)
class Run:
    """How far grading is.

    Attributes:
        handed_in: submitted notebooks, as far as they are graded at all.
        done: those of them that have a verdict.
        refused: those that are kept and not graded.
        a_minute: how many were graded a minute lately; `None` when that cannot be told.
        left: time until the last one is graded at that speed; `None` when nothing waits or it cannot be told.
        running: whether a grader is at work; where that cannot be told, whether verdicts came lately.
        latest: when the last verdict came.
    """

    handed_in: int
    done: int
    refused: int
    a_minute: float | None
    left: timedelta | None
    running: bool
    latest: datetime | None

    @property
    def waiting(self) -> int:
        """How many are not graded yet."""
        return self.handed_in - self.done


@dataclass(frozen=True)
class TaskResults:
    """What became of one task in the whole class.

    Attributes:
        task: its name.
        title: its title.
        counts: how many students, by `RESULTS`.
    """

    task: str
    title: str
    counts: dict[str, int]

    @property
    def of(self) -> int:
        """How many students."""
        return sum(self.counts.values())


@dataclass(frozen=True)
class Misconception:
    """One thing that several students got wrong in the same way.

    Attributes:
        task: the task's name.
        title: the task's title.
        name: the misconception's name.
        message: what the learners read.
        students: who.
        of: how many students the task was graded for.
        shown: the student whose answer shows it best; empty when no answer can be read.
        answer: that answer.
        cut: whether it was too long to be shown whole.
    """

    task: str
    title: str
    name: str
    message: str
    students: tuple[str, ...]
    of: int
    shown: str = ""
    answer: str = ""
    cut: bool = False


@dataclass(frozen=True)
class Distribution:
    """How the points of an assignment are spread.

    Attributes:
        assignment: the assignment's folder.
        notebook: file name without suffix.
        most: most points that the judge gives.
        bins: (from, to, how many students) of each bar; the last bar has both its ends.
        median: the median; `None` without students.
    """

    assignment: str
    notebook: str
    most: float
    bins: tuple[tuple[float, float, int], ...]
    median: float | None


@dataclass(frozen=True)
class Matrix:
    """A table that a command wrote as JSON: of the exercise gate, or of mutation testing.

    Attributes:
        headings: of the columns after the task's name.
        rows: (task, cells, whether all is well).
        problem: why there is nothing to show, and what to do.
    """

    headings: tuple[str, ...] = ()
    rows: tuple[tuple[str, tuple[str, ...], bool], ...] = ()
    problem: str = ""


@dataclass(frozen=True)
class Assignment:
    """One assignment on the page.

    Attributes:
        name: the assignment's folder.
        states: how many students are in each state.
        tasks: what became of each task.
        misconceptions: the most frequent ones.
        distributions: of the points of each notebook.
        names: students in those states that ask for somebody's attention, by state.
    """

    name: str
    states: dict[State, int]
    tasks: tuple[TaskResults, ...]
    misconceptions: tuple[Misconception, ...]
    distributions: tuple[Distribution, ...]
    names: dict[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Snapshot:
    """All that the dashboard shows at one moment.

    Attributes:
        at: the moment.
        run: how far grading is.
        assignments: those in which anything was handed in.
        gate: the matrix of the exercise gate.
        mutation: the matrix of mutation testing.
        people: names of students for people, by key.
    """

    at: datetime
    run: Run
    assignments: tuple[Assignment, ...]
    gate: Matrix
    mutation: Matrix
    people: dict[str, str]

    @property
    def version(self) -> str:
        """Changes when anything changes that a reader would see, the time apart."""
        text = repr(
            (
                self.run.done,
                self.run.handed_in,
                self.run.refused,
                self.assignments,
                self.gate,
                self.mutation,
                self.people,
            )
        )
        return hashlib.sha256(text.encode()).hexdigest()[:16]


class Reader:
    """Reads snapshots; what does not change between two of them is read once."""

    def __init__(
        self, course: Course, gate: Path, mutation: Path, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        """Prepare to read.

        Args:
            course: the course.
            gate: the file that `fxopt gate --json` wrote.
            mutation: the file that `fxopt mutate --json` wrote.
            now: the clock.
        """
        self._course, self._gate, self._mutation, self._now = course, gate, mutation, now
        self._digests: dict[tuple[str, ...], tuple[tuple[float, int], str]] = {}
        self._answers: dict[str, dict[str, str]] = {}

    def snapshot(self) -> Snapshot:
        """The class as it is now.

        Raises:
            RulesError: there are mistakes in `course.toml`.
            DatabaseError: the gradebook cannot be read.
        """
        records = read_class(self._course)
        return Snapshot(
            self._now(),
            self._run(records),
            tuple(self._assignments(records)),
            gate_matrix(self._gate),
            mutation_matrix(self._mutation),
            {key: person.name for key, person in records.people.items()},
        )

    def _run(self, records: ClassRecords) -> Run:
        """Counted from what lies in the folder of submissions, so that it is right before a grader has seen it."""
        notebooks = {(sheet.assignment, sheet.notebook) for sheet in records.sheets}
        done = refused = total = 0
        for student, unit in handed_in(self._course):
            try:
                folder = look_into(self._course, student, unit)
                when = handed_in_at(self._course, folder) or self._now()
                found = [(name, self._digest(student, unit, name)) for name in folder.notebooks]
            except (IntakeError, OSError):
                continue  # grading reports it
            for name, digest in found:
                if (unit, name) not in notebooks:
                    continue
                attempts = records.attempts.get((student, unit, name), ())
                own = next((attempt for attempt in attempts if attempt.submission == digest), None)
                at = own.received_at if own is not None else when
                if refusal(records.rules.for_student(student, unit), attempts, digest, at) is not None:
                    refused += 1
                    continue
                total += 1
                done += own is not None and graded(own)
        a_minute, latest = self._speed(records)
        lately = latest is not None and self._now() - latest < RUN_PAUSE
        known = is_graded_now(self._course)
        running = total > done and (lately if known is None else known)
        if not running or not lately:  # a run that has no verdict yet has no speed, whatever an earlier one had
            return Run(total, done, refused, None, None, running, latest)
        left = timedelta(minutes=(total - done) / a_minute) if a_minute else None
        return Run(total, done, refused, a_minute, left, running, latest)

    def _speed(self, records: ClassRecords) -> tuple[float | None, datetime | None]:
        """(verdicts a minute, time of the last one) of the latest grading run."""
        times = sorted(
            attempt.verdict.graded_at
            for attempts in records.attempts.values()
            for attempt in attempts
            if attempt.verdict is not None
        )
        if not times:
            return None, None
        first = len(times) - 1
        while first > max(0, len(times) - RATE_OF) and times[first] - times[first - 1] < RUN_PAUSE:
            first -= 1
        # A run that stopped becomes slower with every minute, and the time left grows.
        passed = max(times[-1] - times[first], self._now() - times[first] - RUN_PAUSE / 10)
        number = len(times) - 1 - first
        return (number / (passed / timedelta(minutes=1)) if number and passed > timedelta() else None), times[-1]

    def _digest(self, student: str, unit: str, name: str) -> str:
        path = self._course.submitted / student / unit / f"{name}.ipynb"
        state = os.lstat(path)
        key, stamp = (student, unit, name), (state.st_mtime, state.st_size)
        if self._digests.get(key, (None, ""))[0] != stamp:
            try:
                content = content_of(self._course, student, unit, f"{name}.ipynb")
            except UnreadableNotebookError as error:
                content = str(error).encode()
            self._digests[key] = stamp, hashlib.sha256(content).hexdigest()
        return self._digests[key][1]

    def _assignments(self, records: ClassRecords) -> Iterable[Assignment]:
        touched = {assignment for _, assignment, _ in records.attempts}
        for name in dict.fromkeys(sheet.assignment for sheet in records.sheets):
            if name not in touched:
                continue
            standings = records.standings(assignment=name)
            by_state: defaultdict[str, list[str]] = defaultdict(list)
            for standing in standings:
                by_state[standing.state].append(standing.student)
            asking = ("infrastructure error", "too late", "waits for a person")
            yield Assignment(
                name,
                count_states(standings),
                tuple(task_results(standings)),
                tuple(self._misconceptions(standings)),
                tuple(distributions(standings)),
                {state: tuple(by_state[state]) for state in asking if by_state[state]},
            )

    def _misconceptions(self, standings: Sequence[Standing]) -> Iterable[Misconception]:
        """The most frequent misconceptions of each task, each with the answer that shows it best.

        That is the shortest one in which nothing else was found; where there is none such, the shortest.
        """
        found: defaultdict[tuple[str, str], list[tuple[Attempt, TaskVerdict]]] = defaultdict(list)
        of: Counter[str] = Counter()
        for standing in standings:
            if standing.counted is None or standing.counted.attempt.verdict is None:
                continue
            for task in standing.counted.attempt.verdict.tasks:
                of[task.task] += 1
                for name in dict.fromkeys(task.misconceptions):
                    if name and task.status == "wrong":
                        found[task.task, name].append((standing.counted.attempt, task))
        shown: Counter[str] = Counter()
        order = {task.name: place for place, task in enumerate(all_tasks())}

        def rank(item: tuple[tuple[str, str], list[Any]]) -> tuple[int, int, str]:
            return order.get(item[0][0], len(order)), -len(item[1]), item[0][1]

        for (task_name, name), rows in sorted(found.items(), key=rank):
            shown[task_name] += 1
            if shown[task_name] > MISCONCEPTIONS_SHOWN:
                continue
            message = next(m for m, n in zip(rows[0][1].messages, rows[0][1].misconceptions, strict=False) if n == name)
            answers = []
            for attempt, task in rows:
                text = self._answer(attempt, task_name)
                if text is not None:
                    answers.append((len(set(task.misconceptions)) > 1, len(text), attempt.student, text))
            who, best = min(answers)[2:] if answers else ("", "")
            yield Misconception(
                task_name,
                rows[0][1].title,
                name,
                message,
                tuple(sorted(attempt.student for attempt, _ in rows)),
                of[task_name],
                who,
                best[:SHOWN_CODE],
                len(best) > SHOWN_CODE,
            )

    def _answer(self, attempt: Attempt, task: str) -> str | None:
        """What a learner wrote for a task, where the notebook of this attempt is still the one that is there."""
        place = attempt.student, attempt.assignment, attempt.notebook
        try:
            if self._digest(*place) != attempt.submission:
                return None
            if attempt.submission not in self._answers:
                name = f"{attempt.notebook}.ipynb"
                notebook = parse_notebook(name, content_of(self._course, attempt.student, attempt.assignment, name))
                found = ((grade_id(cell), cell.source.strip()) for cell in notebook.cells)
                self._answers[attempt.submission] = {name: text for name, text in found if name is not None}
        except (OSError, IntakeError, UnreadableNotebookError):
            return None
        return self._answers[attempt.submission].get(f"{task}-answer")


def result_of(task: TaskVerdict) -> str:
    """One of `RESULTS`."""
    return task.status if task.status in RESULTS else RESULTS[-1]


def task_results(standings: Iterable[Standing]) -> Iterable[TaskResults]:
    """What became of each task, in the order of the notebooks, of the attempts that count."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for standing in standings:
        if standing.counted is not None and standing.counted.attempt.verdict is not None:
            for task in standing.counted.attempt.verdict.tasks:
                counts[task.task][result_of(task)] += 1
    for known in all_tasks():
        if known.name in counts:
            yield TaskResults(known.name, known.title, {name: counts[known.name][name] for name in RESULTS})


def distributions(standings: Iterable[Standing]) -> Iterable[Distribution]:
    """How the judge's points of each notebook are spread, late penalties included; what is no number is left out."""
    points: defaultdict[tuple[str, str, float], list[float]] = defaultdict(list)
    for standing in standings:
        if standing.judged is not None:
            points[standing.assignment, standing.notebook, standing.judged_max].append(standing.judged)
    for (assignment, notebook, most), values in points.items():
        width = most / BINS
        bins = [0] * BINS
        for value in values:
            bins[min(BINS - 1, max(0, int(value / width)))] += 1
        ordered = sorted(values)
        middle = len(ordered) // 2
        median = ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
        edges = tuple((width * place, width * (place + 1), count) for place, count in enumerate(bins))
        yield Distribution(assignment, notebook, most, edges, median)


class _Cell(msgspec.Struct):
    ok: int
    tried: int


class _Gate(msgspec.Struct):
    matrix: dict[str, dict[str, _Cell]]


MUTATION_COLUMNS = ("mutants", "killed", "equivalent", "survivors")


def gate_matrix(path: Path) -> Matrix:
    """The matrix of the exercise gate: for each task and kind of answer, how many came to what they must."""
    content = _content(path, "fxopt gate")
    if isinstance(content, Matrix):
        return content
    try:
        found = msgspec.json.decode(content, type=_Gate).matrix
    except msgspec.DecodeError as error:
        return _unreadable(path, "fxopt gate", error)
    kinds = tuple(dict.fromkeys(kind for line in found.values() for kind in line))
    rows = []
    for task, line in found.items():
        cells = [line.get(kind, _Cell(0, 0)) for kind in kinds]
        rows.append((task, tuple(f"{cell.ok}/{cell.tried}" for cell in cells), all(c.ok == c.tried for c in cells)))
    return Matrix(kinds, tuple(rows))


def mutation_matrix(path: Path) -> Matrix:
    """The matrix of mutation testing: for each task, how many mutants of its right answers its cases killed."""
    content = _content(path, "fxopt mutate")
    if isinstance(content, Matrix):
        return content
    try:
        lines = msgspec.json.decode(content, type=list[dict[str, Any]])
        # Either flat, or under `counts` beside the single mutants.
        tables = [(str(line["task"]), line.get("counts", line)) for line in lines]
        counts = [(task, [msgspec.convert(table[name], int) for name in MUTATION_COLUMNS]) for task, table in tables]
    except (msgspec.DecodeError, msgspec.ValidationError, KeyError, TypeError) as error:
        return _unreadable(path, "fxopt mutate", error)
    return Matrix(MUTATION_COLUMNS, tuple((task, tuple(map(str, row)), row[-1] == 0) for task, row in counts))


def _content(path: Path, command: str) -> bytes | Matrix:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return Matrix(problem=f"Not measured here yet. `{command} --json {path.parent.name}/{path.name}` writes it.")
    except OSError as error:
        return Matrix(problem=f"{path.name} cannot be read: {error.strerror}.")


def _unreadable(path: Path, command: str, error: Exception) -> Matrix:
    return Matrix(problem=f"{path.name} is not what `{command} --json` writes ({error}); run it again.")
