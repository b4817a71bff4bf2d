"""The exercise gate: every task against right, wrong, blank and sabotaged answers, on the real grading path.

Each answer is graded inside a notebook with the reference for the tasks before it and stubs for those after
it, so that no task can depend on a later one.
"""

from __future__ import annotations

import ast
import multiprocessing
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from nbformat import NotebookNode

from autograder.course.course import Course
from autograder.course.judges import judge_module
from autograder.course.notebooks import cells_before_check, grade_id
from autograder.course.reading import read_notebook
from autograder.course.sources import read_source
from autograder.course.task import UNITS, Task
from autograder.course.tasks import all_tasks, find_task
from autograder.grading.batch import end_with_parent
from autograder.grading.grading import Grader
from autograder.grading.judging import Judge

GATE_SEED = "the gate"
"""Seed of the hidden cases in the gate; any would do, a fixed one makes failures repeatable."""

RAISED = "misconception: raised"

MINIMUM_WRONG, MINIMUM_RIGHT = 4, 2
"""Fewest wrong answers, and fewest right answers beside the reference, that a task must ship."""


KINDS = ("reference", "blank", "wrong", "alternative", "sabotage", "isolation")
"""The columns of the matrix. Isolation: the answers to a task cannot be had from the course while it is graded."""


@dataclass(frozen=True)
class Answer:
    """One answer to a task, and what it must come to.

    Attributes:
        kind: one of `KINDS`.
        name: for the table.
        source: of the answer cell; `None` removes the cell.
        expected: a status, or `misconception: NAME`.
        makes: every mistake that a wrong answer makes, where its judge promises to name no other one (`UNNAMED`).
    """

    kind: str
    name: str
    source: str | None
    expected: str
    makes: frozenset[str] | None = None


@dataclass(frozen=True)
class GateRow:
    """What one answer came to.

    Attributes:
        task: the task's name.
        kind: the kind of answer, one of `KINDS`.
        answer: the answer's name.
        expected: what it must come to.
        found: what it came to.
        ok: whether both agree.
        seconds: wall time of all rounds, learner's side and judge.
        messages: what a learner would have read.
        failed: names of the cases in which it failed.
    """

    task: str
    kind: str
    answer: str
    expected: str
    found: str
    ok: bool
    seconds: float
    messages: tuple[str, ...]
    failed: tuple[str, ...] = ()


