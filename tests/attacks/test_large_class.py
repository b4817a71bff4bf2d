"""A small class through the tool that grades a large one, and what the tool makes of its measurements."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from large_class import Report, Told, behind, compare, estimates, grade, make_class, quarters, readings, steps_back


def test_a_small_class(tmp_path: Path) -> None:
    course, made = make_class(tmp_path / "course", 3, "day0_start")
    _, told, samples = grade(course, 2)
    assert {one.of for one in told if one.of} == {3}, "the bar says how many there are"
    assert not steps_back(told)
    assert max(one.printed for one in told) >= 2, "what is printed of a submission is recognised"
    assert not behind(told), "what has been printed as graded is counted"
    assert max(size for _, size in samples) > 2**28, "a process with torch takes more than 256 MiB"
    report = Report(3)
    compare(course, made, report)
    assert (report.wrong, report.verdicts) == ([], 3 * len(made[0].answers))
    # The comparison itself: a class that handed in something else.
    other = [replace(one, answers=dict.fromkeys(one.answers, "reference")) for one in made]
    report = Report(3)
    compare(course, other, report)
    assert len(report.wrong) == sum(
        kind == "blank" or kind.startswith("wrong/") for one in made for kind in one.answers.values()
    )


def test_readings_of_the_bar() -> None:
    said = "\x1b[2KSubmissions ━━━━ 12/1000 0:00:10 left: 0:13:40\rSubmissions ━━ 13/1000 0:00:11 left: -:--:--"
    assert list(readings(said, 11.0)) == [Told(11.0, 12, 1000, 820), Told(11.0, 13, 1000, None)]
    said += "\r\x1b[2Ka / ex_00: 12.5 of 100 points\n  one: wrong\nSubmissions ━━ 1/1000 0:00:12 left: 0:13:40"
    last = list(readings(said, 11.0, printed=1))[-1]
    assert (last.done, last.printed) == (1, 2)
    assert behind([last, replace(last, done=2)]) == [last]


def test_estimates() -> None:
    told = [Told(float(at), at // 2, 50, 100.0 - at) for at in range(4, 101)]
    assert estimates(told, 100.0) == pytest.approx({"1/4": 0.0, "2/4": 0.0, "3/4": 0.0})
    late = [replace(one, left=(one.left or 0) / 2) for one in told]
    assert estimates(late, 100.0) == pytest.approx({"1/4": -0.5, "2/4": -0.5, "3/4": -0.5})
    assert not steps_back(told)
    assert steps_back([told[5], told[2], replace(told[2], of=51)]) == [
        (told[5], told[2]),
        (told[2], replace(told[2], of=51)),
    ]
    for broken in (told[:50], [replace(one, left=None) for one in told]):
        with pytest.raises(AssertionError):
            estimates(broken, 100.0)


def test_quarters() -> None:
    assert quarters([(float(at), at // 10) for at in range(41)]) == [0, 1, 2, 3]
