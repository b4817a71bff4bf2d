"""Which points count, and what is no point at all."""

from __future__ import annotations

from datetime import timedelta

import pytest
from records_of import DAY, NOON, attempt, by_hand, class_of

from autograder.classroom.standing import Standing
from autograder.course.rules import Counts, Rules, Terms
from autograder.records.admission import refusal
from autograder.records.manual_grades import CellGrade
from autograder.records.verdicts import Attempt


def rules(
    late_days: int = 0, penalty: float = 0, limit: int | None = None, counts: Counts = "best", hours: float = 1
) -> Rules:
    return Rules({DAY: Terms(NOON + timedelta(hours=hours), timedelta(), late_days, penalty, limit, counts)})


def stands(*attempts: Attempt, terms: Rules | None = None, grades: tuple[CellGrade, ...] | None = None) -> Standing:
    points = (by_hand("deep_dive", 20.0),) if grades is None else grades
    [found] = class_of({"ada": attempts}, points, terms).standings()
    return found


def test_the_best_or_the_last_attempt_counts() -> None:
    attempts = attempt(1, 60), attempt(2, 100, 0.1), attempt(3, 0, 0.2)
    assert stands(*attempts).score == 120
    assert stands(*attempts, terms=rules(counts="last")).score == 20
    best = stands(*attempts).counted
    assert best is not None
    assert best.attempt.number == 2
    # Of equal ones the newest: it is the one that everybody looks at.
    equal = stands(attempt(1, 60), attempt(2, 60, 0.1)).counted
    assert equal is not None
    assert equal.attempt.number == 2


def test_what_lateness_costs_is_weighed_against_what_it_gained() -> None:
    early, late = attempt(1, 60), attempt(2, 100, 1 + 24.5)
    found = stands(early, late, terms=rules(late_days=3, penalty=10))
    assert found.score == pytest.approx(120 * 0.8)
    assert found.counted is not None
    assert (found.counted.lateness.days, found.counted.penalty) == (2, pytest.approx(24))
    assert stands(early, late, terms=rules(late_days=3, penalty=30)).score == 80
    last = stands(early, late, terms=rules(late_days=3, penalty=30, counts="last"))
    assert last.score == pytest.approx(120 * 0.4)


def test_what_came_too_late_counts_nothing_and_is_no_zero() -> None:
    late = attempt(2, None, 30, verdict=False)
    found = stands(attempt(1, 60), late, terms=rules())
    assert found.score == 80
    [(refused, why)] = found.refused
    assert (refused.number, why.reason) == (2, "too late")
    assert "after the deadline" in why.message
    alone = stands(attempt(1, None, 30, verdict=False), terms=rules())
    assert (alone.state, alone.score) == ("too late", None)


def test_attempts_beyond_the_limit_of_a_day_are_kept_and_not_graded() -> None:
    terms = rules(limit=2, hours=100)
    before = [attempt(1, 0), attempt(2, 60, 1)]
    third = attempt(3, None, 2, verdict=False)
    why = refusal(terms.terms[DAY], before, third.submission, third.received_at)
    assert why is not None
    assert "2 attempts a day are graded" in why.message
    next_day = attempt(4, None, 13, verdict=False)
    assert refusal(terms.terms[DAY], [*before, third], next_day.submission, next_day.received_at) is None
    # What was graded before, and what the infrastructure lost, uses up nothing.
    assert refusal(terms.terms[DAY], before, before[0].submission, third.received_at) is None
    lost = [attempt(1, None, status="infrastructure_error"), attempt(2, 60, 1)]
    assert refusal(terms.terms[DAY], lost, third.submission, third.received_at) is None
    found = stands(*before, third, terms=terms)
    assert (found.state, found.score) == ("graded", 80)


@pytest.mark.parametrize(
    ("attempts", "state"),
    [
        ((), "not submitted"),
        ((attempt(1, None, verdict=False),), "not graded yet"),
        ((attempt(1, None, status="infrastructure_error"),), "infrastructure error"),
        # What was graded before is no final number while the newest is not graded.
        ((attempt(1, 60), attempt(2, None, 0.1, status="infrastructure_error")), "infrastructure error"),
        ((attempt(1, 60), attempt(2, None, 0.1, verdict=False)), "not graded yet"),
        ((attempt(1, 0, status="invalid"),), "graded"),
    ],
)
def test_what_is_no_grade_is_no_number(attempts: tuple[Attempt, ...], state: str) -> None:
    found = stands(*attempts, grades=(by_hand("deep_dive", 0.0),))
    assert found.state == state
    assert found.score == (0.0 if state == "graded" else None)
    assert (found.judged is None) == (state != "graded")
    assert (found.written_after is None) == (state != "graded")


def test_a_persons_points_take_the_judges_place_and_words_wait_for_them() -> None:
    waiting = stands(attempt(1, 60), grades=(by_hand("deep_dive", None, waits=True),))
    assert (waiting.state, waiting.score, waiting.judged) == ("waits for a person", None, 60)
    # Points for other words than those that are there now count no more; those for code stay in force.
    again = stands(attempt(1, 60), grades=(by_hand("deep_dive", 12.0, waits=True),))
    assert again.state == "waits for a person"
    grades = (by_hand("deep_dive", 12.0), by_hand("pipeline", 40.0, written=False, extra=1.0))
    replaced = stands(attempt(1, 60), grades=grades)
    assert replaced.score == 60 + 40 + 12 + 1
    assert replaced.by_hand == ("pipeline",)
    # Nothing in the gradebook yet is no answer of 0 points.
    assert stands(attempt(1, 60), grades=()).state == "waits for a person"
