"""The exercise gate, a test per task: reference, blank, wrong, alternative and sabotaged answers.

A task whose answers, cells, judge and graders are those with which the gate was clean when that was recorded
(`fxopt gate --record`) comes to the same again: of these a sample is graded, and all in `make test-long`.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import typer
from typer.testing import CliRunner

from autograder.authoring import contents, gated
from autograder.authoring import gate as gate_module
from autograder.authoring.gate import KINDS, Answer, Gate, GateResult, GateRow, longest_first, run_gate
from autograder.authoring.gated import is_as_recorded
from autograder.authoring.sentences import read_sentences, untied
from autograder.commands import cli
from autograder.course.course import Course
from autograder.course.tasks import all_tasks, find_task
from autograder.exchange.verdict import TaskOutcome
from autograder.grading.grading import Grader

COURSE = Course(Path(__file__).resolve().parents[1])


@pytest.fixture(scope="session")
def gate() -> Iterator[Gate]:
    """The gate, warm for all tasks that one process of tests is given."""
    with Gate(COURSE) as opened:
        yield opened


GRADED = ("check_stack", "measure_compile_cost")
"""Tasks that are graded in every run, besides `memory_layout` below: graphs, the compiler."""

BUILT = "soft_clip"
"""The task in C++ of which one answer of each kind is graded in every run: each is built anew."""


@pytest.mark.gate
def test_one_answer_in_cpp_of_each_kind(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    every = gate_module.answers

    def first_of_each_kind(*given: Any) -> list[Answer]:
        found: dict[str, Answer] = {}
        for answer in every(*given):
            found.setdefault(answer.kind, answer)
        return [*found.values()]

    monkeypatch.setattr(gate_module, "answers", first_of_each_kind)
    found = {row.kind: row for row in gate.rows(find_task(BUILT))}
    assert {*found} == {*KINDS}
    assert [f"{row.answer}: {row.found} {[*row.messages]}" for row in found.values() if not row.ok] == []


@pytest.mark.gate
@pytest.mark.sampled
@pytest.mark.parametrize("task", [task.name for task in all_tasks()])
def test_gate(task: str, request: pytest.FixtureRequest) -> None:
    if "FXOPT_LONG" not in os.environ and task not in GRADED and is_as_recorded(COURSE, find_task(task)):
        return
    result = GateResult(list(request.getfixturevalue("gate").rows(find_task(task))))
    assert len(result.rows) >= 12
    off = [
        f"{row.kind} {row.answer}: expected {row.expected}, found {row.found} {list(row.messages)}"
        for row in result.rows
        if not row.ok
    ]
    assert not off, "\n".join(off)
    failed = {row.answer: row.failed for row in result.rows if row.kind == "wrong"}
    assert untied(read_sentences(find_task(task)), failed) == []


def test_what_is_recorded_is_of_this_very_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A verdict counts as known only while nothing that it depends on has changed, and only clean ones are entered."""
    monkeypatch.setattr(gated, "FILE", tmp_path / "gated.json")
    task = find_task("broadcast_strides")
    rows = [
        GateRow(task.name, kind, f"{kind} {number}", "passed", "passed", True, 0.1, ())
        for kind, count in gated.number_of_answers(task).items()
        for number in range(count)
    ]
    monkeypatch.setattr(gated, "read_sentences", lambda _: [])
    assert not is_as_recorded(COURSE, task)
    now = {task.name: gated.gate_digest(COURSE, task)}
    gated.record(GateResult(rows[1:]), now)
    assert not is_as_recorded(COURSE, task), "one answer was not tried"
    assert gated.record(GateResult(rows), now) == []
    assert is_as_recorded(COURSE, task)
    off = [replace(row, ok=False, found="crashed") if row.kind == "blank" else row for row in rows]
    (line,) = gated.record(GateResult(off), now)
    assert line == "broadcast_strides is not recorded: blank blank 0: crashed"
    assert not is_as_recorded(COURSE, task)
    assert not is_as_recorded(COURSE, find_task("memory_formats"))