@dataclass
class GateResult:
    """The whole matrix."""

    rows: list[GateRow] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether every task was tried in every way, and everything came to what it must."""
        cells = [cell for line in self.matrix().values() for cell in line.values()]
        return bool(cells) and all(right == tried > 0 for right, tried in cells)

    def matrix(self) -> dict[str, dict[str, tuple[int, int]]]:
        """For each task and kind of answer: how many came to what they must, and how many were tried."""
        cells: dict[str, dict[str, tuple[int, int]]] = {}
        for row in self.rows:
            line = cells.setdefault(row.task, dict.fromkeys(KINDS, (0, 0)))
            right, tried = line[row.kind]
            line[row.kind] = (right + row.ok, tried + 1)
        return cells

    def to_json(self) -> dict[str, Any]:
        """Everything as JSON values."""
        matrix = {
            task: {kind: {"ok": right, "tried": tried} for kind, (right, tried) in line.items()}
            for task, line in self.matrix().items()
        }
        return {"ok": self.ok, "matrix": matrix, "rows": [asdict(row) for row in self.rows]}


def documented(path: Path) -> list[str]:
    """What the docstring of a wrong answer says of it, line by line: first the misconception, or how it fails.

    Raises:
        LookupError: it has none.
    """
    text = ast.get_docstring(ast.parse(path.read_text()))
    if not text:
        raise LookupError(f"{path.name}: the first line of the docstring must name the misconception")
    return [line.strip() for line in text.splitlines()]


def answers(task: Task, reference: str, blank: str) -> Iterator[Answer]:
    """Every answer to a task that the gate tries.

    Raises:
        LookupError: the task ships too few answers, or a wrong one does not say its misconception.
    """
    wrong = sorted((task.folder / "wrong").glob("*.py"))
    right = sorted((task.folder / "right").glob("*.py"))
    if len(wrong) < MINIMUM_WRONG or len(right) < MINIMUM_RIGHT:
        raise LookupError(
            f"{task.name} ships {len(wrong)} wrong and {len(right)} right answers; "
            f"at least {MINIMUM_WRONG} and {MINIMUM_RIGHT} are needed"
        )
    yield Answer("reference", "reference", reference, "passed")
    yield Answer("blank", "blank", blank, "not written")
    for path in wrong:
        source = path.read_text()
        first, *others = documented(path)
        # A judge with `UNNAMED` keeps its word: it names a mistake only where the answer makes it.
        unnamed = getattr(judge_module(task), "UNNAMED", None)
        makes = None if unnamed is None else frozenset({first, *unnamed, *also(others)})
        yield Answer("wrong", path.stem, source, f"misconception: {first}", makes)
    for path in right:
        yield Answer("alternative", path.stem, path.read_text(), "passed")
    yield Answer("sabotage", "cell removed", None, "not written")
    yield Answer("sabotage", "nothing defined", "print('all done')", "not written")
    yield Answer("sabotage", "names set to None", f"{' = '.join(task.provides)} = None", RAISED)
    yield Answer("sabotage", "process ended", "import os\nos._exit(0)", "crashed")
    for module in task.withheld:
        yield Answer("isolation", f"import {module}", f"import {module}\n{reference}", "misconception: withheld import")
    # The course's own answers: their modules are not there, and `use` knows the names of earlier units only.
    for module in ("judge", "reference"):
        yield Answer("isolation", f"{module} imported", f"import {task.module}.{module}\n{reference}", RAISED)
    if task.export:
        used = "\n".join(f"{name} = use({name!r})" for name in task.provides)
        source = f"from autograder.learner_side.own_functions import use\n{used}"
        yield Answer("isolation", "answered by use()", source, RAISED)
        yield Answer("isolation", "answered by my_fxopt", f"from my_fxopt import {', '.join(task.provides)}", RAISED)


def also(lines: list[str]) -> list[str]:
    """The mistakes that a wrong answer makes besides the first, from lines of its docstring: `Also: one; another.`"""
    return [
        name.strip().rstrip(".")
        for line in lines
        if line.startswith("Also: ")
        for name in line.removeprefix("Also: ").split(";")
    ]


def compose(blank: NotebookNode, references: dict[str, str], tasks: list[Task], task: Task, source: str | None) -> list:
    """The cells before a task's check: references before it, the answer to try in its place, stubs after it."""
    position = tasks.index(task)
    earlier = {other.answer_id for other in tasks[:position]}
    cells = []
    for cell in cells_before_check(blank, task):
        if cell["id"] in earlier:
            cells.append({"id": cell["id"], "source": references[cell["id"]]})
        elif cell["id"] != task.answer_id:
            cells.append(cell)
        elif source is not None:
            cells.append({"id": cell["id"], "source": source})
    return cells


class Gate:
    """Grades every answer to a task. A context manager: judge and grader stay warm from task to task.

    The judge stays for all tasks, the learner's side for those of one notebook: ask for them notebook by notebook.
    """

    def __init__(self, course: Course, sandboxed: bool | None = None) -> None:
        """Prepare the gate.

        Args:
            course: whose notebooks the answers are put into.
            sandboxed: `None` takes bubblewrap when it is there.
        """
        self._course, self._sandboxed = course, sandboxed
        self._judge = Judge(sandboxed=sandboxed)
        self._warm: tuple[tuple[str, str], Grader, _Notebook] | None = None

    def __enter__(self) -> Self:
        self._judge.__enter__()
        self._judge.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cool()
        self._judge.__exit__(kind, error, trace)

    def _cool(self) -> None:
        if self._warm is not None:
            self._warm[1].__exit__(None, None, None)
            self._warm = None

    def _grader_for(self, task: Task) -> tuple[Grader, _Notebook]:
        wanted = (UNITS[task.unit], task.notebook)
        if self._warm is None or self._warm[0] != wanted:
            self._cool()
            notebook = _Notebook.read(self._course, *wanted)
            grader = Grader(notebook.tasks, GATE_SEED, sandboxed=self._sandboxed, judge=self._judge)
            self._warm = wanted, grader.__enter__(), notebook
        return self._warm[1:]

    def rows(self, task: Task) -> Iterator[GateRow]:
        """What each answer to a task came to, one after the other.

        Raises:
            LookupError: the task ships too few answers.
        """
        grader, notebook = self._grader_for(task)
        for answer in answers(task, notebook.references[task.answer_id], notebook.stubs[task.answer_id]):
            cells = compose(notebook.blank, notebook.references, notebook.tasks, task, answer.source)
            yield _grade(grader, task, answer, cells)


