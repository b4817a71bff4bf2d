"""What holds for the judge of every task, beyond the gate: hidden cases and evidence that says nothing or nonsense."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from autograder.evidence import Case, Evidence
from autograder.judging import hidden_cases, judge_case, judge_module, visible_cases
from autograder.tasks import Task, all_tasks

GIVEN = {"remove_graph_breaks": "BrokenModel", "exportable_control_flow": "GivenModel"}
"""Classes that answers inherit from, by task."""

TASKS = pytest.mark.parametrize("task", all_tasks(), ids=lambda task: task.name)


def described(cases: list[Case]) -> list[dict[str, Any]]:
    return [{"name": case.name, **case.parameters} for case in cases]


@TASKS
def test_hidden_cases_come_from_the_seed(task: Task) -> None:
    assert described(hidden_cases(task, "one")) == described(hidden_cases(task, "one"))
    assert described(hidden_cases(task, "one")) != described(hidden_cases(task, "two"))


@TASKS
def test_no_hidden_case_is_a_visible_one(task: Task) -> None:
    visible = [case.parameters for case in visible_cases(task)]
    assert all(case.parameters not in visible for case in hidden_cases(task, "one"))


def passes(task: Task, case: Case, evidence: Evidence) -> bool:
    """Whether evidence is believed; a judge that stops with an exception does not believe it."""
    try:
        return judge_case(task, case, evidence, hidden=True).passed
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        return False


@TASKS
def test_evidence_that_says_nothing_does_not_pass(task: Task) -> None:
    for case in [*visible_cases(task), *hidden_cases(task, "one")]:
        assert not passes(task, case, Evidence())


@TASKS
def test_evidence_of_one_case_does_not_pass_another(task: Task) -> None:
    """The evidence of the right answer to one hidden case is wrong for every other one."""
    answers = reference_answers(task)
    probe = __import__(task.module + ".visible", fromlist=["probe"]).probe
    first, *others = hidden_cases(task, "one")
    evidence = Evidence.from_message(*probe(first, *answers).to_message())
    assert passes(task, first, evidence)
    assert others, "one hidden case is not enough to tell an answer from a constant"
    for other in others:
        assert not passes(task, other, evidence)


def reference_answers(task: Task) -> list[Any]:
    """The names that one of the task's right answers defines."""
    source = next(iter(sorted((task.folder / "right").glob("*.py")))).read_text()
    namespace: dict[str, Any] = {"torch": torch, "nn": torch.nn}
    if task.name in GIVEN:
        # The notebook gives this class in a cell before the task.
        name = GIVEN[task.name]
        namespace[name] = getattr(__import__(task.module + ".visible", fromlist=[name]), name)
    exec(compile(source, "<right answer>", "exec"), namespace)
    return [namespace[name] for name in task.provides]


@TASKS
def test_every_misconception_is_explained_in_a_sentence(task: Task) -> None:
    for name, message in judge_module(task).MISCONCEPTIONS.items():
        assert len(message.split()) >= 5, name
        assert message.rstrip()[-1] in ".?!", name
