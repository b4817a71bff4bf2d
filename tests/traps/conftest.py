"""Prints the score of the trap suite, ours and PyTorch's, at the end of a test run."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Rows = list[tuple[str, str, int, int, int]]

ROWS = pytest.StashKey[Rows]()


@pytest.fixture
def print_at_the_end(request: pytest.FixtureRequest) -> Callable[[Rows], None]:
    """A function that takes the rows of the table."""

    def keep(rows: Rows) -> None:
        request.config.stash[ROWS] = rows

    return keep


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    rows = config.stash.get(ROWS, [])
    if rows:
        terminalreporter.section("traps")
        terminalreporter.write_line(f"{'family':<18}{'pass':<28}{'right':>7}{'wrong':>7}{'timid':>7}")
    for family, who, right, wrong, timid in rows:
        terminalreporter.write_line(f"{family:<18}{who:<28}{right:>7}{wrong:>7}{timid:>7}")


@pytest.fixture(autouse=True)
def small_attention_is_worthwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the fused kernel is tried with the few scores of a trap."""
    monkeypatch.setattr("fxopt_core.graphs.fused_attention.WORTHWHILE", 1)
