"""How the tests are spread over processes: a file stays whole, but what tries the exercises goes task by task."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

BY_TASK = ("tests/test_gate.py::test_gate[", "tests/mutation/test_recorded.py::test_no_mutant_of_a_changed_task")
"""Tests of which each tries one task."""


class ByFileAndTask(LoadScopeScheduling):
    """Tests of one file share its fixtures, the cells of a notebook its kernel; tasks only what is warm."""

    def _split_scope(self, nodeid: str) -> str:
        return nodeid if nodeid.startswith(BY_TASK) else nodeid.partition("::")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFileAndTask:
    """The scheduler of `pytest -n`, whatever `--dist` says."""
    return ByFileAndTask(config, log)


@pytest.fixture(autouse=True)
def _wide_console(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables as wide as on a usual screen: processes of `pytest -n` are told 80 columns, which few have."""
    monkeypatch.setenv("COLUMNS", "140")


@pytest.fixture(autouse=True, scope="module")
def _nothing_old_is_collected_again() -> Iterator[None]:
    """What outlives a file of tests is not looked through by each later collection.

    A process of tests comes to hold millions of objects, and code under test that collects (a benchmark, before each
    of its runs) would spend two seconds each time.
    """
    yield
    gc.collect()
    gc.freeze()
