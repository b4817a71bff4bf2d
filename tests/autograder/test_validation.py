"""Checks in a process of their own: they answer, or they end, with everything that they started."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import psutil
import pytest

from autograder.lab.validate_button import NotebookValidator, ValidationBusyError, ValidationError

LONG = 600.0
"""A time limit that plays no part, in seconds."""

PREAMBLE = """
import json, os, pathlib, subprocess, sys, time
notebook = pathlib.Path(sys.argv[1])
assert sys.argv[2:] == ["--json"]
def note(name, text=""):
    part = notebook.with_name(name + ".part")
    part.write_text(str(text))
    part.rename(notebook.with_name(name))
def wait_for(name):
    while not notebook.with_name(name).exists():
        time.sleep(0.02)
"""


class Bench:
    """A notebook and a stand-in for `fxopt check`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.notebook = folder / "n.ipynb"
        self.notebook.write_text("{}")

    def validator(self, code: str, time_limit: float = LONG, output_limit: int = 10_000) -> NotebookValidator:
        script = self.folder / "check.py"
        script.write_text(PREAMBLE + code)
        return NotebookValidator([sys.executable, str(script)], time_limit, output_limit)

    async def noted(self, name: str) -> str:
        """What the stand-in noted, once it has."""
        deadline = time.monotonic() + 60
        while not (self.folder / name).exists():
            assert time.monotonic() < deadline, f"the check never noted {name}"
            await asyncio.sleep(0.02)
        return (self.folder / name).read_text()

    def note(self, name: str) -> None:
        (self.folder / name).write_text("")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(coroutine)


def assert_gone(pid: int) -> None:
    deadline = time.monotonic() + 30
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline, f"process {pid} still runs"
        time.sleep(0.02)


@pytest.mark.parametrize("exit_code", [0, 1, 2])
def test_the_answer_of_the_check_is_returned(bench: Bench, exit_code: int) -> None:
    code = f"print(json.dumps({{'tasks': [], 'cwd': os.getcwd()}})); sys.exit({exit_code})"
    answer = run(bench.validator(code).validate(bench.notebook))
    assert answer == {"tasks": [], "cwd": str(bench.folder)}


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("sys.exit(3)", "exit code 3"),
        ("print('{}'); print('the reason', file=sys.stderr); sys.exit(3)", "the reason"),
        ("print('no JSON')", "no JSON"),
        ("print('[1]')", "exit code 0"),
        ("os.kill(os.getpid(), 9)", "exit code -9"),
    ],
)
def test_a_check_that_fails_itself_says_what_it_printed(bench: Bench, code: str, said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        run(bench.validator(code).validate(bench.notebook))


def test_a_command_that_is_not_there_is_said(bench: Bench) -> None:
    validator = NotebookValidator([str(bench.folder / "absent")], LONG, 100)
    with pytest.raises(ValidationError, match=r"could not be started.*make setup"):
        run(validator.validate(bench.notebook))


# One child in the check's process group, one in a session of its own, and none of them minds an interrupt.
FAMILY = """
import signal
children = [subprocess.Popen([sys.executable, "-c", "import signal, time; signal.signal(2, 1); time.sleep(600)"],
            start_new_session=own) for own in (False, True)]
note("family", json.dumps([os.getpid(), *(child.pid for child in children)]))
"""


def test_a_check_that_takes_too_long_ends_with_all_its_processes(bench: Bench) -> None:
    validator = bench.validator(FAMILY + "time.sleep(600)", time_limit=3)

    async def scenario() -> list[int]:
        with pytest.raises(ValidationError, match="longer than 3 seconds"):
            await validator.validate(bench.notebook)
        family: list[int] = json.loads(await bench.noted("family"))
        return family

    family = run(scenario())
    assert len(family) == 3
    for pid in family:
        assert_gone(pid)


def test_an_ended_check_may_remove_its_temporary_files(bench: Bench) -> None:
    code = "note('temporary')\ntry:\n    time.sleep(600)\nfinally:\n    notebook.with_name('temporary').unlink()"
    validator = bench.validator(code, time_limit=3)
    with pytest.raises(ValidationError, match="longer than"):
        run(validator.validate(bench.notebook))
    assert not (bench.folder / "temporary").exists()


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_check_that_prints_without_end_is_stopped(bench: Bench, stream: str) -> None:
    validator = bench.validator(f"note('pid', os.getpid())\nwhile True: print('x' * 1000, file=sys.{stream})")
    with pytest.raises(ValidationError, match="more than 10000 bytes"):
        run(validator.validate(bench.notebook))
    assert_gone(int((bench.folder / "pid").read_text()))


def test_of_long_errors_the_end_is_told(bench: Bench) -> None:
    code = "for _ in range(9): print('e' * 1000, file=sys.stderr)\nprint('last words', file=sys.stderr); sys.exit(9)"
    with pytest.raises(ValidationError, match="last words") as caught:
        run(bench.validator(code).validate(bench.notebook))
    assert len(str(caught.value)) < 5000


def test_two_who_ask_for_the_same_version_share_one_check(bench: Bench) -> None:
    code = "open(notebook.with_name('starts'), 'a').write('x'); note('started'); wait_for('go'); print('{\"n\": 1}')"
    validator = bench.validator(code)

    async def scenario() -> list[Any]:
        first = asyncio.create_task(validator.validate(bench.notebook))
        await bench.noted("started")
        second = asyncio.create_task(validator.validate(bench.notebook))
        await asyncio.sleep(0)
        bench.note("go")
        return list(await asyncio.gather(first, second))

    assert run(scenario()) == [{"n": 1}, {"n": 1}]
    assert (bench.folder / "starts").read_text() == "x"


def test_a_newer_version_is_refused_politely_and_the_first_goes_on(bench: Bench) -> None:
    validator = bench.validator("note('started'); wait_for('go'); print('{\"n\": 1}')")

    async def scenario() -> Any:
        first = asyncio.create_task(validator.validate(bench.notebook))
        await bench.noted("started")
        bench.notebook.write_text('{"cells": []}')
        with pytest.raises(ValidationBusyError, match="before you saved it last"):
            await validator.validate(bench.notebook)
        bench.note("go")
        answer = await first
        assert await validator.validate(bench.notebook) == answer, "the next check runs again"
        return answer

    assert run(scenario()) == {"n": 1}


def test_a_check_ends_when_the_last_who_waits_leaves(bench: Bench) -> None:
    validator = bench.validator("note('pid', os.getpid()); time.sleep(600)")

    async def scenario() -> None:
        first = asyncio.create_task(validator.validate(bench.notebook))
        pid = int(await bench.noted("pid"))
        second = asyncio.create_task(validator.validate(bench.notebook))
        await asyncio.sleep(0.1)
        first.cancel()
        await asyncio.sleep(0.3)
        assert psutil.Process(pid).status() != psutil.STATUS_ZOMBIE, "one still waits"
        second.cancel()
        await asyncio.gather(first, second, return_exceptions=True)
        await asyncio.to_thread(assert_gone, pid)

    run(scenario())


def test_close_ends_what_is_under_way(bench: Bench) -> None:
    validator = bench.validator(FAMILY + "time.sleep(600)")

    async def scenario() -> None:
        waiting = asyncio.create_task(validator.validate(bench.notebook))
        family = json.loads(await bench.noted("family"))
        await validator.close()
        for pid in family:
            assert_gone(pid)
        assert isinstance((await asyncio.gather(waiting, return_exceptions=True))[0], asyncio.CancelledError)

    run(scenario())