@pytest.mark.parametrize(
    ("changed", "known"),
    [
        ("autograder/exercises/u2/broadcast_strides/judge.py", False),
        ("autograder/exercises/u2/broadcast_strides/wrong/*.py", False),
        ("autograder/exercises/u2/broadcast_strides/right/*.py", False),
        ("autograder/grading/graph_server.py", False),
        ("autograder/learner_side/withheld.py", False),
        ("autograder/exchange/graph_form/decode.py", False),
        ("autograder/authoring/gate.py", False),
        ("autograder/exercises/u2/memory_formats/judge.py", True),
        ("autograder/website/building.py", True),
    ],
)
def test_a_change_that_a_verdict_may_depend_on_makes_it_unknown(
    changed: str, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, path = find_task("broadcast_strides"), next(COURSE.root.glob(changed))
    before = gated.gate_digest(COURSE, task)
    for module in (contents, gated):
        for name, one in vars(module).items():
            if hasattr(one, "cache_clear"):
                monkeypatch.setattr(module, name, cache(one.__wrapped__))
    read_bytes, read_text = Path.read_bytes, Path.read_text
    monkeypatch.setattr(Path, "read_bytes", lambda self: read_bytes(self) + b"\n# changed" * (self == path))
    monkeypatch.setattr(
        Path, "read_text", lambda self, *args, **options: read_text(self, *args, **options) + "\n#" * (self == path)
    )
    assert (gated.gate_digest(COURSE, task) == before) is known


def test_the_command_prints_the_matrix_and_its_exit_code_says_whether_it_is_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FXOPT_ROOT", str(COURSE.root))
    app = typer.Typer()
    cli.register(app)
    rows = [GateRow("task", kind, "an answer", "passed", "passed", True, 0.1, ()) for kind in KINDS]
    wrong = replace(rows[2], found="misconception: raised", ok=False, messages=("Your code raised ValueError.",))
    for found, exit_code in ((rows, 0), ([*rows, wrong], 1), (rows[1:], 1), ([], 1)):
        monkeypatch.setattr("autograder.authoring.gate.run_gate", lambda *_, found=found, **options: GateResult(found))
        done = CliRunner().invoke(app, ["gate", "--json", str(tmp_path / "gate.json")])
        assert done.exit_code == exit_code, done.output
        written = json.loads((tmp_path / "gate.json").read_text())
        assert written["ok"] == (exit_code == 0)
        assert len(written["rows"]) == len(found)
    monkeypatch.setattr("autograder.authoring.gate.run_gate", lambda *_, **options: GateResult([*rows, wrong]))
    done = CliRunner().invoke(app, ["gate"])
    assert "1/2 WRONG" in done.output
    assert "task, wrong 'an answer': expected 'passed', found 'misconception: raised'. Your code raised" in done.output


def test_the_longest_notebooks_begin_first() -> None:
    notebooks = {"short": ["a"], "new": ["b"], "long": ["c", "d"], "alike": ["e"]}
    assert longest_first(notebooks, {"a": 2.0, "c": 1.0, "d": 2.0, "e": 2.0}) == ["long", "short", "alike", "new"]


def test_the_gate_begins_with_what_took_longest_and_tells_it_in_the_order_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[list[str]] = []

    class Pool:
        """Answers at once with a row for each task."""

        def __init__(self, *_: object, **__: object) -> None: ...

        def __enter__(self) -> "Pool":
            return self

        def __exit__(self, *_: object) -> None: ...

        def submit(self, _: object, course: Course, names: list[str], sandboxed: bool | None) -> Future[GateResult]:
            begun.append(names)
            done: Future[GateResult] = Future()
            rows = [GateRow(name, "blank", "blank", "not written", "not written", True, 0.0, ()) for name in names]
            done.set_result(GateResult(rows))
            return done

    monkeypatch.setattr(gate_module, "ProcessPoolExecutor", Pool)
    result = run_gate(COURSE, ["memory_layout", "tape_engine"], took={"memory_layout": 1.0, "tape_engine": 2.0})
    assert begun == [["tape_engine"], ["memory_layout"]]
    assert [row.task for row in result.rows] == ["memory_layout", "tape_engine"]


def test_the_seconds_of_an_answer_are_those_of_all_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    task = find_task("memory_layout")
    monkeypatch.setattr(gate_module, "time", SimpleNamespace(monotonic=iter([10.0, 17.5]).__next__))

    class Visible:
        """Tells the time of the visible cases alone, as a grader does that keeps hidden cases to itself."""

        def grade(self, *_: object) -> tuple[TaskOutcome, dict[str, object]]:
            return TaskOutcome(task.name, task.title, "passed", seconds=0.5), {}

    row = gate_module._grade(cast(Grader, Visible()), task, Answer("reference", "reference", "", "passed"), [])
    assert (row.seconds, row.ok) == (7.5, True)


def test_recording_enters_each_notebook_as_soon_as_it_is_graded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real run, over one task: what `finished` is told is what comes back, and the command records it."""
    monkeypatch.setenv("FXOPT_ROOT", str(COURSE.root))
    monkeypatch.setattr(gated, "FILE", tmp_path / "gated.json")
    told: list[GateResult] = []
    result = run_gate(COURSE, ["memory_layout"], finished=told.append)
    assert told == [result]
    assert result.ok
    assert {row.task for row in result.rows} == {"memory_layout"}
    app = typer.Typer()
    cli.register(app)

    asked = []
    took_before: list[set[str]] = []

    def known(
        _: object,
        only: list[str],
        *,
        finished: Callable[[GateResult], object] | None,
        took: Mapping[str, float],
        **__: object,
    ) -> GateResult:
        asked.append(only)
        took_before.append(set(took))
        if finished is not None:
            finished(result)
        return result

    monkeypatch.setattr("autograder.authoring.gate.run_gate", known)
    assert CliRunner().invoke(app, ["gate", "memory_layout"]).exit_code == 0
    assert not gated.gated(), "nobody asked for a record"
    done = CliRunner().invoke(app, ["gate", "memory_layout", "--record"])
    assert done.exit_code == 0, done.output
    assert is_as_recorded(COURSE, find_task("memory_layout"))
    # What has changed since, and nothing else.
    asked.clear()
    done = CliRunner().invoke(app, ["gate", "memory_layout", "--changed"])
    assert (done.exit_code, asked) == (0, [])
    assert "Nothing to grade" in done.output
    monkeypatch.setattr(gated, "is_as_recorded", lambda _, task: task.name not in ("memory_layout", "tape_engine"))
    assert CliRunner().invoke(app, ["gate", "--changed"]).exit_code == 0
    assert asked == [["memory_layout", "tape_engine"]]
    assert took_before == [set(), set(), {"memory_layout"}], "what the table tells of the time before"
