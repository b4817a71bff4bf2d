"""The judge's own channel: evidence that grows in the writing, answers out of step, a judge that ends."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from psutil import Process

from autograder.course.judges import JudgeError
from autograder.course.tasks import find_task
from autograder.exchange.channel import HEADER_LIMIT, Message
from autograder.grading.endings import JUDGE_CRASHED
from autograder.grading.judging import SIZES, Judge
from autograder.grading.sandbox import Limits

TASK = find_task("run_graph")


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with Judge(Limits()) as started:
        yield started


def verdict(judge: Judge, evidence: Message) -> list[str]:
    case = judge.cases(TASK)[0]
    found = judge.judge(TASK, case, evidence, hidden=False)
    assert found.case == case.header["name"]
    return [finding.misconception for finding in found.findings]


EMPTY = Message({"values": {}, "graphs": {}}, b"")


def test_evidence_that_grows_in_the_writing_is_judged_or_refused_and_the_next_is_its_own(judge: Judge) -> None:
    raised = Message({"raised": "ValueError", "text": "mine"}, b"")
    # Read as 1e15, four characters, it is written 1000000000000000.0: more than was ever received.
    grown = Message({"values": {"numbers": [1e15] * (HEADER_LIMIT // 16)}, "graphs": {}}, b"")
    assert verdict(judge, grown) == ["unreadable evidence"]
    assert verdict(judge, raised) == ["raised"]
    enormous = Message({"values": {"text": "x" * SIZES["header_limit"]}, "graphs": {}}, b"")
    assert verdict(judge, enormous) == ["unreadable evidence"]
    assert verdict(judge, raised) == ["raised"]


def test_nested_evidence_costs_its_own_case(judge: Judge) -> None:
    nested: list[object] = []
    for _ in range(100_000):
        nested = [nested]
    assert verdict(judge, Message({"values": {"nested": nested}, "graphs": {}}, b"")) == ["unreadable evidence"]
    assert verdict(judge, Message({"raised": "ValueError", "text": "mine"}, b"")) == ["raised"]


def test_an_answer_to_another_question_is_not_believed(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    case = judge.cases(TASK)[0]
    channel = judge._connected()
    monkeypatch.setattr(channel, "receive", lambda seconds: Message({"id": 0, "findings": [], "figures": {}}, b""))
    raised = Message({"raised": "ValueError", "text": "mine"}, b"")
    found = judge.judge(TASK, case, raised, hidden=False)
    assert [finding.misconception for finding in found.findings] == ["raised"], "no other judge was asked"
    assert verdict(judge, raised) == ["raised"]


def end_with(judge: Judge, monkeypatch: pytest.MonkeyPatch, number: int, times: int) -> None:
    """The judge's process ends by this signal over the next questions."""
    ask, left = judge._ask, [number] * times

    def deadly(*arguments: Any) -> dict[str, Any]:
        if left:
            assert judge._process is not None
            os.kill(judge._process.pid, left.pop())
        return ask(*arguments)

    monkeypatch.setattr(judge, "_ask", deadly)


def test_a_judge_that_is_lost_once_is_replaced_and_nobody_reads_of_it(
    judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = judge.cases(TASK)[0]
    raised = Message({"raised": "ValueError", "text": "mine"}, b"")
    for number in (signal.SIGKILL, signal.SIGSEGV):
        end_with(judge, monkeypatch, number, 1)
        found = judge.judge(TASK, case, raised, hidden=False)
        assert [finding.misconception for finding in found.findings] == ["raised"]


def test_a_judge_that_crashes_over_evidence_each_time_is_told_as_that(
    judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = judge.cases(TASK)[0]
    end_with(judge, monkeypatch, signal.SIGSEGV, 2)
    (finding,) = judge.judge(TASK, case, EMPTY, hidden=False).findings
    assert finding.misconception == JUDGE_CRASHED
    assert "seconds" not in finding.message
    assert "came to an end" in finding.message
    assert verdict(judge, Message({"raised": "ValueError", "text": "mine"}, b"")) == ["raised"]


def test_a_judge_that_is_killed_again_and_again_is_nobodys_fault(judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    case = judge.cases(TASK)[0]
    end_with(judge, monkeypatch, signal.SIGKILL, 2)
    with pytest.raises(JudgeError, match="was killed 2 times over one case"):
        judge.judge(TASK, case, EMPTY, hidden=False)
    assert verdict(judge, Message({"raised": "ValueError", "text": "mine"}, b"")) == ["raised"]


def servers_of(judge: Judge) -> list[str]:
    """Command lines of the processes that run graphs for a judge."""
    assert judge._process is not None
    commands = [" ".join(child.cmdline()) for child in Process(judge._process.pid).children()]
    return [command for command in commands if "graph_server" in command]


@pytest.mark.parametrize(("name", "ahead"), [("conv_output_shape", False), ("run_graph", True)])
def test_what_runs_graphs_is_started_for_tasks_with_graphs(name: str, ahead: bool) -> None:
    with Judge(Limits()) as judge:
        judge.cases(find_task(name), "a seed")
        judge.cases(find_task(name))  # answered after whatever the first request started
        assert len(servers_of(judge)) == ahead
