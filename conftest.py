"""How the tests are spread over processes: a file stays whole, but what tries exercises goes by notebook or test."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator, Iterator
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from autograder.course.tasks import find_task
from autograder.exchange.sparing import nothing_collected, spare

GATE = "tests/test_gate.py::test_gate["
"""Tests of which each tries one task. Tasks of one notebook share a process that takes seconds to start."""

BY_TEST = ("tests/mutation/test_recorded.py::test_no_mutant_of_a_changed_task",)
"""Tests that take long, and share with the others of their file only what is warm."""

SHARING = tuple(
    f"tests/autograder/test_{name}.py::"
    for name in ("hostile_submissions", "forged_evidence", "hidden_cases", "own_package", "sandbox")
)
"""Files that use the same two warm graders, which one process then starts."""

LONG = (
    GATE,
    *BY_TEST,
    *SHARING,
    "tests/autograder/test_capstone.py",
    "tests/attacks/test_kills.py",
    "tests/test_browser.py",
)
"""What begins first, so that no process is left alone at the end with minutes of work."""


class ByFileAndTask(LoadScopeScheduling):
    """Tests of one file share its fixtures, the cells of a notebook its kernel; tasks only what is warm."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(GATE):
            return GATE + find_task(nodeid.removeprefix(GATE).removesuffix("]")).notebook
        if nodeid.startswith(SHARING):
            return SHARING[0]
        return nodeid if nodeid.startswith(BY_TEST) else nodeid.partition("::")[0]

    def schedule(self) -> None:
        """Give each process its first tests; what is left to give lies in `workqueue`, in the order of its size."""
        begun = self.collection is not None
        super().schedule()
        if not begun:
            for scope in reversed([scope for scope in self.workqueue if scope.startswith(LONG)]):
                self.workqueue.move_to_end(scope, last=False)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Nearly all that is made while tests are collected stays; a fifth of that time went into looking for garbage."""
    with nothing_collected():
        return (yield)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What is marked `long` runs in `make test-long`, which sets FXOPT_LONG."""
    if "FXOPT_LONG" in os.environ:
        return
    for item in items:
        if item.get_closest_marker("long"):
            item.add_marker(pytest.mark.skip(reason="takes long: make test-long runs it"))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFileAndTask:
    """The scheduler of `pytest -n`, whatever `--dist` says."""
    return ByFileAndTask(config, log)


@pytest.fixture(autouse=True, scope="session")
def _torch_is_spared() -> None:
    """The tests export and compile thousands of small programs."""
    spare()


@pytest.fixture(autouse=True, scope="session")
def _torch_writes_no_trace() -> None:
    """pytest listens to loggers that do not propagate, too, and torch composes its structured trace (graphs, guards,
    stacks) as soon as anybody listens: 4.7 % of the samples in tests that capture and optimise.
    """
    from torch._logging._internal import trace_log

    trace_log.handlers.clear()
    trace_log.addHandler = lambda hdlr: None  # type: ignore[method-assign]


@pytest.fixture(autouse=True)
def _wide_console(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables as wide as on a usual screen: processes of `pytest -n` are told 80 columns, which few have."""
    monkeypatch.setenv("COLUMNS", "140")


@pytest.fixture(autouse=True, scope="session")
def _cycles_are_looked_for_less_often() -> None:
    """That took 8.5 % of the time of tests that capture and optimise, and 3.5 % with a first threshold of 5,000."""
    gc.set_threshold(20_000, 20, 50)


@pytest.fixture(autouse=True, scope="module")
def _nothing_old_is_collected_again() -> Iterator[None]:
    """What outlives a file of tests is not looked through by each later collection.

    A process of tests comes to hold millions of objects, and code under test that collects (a benchmark, before each
    of its runs) would spend two seconds each time.
    """
    yield
    gc.collect()
    gc.freeze()
