"""What a learner is told of several cases that are wrong: the one mistake that explains them all, if there is one."""

from __future__ import annotations

from collections.abc import Callable, Collection

import pytest

from autograder.course.judges import visible_cases
from autograder.course.tasks import find_task
from autograder.exchange.channel import Message
from autograder.exchange.verdict import CaseVerdict, Excluded, Finding, outcome_from_verdicts
from autograder.exercises.day0.run_graph.judge import MISTAKES, shown_by
from autograder.exercises.day0.run_graph.reference import run_graph
from autograder.exercises.day0.run_graph.visible import probe
from autograder.exercises.explaining import OnDemand
from autograder.grading.judging import Judge

FITS = (("one", "You made the first mistake."), ("other", "You made the other mistake."))


def wrong(fits: tuple[tuple[str, str], ...] = FITS) -> CaseVerdict:
    return CaseVerdict("a wrong case", False, (Finding("not right", "It is not right.", "", "not right", fits),))


def right(excluded: Excluded, question: str = "not right") -> CaseVerdict:
    return CaseVerdict("a right case", False, (), {}, ((question, excluded),))


def told(*verdicts: CaseVerdict) -> list[str]:
    """The misconceptions that the verdicts come to."""
    return outcome_from_verdicts("task", "A task", verdicts).misconceptions


def test_the_mistake_that_no_case_rules_out_is_told() -> None:
    assert told(wrong()) == ["not right"]
    assert told(wrong(), right(("other",))) == ["one"]
    assert told(right(("one",)), wrong()) == ["other"]
    assert told(wrong(), right(("one", "other"))) == ["not right"]
    assert told(wrong(), right(("other",), question="another question")) == ["not right"]


def test_a_case_is_asked_what_it_rules_out_only_while_that_is_in_doubt() -> None:
    asked: list[list[str]] = []

    def ruling_out(*names: str) -> Excluded:
        def answer(doubtful: Collection[str]) -> list[str]:
            asked.append(sorted(doubtful))
            return [name for name in names if name in doubtful]

        return answer

    assert told(right(ruling_out("one"))) == []
    assert told(wrong(), right(ruling_out("one"), question="another question")) == ["not right"]
    assert asked == []
    assert told(wrong(), right(ruling_out("other", "a third")), right(ruling_out())) == ["one"]
    assert asked == [["one", "other"], ["one"]]
    asked.clear()
    assert told(wrong(), right(ruling_out("one", "other")), right(ruling_out())) == ["not right"]
    assert asked == [["one", "other"]]


def test_where_nobody_knows_what_a_case_rules_out_no_mistake_is_told() -> None:
    assert told(wrong(FITS[:1])) == ["one"]
    assert told(wrong(FITS[:1]), right(lambda names: None)) == ["not right"]


def test_what_a_mistake_gives_is_found_out_once_and_only_when_asked() -> None:
    made: list[str] = []

    def find(name: str) -> int:
        made.append(name)
        return len(name)

    given = OnDemand(("one", "other"), find)
    assert (list(given), len(given), made) == (["one", "other"], 2, [])
    assert (given["other"], given["other"], made) == (5, 5, ["other"])
    assert dict(given) == {"one": 3, "other": 5}
    with pytest.raises(KeyError):
        given["a third"]


def test_the_judging_process_says_what_a_case_rules_out_until_the_next_submission() -> None:
    task = find_task("run_graph")
    evidence = {case.name: Message(*probe(case, run_graph).to_message()) for case in visible_cases(task)}
    with Judge() as judge:

        def rules_out() -> Callable[[Collection[str]], Collection[str] | None]:
            verdict = judge.judge(task, case, evidence[case.header["name"]], hidden=False)
            ((question, excluded),) = verdict.excluded
            assert (verdict.findings, question) == ((), "wrong values")
            assert callable(excluded)
            return excluded

        judge.new_submission()
        case = judge.cases(task)[0]
        excluded = rules_out()
        shown = excluded(sorted(MISTAKES))
        assert shown is not None
        assert set(shown) == set(shown_by(visible_cases(task)[0], sorted(MISTAKES)))
        assert 0 < len(shown) < len(MISTAKES)
        assert excluded(shown[:1]) == shown[:1]
        judge.new_submission()
        latest = rules_out()
        assert excluded(shown) is None
        assert latest(shown) == shown
        assert latest([]) == []
        judge._stop()
        assert latest(shown) is None
        assert rules_out()(shown) == shown
        assert latest(shown) is None, "a judge that was started anew has not seen the case"
