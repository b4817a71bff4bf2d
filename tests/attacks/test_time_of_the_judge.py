"""All that the judge is asked for one submission counts against one budget: verdicts, questions, and what it builds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from autograder.course.task import Task
from autograder.course.tasks import find_task
from autograder.exchange.building import ENDLESS
from autograder.exchange.channel import Message
from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.verdict import CaseVerdict, Finding, TaskOutcome
from autograder.exercises import cpp_answers
from autograder.grading import task_run
from autograder.grading.budget import Budget
from autograder.grading.endings import ENDINGS, OVERRUN
from autograder.grading.sandbox import Limits
from autograder.grading.task_run import TaskRun
from fxopt_workbench.cpp import EndlessBuildError

SECONDS = 50.0
"""What each thing takes that this judge is asked."""

CASES = 40

ONE = 4 * SECONDS
"""What one case may take: a question, a record, a build and a verdict. The last one may begin just before the end."""


class Clock:
    """A clock that runs only while the judge does something."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


class SlowJudge:
    """Takes as long over each thing, and finds nothing wrong that ends a task."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.asked = clock, 0

    def _takes_time(self, answer: Any) -> Any:
        self.clock.now += SECONDS
        self.asked += 1
        return answer

    def judge(self, task: Task, case: Message, evidence: Message, hidden: bool) -> CaseVerdict:
        return self._takes_time(CaseVerdict("a case", hidden, (Finding("wrong", "It is wrong."),)))  # type: ignore[no-any-return]

    def follow_up(self, *_: Any) -> None:
        self._takes_time(None)

    def answer(self, *_: Any, anew: bool) -> float:
        return self._takes_time(0.0)  # type: ignore[no-any-return]

    def record(self, *_: Any) -> list[Any]:
        return self._takes_time([])  # type: ignore[no-any-return]


class Endless:
    """A channel from which the same messages come for ever, and a worker that has no other."""

    violation = None

    def __init__(self, *said: dict[str, Any]) -> None:
        self._said = self._again(said)

    def _again(self, said: tuple[dict[str, Any], ...]) -> Iterator[Message]:
        yield Message({"missing": []}, b"")
        while True:
            for header in said:
                yield Message(header, b"")

    def run(self, *_: Any, **__: Any) -> Endless:
        return self

    def receive(self, timeout: float) -> Message:
        return next(self._said)

    def send(self, *_: Any, **__: Any) -> None: ...

    def close(self) -> None: ...

    def end_run(self, gone: bool = False) -> None: ...


EVIDENCE = {"values": {}, "graphs": {}}

TOLD = {
    "verdicts": ("run_graph", [EVIDENCE]),
    "builds": ("longest_run", [EVIDENCE]),
    "questions, then evidence": ("measure_compile_cost", [{"asked": "clock"}, EVIDENCE]),
    "questions without end": ("measure_compile_cost", [{"asked": "clock"}]),
}


@pytest.mark.parametrize("name", TOLD)
def test_whatever_the_judge_is_asked_its_time_for_one_submission_ends(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(task_run, "time", clock)
    task, said = find_task(TOLD[name][0]), TOLD[name][1]
    judge, budget = SlowJudge(clock), Budget(100.0)
    worker: Any = Endless(*said)
    slow: Any = judge
    cases = [Message({"name": f"case {number}"}, b"") for number in range(CASES)]
    outcome = TaskRun(worker, task, [], Limits(), budget, hidden=False, watch=None).outcome(cases, slow)
    assert isinstance(outcome, TaskOutcome)
    assert OVERRUN in outcome.misconceptions
    assert clock.now <= budget.seconds_to_judge + ONE, "more than the budget, and one case that was begun"
    assert budget.judged == clock.now == SECONDS * judge.asked
    assert budget.used == 0.0


def test_a_source_without_end_is_tried_on_one_case_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(source: str) -> bytes:
        raise EndlessBuildError("the compiler came to no end within 110 seconds, or needed too much memory")

    monkeypatch.setattr(cpp_answers, "built", endless)
    evidence = Evidence({"source": "template <int n> struct S : S<n - 1> {};"})
    assert cpp_answers.follow_up(Case("a case"), evidence) is None
    ((name, told),) = cpp_answers.before_computing(evidence)
    assert name == ENDLESS
    assert "no end within" in told
    assert name in cpp_answers.MISCONCEPTIONS
    assert name in ENDINGS, "further cases of the task would be tried"
