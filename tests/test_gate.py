"""The exercise gate, a test per task: reference, blank, wrong, alternative and sabotaged answers."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from autograder.authoring.gate import KINDS, Gate, GateResult, GateRow
from autograder.authoring.sentences import read_sentences, untied
from autograder.commands import cli
from autograder.course.course import Course
from autograder.course.tasks import all_tasks, find_task

COURSE = Course(Path(__file__).resolve().parents[1])


@pytest.fixture(scope="session")
def gate() -> Iterator[Gate]:
    """The gate, warm for all tasks that one process of tests is given."""
    with Gate(COURSE) as opened:
        yield opened


@pytest.mark.gate
@pytest.mark.parametrize("task", [task.name for task in all_tasks()])
def test_gate(task: str, gate: Gate) -> None:
    result = GateResult(list(gate.rows(find_task(task))))
    assert len(result.rows) >= 12
    off = [
        f"{row.kind} {row.answer}: expected {row.expected}, found {row.found} {list(row.messages)}"
        for row in result.rows
        if not row.ok
    ]
    assert not off, "\n".join(off)
    failed = {row.answer: row.failed for row in result.rows if row.kind == "wrong"}
    assert untied(read_sentences(find_task(task)), failed) == []


def test_the_command_prints_the_matrix_and_its_exit_code_says_whether_it_is_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FXOPT_ROOT", str(COURSE.root))
    app = typer.Typer()
    cli.register(app)
    rows = [GateRow("task", kind, "an answer", "passed", "passed", True, 0.1, ()) for kind in KINDS]
    wrong = replace(rows[2], found="misconception: raised", ok=False, messages=("Your code raised ValueError.",))
    for found, exit_code in ((rows, 0), ([*rows, wrong], 1), (rows[1:], 1), ([], 1)):
        monkeypatch.setattr("autograder.authoring.gate.run_gate", lambda *_, found=found: GateResult(found))
        done = CliRunner().invoke(app, ["gate", "--json", str(tmp_path / "gate.json")])
        assert done.exit_code == exit_code, done.output
        written = json.loads((tmp_path / "gate.json").read_text())
        assert written["ok"] == (exit_code == 0)
        assert len(written["rows"]) == len(found)
    monkeypatch.setattr("autograder.authoring.gate.run_gate", lambda *_: GateResult([*rows, wrong]))
    done = CliRunner().invoke(app, ["gate"])
    assert "1/2 WRONG" in done.output
    assert "task, wrong 'an answer': expected 'passed', found 'misconception: raised'. Your code raised" in done.output
