"""Capture and cost tools: each wrong one is recognised for what it is wrong in, and right ones gain."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from wrong_tools import RIGHT_CAPTURES, RIGHT_COSTS, WRONG_CAPTURES, WRONG_COSTS

from autograder.capstone.template.own_cost.my_capstone.count_products import cost
from autograder.exchange.evidence import Case, Evidence
from autograder.exercises.capstone.own_capture import judge as capture_judge
from autograder.exercises.capstone.own_capture import visible as capture_side
from autograder.exercises.capstone.own_cost import judge as cost_judge
from autograder.exercises.capstone.own_cost import visible as cost_side

Tool = Callable[..., Any]


@pytest.fixture(scope="module")
def captures() -> list[Case]:
    return capture_side.visible_cases()


@pytest.fixture(scope="module")
def costs() -> list[Case]:
    return cost_side.visible_cases()


def judged(
    judge: ModuleType, side: ModuleType, case: Case, tool: Tool, patch: pytest.MonkeyPatch
) -> tuple[list[str], dict[str, Any]]:
    """Misconceptions and figures, after a journey between processes."""
    with patch.context() as inside:
        inside.setattr(side, "load", lambda *_: tool)
        evidence = side.probe(case, ["tool"])
    figures: dict[str, Any] = {}
    names = []
    for found in judge.judge(case, Evidence.from_message(*evidence.to_message())):
        if isinstance(found, dict):
            figures |= found
        else:
            assert found[0] in judge.MISCONCEPTIONS
            names.append(found[0])
    return names, figures


def each(table: dict[str, list[Tool]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        ("misconception", "tool"), [(name, one) for name, ones in table.items() for one in ones]
    )


@each(WRONG_CAPTURES)
def test_a_wrong_capture_tool_gets_its_message(
    misconception: str, tool: Tool, captures: list[Case], monkeypatch: pytest.MonkeyPatch
) -> None:
    for case in captures:
        try:
            names, _ = judged(capture_judge, capture_side, case, tool, monkeypatch)
        except Exception:  # a wrong tool may raise on other models; that is another message
            continue
        if misconception in names:
            return
    pytest.fail(f"{tool.__name__} is not recognised as {misconception!r}")


@each(WRONG_COSTS)
def test_a_wrong_cost_tool_gets_its_message(
    misconception: str, tool: Tool, costs: list[Case], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert any(misconception in judged(cost_judge, cost_side, case, tool, monkeypatch)[0] for case in costs)


@pytest.mark.parametrize("tool", RIGHT_CAPTURES)
def test_another_way_to_capture_is_right_and_gains(
    tool: Tool, captures: list[Case], monkeypatch: pytest.MonkeyPatch
) -> None:
    gains = []
    for case in captures:
        names, figures = judged(capture_judge, capture_side, case, tool, monkeypatch)
        assert names == [], case.name
        gains.append(figures["gain"])
    assert sum(gains) / len(gains) > 0.3


@pytest.mark.parametrize("tool", [cost, *RIGHT_COSTS])
def test_another_way_to_count_is_right_and_gains_unless_it_is_the_templates(
    tool: Tool, costs: list[Case], monkeypatch: pytest.MonkeyPatch
) -> None:
    gains = []
    for case in costs:
        names, figures = judged(cost_judge, cost_side, case, tool, monkeypatch)
        assert names == [], case.name
        gains.append(figures["gain"])
    assert (sum(gains) / len(gains) > 0.05) == (tool is not cost)


def test_a_package_has_one_tool(captures: list[Case], costs: list[Case]) -> None:
    for judge, side, case in ((capture_judge, capture_side, captures[0]), (cost_judge, cost_side, costs[0])):
        for registered, expected in (([], "registers nothing"), (["a", "b"], "registers several")):
            assert [found[0] for found in judge.judge(case, side.probe(case, registered))] == [expected]


def test_a_custom_operator_stands_in_some_graphs(costs: list[Case]) -> None:
    with_custom = [case for case in costs if case.parameters["custom"]]
    assert 0 < len(with_custom) < len(costs)
    for case in with_custom:
        told = cost_judge.counted(case)
        assert all(told[name].uncounted for name in case.parameters["custom"])
