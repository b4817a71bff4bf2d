"""A process of its own for native code: however it ends, who asked goes on and knows why."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time

import pytest
import torch

from autograder.exchange.evidence import Case, Evidence
from autograder.learner_side import apart as module
from autograder.learner_side.apart import ENDED, SAID, apart
from autograder.learner_side.mode import GRADING_VARIABLE

CASE = Case("one", {"factor": 3}, {"x": torch.arange(4.0)})


def answers(case: Case) -> Evidence:
    return Evidence({"process": os.getpid()}, {"y": case.tensors["x"] * case.parameters["factor"]})


def reads_nowhere(case: Case) -> Evidence:
    ctypes.string_at(0)
    return Evidence()


def gives_up(case: Case) -> Evidence:
    os.write(2, b"terminate called after throwing an instance of 'c10::Error'\n  what():  two of one name\nmore\n")
    os.abort()


def exits(case: Case) -> Evidence:
    os._exit(3)


def sleeps(case: Case) -> Evidence:
    time.sleep(60)
    return Evidence()


def pauses(case: Case) -> Evidence:
    time.sleep(0.8)
    return Evidence({"rested": True})


def raises(case: Case) -> Evidence:
    raise KeyError("not there")


@pytest.fixture(params=["in a notebook", "while grading"], autouse=True)
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "while grading":
        monkeypatch.setenv(GRADING_VARIABLE, "1")


def test_what_it_makes_of_a_case_comes_back() -> None:
    found = apart(answers, CASE)
    assert found.values["process"] != os.getpid()
    assert torch.equal(found.tensors["y"], torch.arange(4.0) * 3)


def test_how_it_ended_is_told_in_words() -> None:
    assert "memory that is not its own (SIGSEGV)" in apart(reads_nowhere, CASE).values[ENDED]
    gave_up = apart(gives_up, CASE).values
    assert f"({signal.SIGABRT.name})" in gave_up[ENDED]
    assert gave_up[SAID] == "two of one name"
    assert apart(exits, CASE).values == {ENDED: "it ended the process with the exit code 3", SAID: ""}


def test_what_never_answers_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SECONDS", 1.0)
    begun = time.monotonic()
    assert "no end within 1 seconds" in apart(sleeps, CASE).values[ENDED]
    assert time.monotonic() - begun < 30


def test_waiting_for_a_busy_processor_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SECONDS", 0.2)
    monkeypatch.setattr(module, "queued_seconds", lambda pid: 60.0)
    assert apart(pauses, CASE).values == {"rested": True}
    monkeypatch.setattr(module, "MOST_SECONDS", 0.2)
    assert "no end within" in apart(pauses, CASE).values[ENDED]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says how long a process has waited")
def test_a_process_that_shares_a_processor_has_waited_for_it() -> None:
    loops = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(2)]
    try:
        for loop in loops:
            os.sched_setaffinity(loop.pid, {min(os.sched_getaffinity(0))})
        deadline = time.monotonic() + 30
        while not all(module.queued_seconds(loop.pid) > 0.05 for loop in loops) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert all(module.queued_seconds(loop.pid) > 0.05 for loop in loops)
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
    assert module.queued_seconds(loops[0].pid) == 0.0, "it has ended"


def test_what_it_raises_is_raised_here() -> None:
    with pytest.raises(RuntimeError, match="KeyError: 'not there'"):
        apart(raises, CASE)
