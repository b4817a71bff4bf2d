"""What holds for the judge of every task, beyond the gate: hidden cases and evidence that says nothing or nonsense."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from torch import fx

from autograder.course.course import Course
from autograder.course.judges import follow_up, hidden_cases, judge_case, judge_module, visible_cases
from autograder.course.sources import read_source
from autograder.course.task import UNITS, Task
from autograder.course.tasks import all_tasks, find_task
from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.graph_form import decode, encode, graphs_run_by

COURSE = Course(Path(__file__).resolve().parents[3])

GIVEN = {
    "remove_graph_breaks": "BrokenModel",
    "exportable_control_flow": "GivenModel",
    "layer_costs": "layer_of",
}
"""What the notebook gives in a cell before the task: classes that answers inherit from, functions that they call."""

EARLIER = {"fuse_attention": "find_attention"}
"""The task before, whose answer this one builds on."""

LONG = "FXOPT_LONG" in os.environ

OTHERS = 100 if LONG else 8
"""With at least how many other hidden cases the evidence of one is tried, where there are so many."""

TASKS = pytest.mark.parametrize("task", all_tasks(), ids=lambda task: task.name)


@cache
def drawn(task: Task) -> list[Case]:
    """The hidden cases of one seed, drawn once for the tests below. Nobody may change them."""
    return hidden_cases(task, "one")


def described(cases: list[Case]) -> list[dict[str, Any]]:
    return [{"name": case.name, **case.parameters} for case in cases]


@TASKS
def test_hidden_cases_come_from_the_seed(task: Task) -> None:
    assert described(hidden_cases(task, "one")) == described(drawn(task))
    assert described(hidden_cases(task, "two")) != described(drawn(task))


@TASKS
def test_no_hidden_case_is_a_visible_one(task: Task) -> None:
    visible = [case.parameters for case in visible_cases(task)]
    assert all(case.parameters not in visible for case in drawn(task))


def passes(task: Task, case: Case, evidence: Evidence) -> bool:
    """Whether evidence is believed; a judge that stops with an exception does not believe it."""
    try:
        return judge_case(task, case, evidence, hidden=True).passed
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        return False


@TASKS
def test_evidence_that_says_nothing_does_not_pass(task: Task) -> None:
    for case in [*visible_cases(task), *drawn(task)]:
        assert not passes(task, case, Evidence())


@TASKS
@pytest.mark.sampled
def test_evidence_of_one_case_does_not_pass_another(task: Task) -> None:
    """The evidence of the right answer to one hidden case is wrong for every other one."""
    first, *others = drawn(task)
    others = others[:: max(1, len(others) // OTHERS)]
    evidence = of_first(task)
    assert passes(task, first, evidence)
    assert others, "one hidden case is not enough to tell an answer from a constant"
    for other in others:
        assert not passes(task, other, evidence)


@cache
def of_first(task: Task) -> Evidence:
    """What the probe sees of a right answer in the first of the drawn cases."""
    return observed(task, drawn(task)[0], reference_answers(task))


def observed(task: Task, case: Case, answers: list[Any]) -> Evidence:
    """What the probe sees of the answers, as it travels; where it goes on in a fresh process, what that sees."""
    visible = __import__(task.module + ".visible", fromlist=["probe"])
    evidence = Evidence.from_message(*visible.probe(case, *answers).to_message())
    if task.fresh and (more := follow_up(task, case, evidence)) is not None:
        evidence = Evidence.from_message(*visible.fresh(more).to_message())
    return evidence


def reference_answers(task: Task) -> list[Any]:
    """The names that one of the task's right answers defines."""
    source = next(iter(sorted((task.folder / "right").glob("*.py")))).read_text()
    namespace: dict[str, Any] = {}
    exec(compile(set_up(task), "<the notebook's first cell>", "exec"), namespace)
    if task.name in EARLIER:
        earlier = find_task(EARLIER[task.name])
        namespace |= zip(earlier.provides, reference_answers(earlier), strict=True)
    if task.name in GIVEN:
        name = GIVEN[task.name]
        namespace[name] = getattr(__import__(task.module + ".visible", fromlist=[name]), name)
    exec(compile(source, "<right answer>", "exec"), namespace)
    return [namespace[name] for name in task.provides]


def set_up(task: Task) -> ast.Module:
    """What the first cell of the task's notebook imports and names, without the tools of the course."""
    source = COURSE.sources_of(UNITS[task.unit]) / f"{task.notebook}.py"
    first = next(cell for cell in read_source(source).cells if cell.cell_type == "code")
    kept = [node for node in ast.parse(first.source).body if isinstance(node, ast.Import | ast.ImportFrom | ast.Assign)]
    tools = ("autograder", "autograder.learner_side.submit_cell")
    return ast.Module([node for node in kept if getattr(node, "module", None) not in tools], [])


@TASKS
def test_every_misconception_is_explained_in_a_sentence(task: Task) -> None:
    for name, message in judge_module(task).MISCONCEPTIONS.items():
        assert len(message.split()) >= 5, name
        assert message.rstrip()[-1] in ".?!", name


class Elsewhere:
    """Stands for another process: questions go to graphs that are decoded anew, as there."""

    def ask(self, question: Callable[..., Any], arguments: Sequence[Any]) -> Any:
        there = [decode(encode(one), ours=True) if isinstance(one, fx.GraphModule) else one for one in arguments]
        return question(*there)


@TASKS
@pytest.mark.sampled
def test_no_judge_executes_what_a_learner_sent(task: Task) -> None:
    """Where a judge runs, executing a learner's graph raises: each judge asks for all that it wants to know."""
    first, *others = drawn(task)
    seen = [(first, of_first(task))]
    if LONG:
        answers = reference_answers(task)
        seen += [(case, observed(task, case, answers)) for case in (visible_cases(task)[0], *others[:1])]
    for case, evidence in seen:
        with graphs_run_by(Elsewhere()):
            assert judge_case(task, case, evidence, hidden=True).passed
