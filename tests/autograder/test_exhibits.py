"""What a check shows of a rewrite."""

from __future__ import annotations

import torch
from torch import fx

from autograder.check import CheckResult
from autograder.exhibits import before_and_after, table_of_change
from autograder.verdict import TaskOutcome


class Small(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(torch.relu(x) + 1.0)


def changed() -> tuple[fx.GraphModule, fx.GraphModule]:
    before, after = fx.symbolic_trace(Small()), fx.symbolic_trace(Small())
    last = list(after.graph.nodes)[-2]
    last.target = torch.tanh
    after.recompile()
    return before, after


def test_the_table_counts_and_names_what_changed() -> None:
    lines = table_of_change("a case", *changed()).splitlines()
    assert lines[0] == "a case: what your code changed"
    assert ["*", "relu", "2", "1"] in [line.split() for line in lines]
    assert ["*", "tanh", "0", "1"] in [line.split() for line in lines]
    assert ["add", "1", "1"] in [line.split() for line in lines]
    assert ["operations", "in", "all", "3", "3"] in [line.split() for line in lines]
    assert "0 removed, 0 added, 1 changed, 4 kept" in lines


def test_the_pictures_mark_what_is_different() -> None:
    table, before, after = before_and_after("a case", *changed())
    outcome = TaskOutcome("task", "A task", "passed")
    shown = CheckResult(outcome, [table, before, after])
    for text in (repr(shown), shown._repr_html_()):
        assert "a case: before" in text
        assert "a case: after" in text
        assert "what your code changed" in text
    assert "relu_1" in str(before)
    assert str(before) != str(after)
    assert shown._repr_html_().count("<img") == 2