@dataclass(frozen=True)
class _Notebook:
    """A notebook into which answers are put.

    Attributes:
        tasks: its tasks, in order.
        blank: the notebook as handed out.
        references: the reference of each answer cell, and the other cells of the solution, by name.
        stubs: the cells as handed out, by name.
    """

    tasks: list[Task]
    blank: NotebookNode
    references: dict[str, str]
    stubs: dict[str, str]

    @classmethod
    def read(cls, course: Course, unit: str, name: str) -> _Notebook:
        solution = read_source(course.sources_of(unit) / f"{name}.py")
        blank = read_notebook(course.curriculum / unit / f"{name}.ipynb")
        return cls(
            [task for task in all_tasks() if (UNITS[task.unit], task.notebook) == (unit, name)],
            blank,
            {grade_id(cell) or "": cell.source for cell in solution.cells},
            {grade_id(cell) or "": cell.source for cell in blank.cells},
        )


def run_gate(
    course: Course,
    only: Sequence[str] | None = None,
    sandboxed: bool | None = None,
    jobs: int = 1,
    finished: Callable[[GateResult], object] | None = None,
    took: Mapping[str, float] | None = None,
) -> GateResult:
    """Grade every answer of every task, or of those in `only`.

    Args:
        course: whose notebooks the answers are put into.
        only: names of tasks.
        sandboxed: `None` takes bubblewrap when it is there.
        jobs: how many processes grade at once, each whole notebooks.
        finished: is told what each notebook came to, as soon as it is known.
        took: how many seconds tasks took before, as far as known: the longest notebooks begin first, so that no
            process waits long for another at the end.

    Raises:
        UnknownTaskError: there is no such task.
        LookupError: a task ships too few answers.
    """
    wanted = all_tasks() if only is None else [find_task(name) for name in only]
    notebooks: dict[str, list[str]] = {}
    for task in wanted:
        notebooks.setdefault(task.notebook, []).append(task.name)
    parts: dict[str, GateResult] = {}
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=end_with_parent) as pool:
        running = {
            pool.submit(_result_of, course, notebooks[name], sandboxed): name
            for name in longest_first(notebooks, took or {})
        }
        for future in as_completed(running):
            part = parts[running[future]] = future.result()
            if finished is not None:
                finished(part)
    return GateResult([row for name in notebooks for row in parts[name].rows])


def longest_first(notebooks: Mapping[str, list[str]], took: Mapping[str, float]) -> list[str]:
    """Notebooks by what their tasks took before, in seconds; those that took the same stay in their order."""
    return sorted(notebooks, key=lambda name: -sum(took.get(task, 0.0) for task in notebooks[name]))


def _result_of(course: Course, names: list[str], sandboxed: bool | None) -> GateResult:
    with Gate(course, sandboxed) as gate:
        return GateResult([row for name in names for row in gate.rows(find_task(name))])


def _grade(grader: Grader, task: Task, answer: Answer, cells: list[dict[str, str]]) -> GateRow:
    started = time.monotonic()  # the outcome's own time is that of the visible cases, as a learner reads it
    outcome, _ = grader.grade(task, cells)
    seconds = time.monotonic() - started
    if answer.expected.startswith("misconception: "):
        found = f"misconception: {outcome.misconceptions[0]}" if outcome.misconceptions else outcome.status
        ok = found == answer.expected and outcome.status not in ("passed", "not written")
        others = set(outcome.misconceptions) - (answer.makes or set(outcome.misconceptions))
        if others:
            ok, found = False, f"{found}, and a mistake that it does not make: {', '.join(sorted(others))}"
    else:
        found = outcome.status
        ok = found == answer.expected
    return GateRow(
        task.name,
        answer.kind,
        answer.name,
        answer.expected,
        found,
        ok,
        round(seconds, 2),
        tuple(outcome.messages),
        tuple(case.case for case in outcome.cases if not case.passed),
    )
