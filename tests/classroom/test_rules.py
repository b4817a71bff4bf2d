"""`course.toml`: what it says holds, and every mistake in it is named with its line."""

from __future__ import annotations

import json
import tomllib
from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from in_process import fxopt

from autograder.course.course import Course
from autograder.course.rules import Rules, Terms
from autograder.course.rules_file import NAME, RulesError, parse_rules, read_rules
from autograder.course.toml_lines import TomlLines

UNITS = ("day0_start", "day1_compile_stack")

GOOD = """timezone = "Europe/Berlin"
late_days = 3
penalty_a_day = 10
attempts_a_day = 5
counts = "last"

[assignments.day1_compile_stack]
deadline = 2026-11-27T18:00:00
counts = "best"

[assignments.day0_start]
deadline = 2026-11-20T18:00:00+00:00
late_days = 0

[[extensions]]
student = "ada"
days = 2
[[extensions]]
student = "ada"
assignment = "day1_compile_stack"
until = 2026-12-01T12:00:00+01:00
"""


def parsed(text: str) -> Rules:
    return parse_rules(text.encode(), UNITS)


def mistakes(text: str | bytes) -> list[tuple[int, str, str]]:
    with pytest.raises(RulesError) as caught:
        parse_rules(text if isinstance(text, bytes) else text.encode(), UNITS)
    return [(mistake.line, mistake.key, mistake.message) for mistake in caught.value.mistakes]


def test_what_the_file_says_holds() -> None:
    rules = parsed(GOOD)
    everybody = rules.for_student("bob", "day1_compile_stack")
    assert everybody.deadline == datetime(2026, 11, 27, 17, tzinfo=UTC)
    assert (everybody.late_days, everybody.penalty_a_day, everybody.attempts_a_day) == (3, 10.0, 5)
    assert everybody.counts == "best"
    first = rules.for_student("bob", "day0_start")
    assert (first.late_days, first.counts) == (0, "last")
    # More time for all assignments, and for this one its own.
    assert rules.for_student("ada", "day0_start").deadline == datetime(2026, 11, 22, 18, tzinfo=UTC)
    assert rules.for_student("ada", "day1_compile_stack").deadline == datetime(2026, 12, 1, 11, tzinfo=UTC)
    assert rules.for_student("ada", "day2_fx_graphs").deadline is None
    assert rules.for_student("ada", "day2_fx_graphs").attempts_a_day == 5


def test_without_a_file_nothing_is_late(course: Course) -> None:
    rules = read_rules(course)
    terms = rules.for_student("bob", UNITS[0])
    assert terms == Terms()
    assert terms.lateness(datetime.now(UTC)).accepted


def test_every_day_that_was_begun_costs() -> None:
    deadline = datetime(2026, 11, 27, 17, tzinfo=UTC)
    terms = Terms(deadline, late_days=3, penalty_a_day=40)
    expected = {-5: (0, 0.0, True), 0: (0, 0.0, True), 1: (1, 0.4, True), 24 * 60: (1, 0.4, True)}
    expected |= {24 * 60 + 1: (2, 0.8, True), 72 * 60: (3, 1.0, True), 72 * 60 + 1: (4, 1.0, False)}
    for minutes, (days, share, accepted) in expected.items():
        found = terms.lateness(deadline + timedelta(minutes=minutes))
        assert (found.days, pytest.approx(found.share), found.accepted) == (days, share, accepted), minutes


def test_a_day_begins_at_midnight_in_the_courses_time_zone() -> None:
    berlin = parsed(GOOD).for_student("bob", "day0_start")
    assert berlin.day_of(datetime(2026, 11, 19, 23, 30, tzinfo=UTC)) == date(2026, 11, 20)
    assert berlin.day_of(datetime(2026, 11, 19, 22, 30, tzinfo=UTC)) == date(2026, 11, 19)


BAD = """timezone = "Europe/Berlin"
late_day = 3
penalty_a_day = "ten"
attempts_a_day = 0
counts = "first"

[assignments.day1_compile_stak]
late_days = [
  1,
  2 ]
penaltyaday = 1
[assignments.day0_start]
deadline = 2026-11-27

[[extensions]]
student = "ada"
days = -2
[[extensions]]
assignment = "day1_compile_stack"
until = 2026-12-01T12:00:00+01:00
[[extensions]]
student = "bo"
[[extensions]]
student = "cy"
days = 1
[[extensions]]
student = "cy"
days = 2
"""


def test_every_mistake_is_named_with_its_line_and_what_was_expected() -> None:
    expected = [
        (2, "late_day", "Did you mean 'late_days'"),
        (3, "penalty_a_day", "a percentage from 0 to 100, such as 10, not 'ten'"),
        (4, "attempts_a_day", "a whole number from 1 to 1000"),
        (5, "counts", '"best" or "last", not \'first\''),
        (7, "assignments.day1_compile_stak", "Did you mean 'day1_compile_stack'?"),
        (8, "assignments.day1_compile_stak.late_days", "a whole number of days from 0 to 366, such as 3, not [1, 2]"),
        (11, "assignments.day1_compile_stak.penaltyaday", "Did you mean 'penalty_a_day'?"),
        (13, "assignments.day0_start.deadline", "expected a date and a time, such as 2026-11-27T18:00:00"),
        (17, "extensions[1].days", "a number of days above 0, not -2"),
        (18, "extensions[2]", "a student's name"),
        (19, "extensions[2].assignment", "has no deadline"),
        (21, "extensions[3]", "either days = 2 or until = (a time)"),
        (26, "extensions[5]", "on line 23: keep one of the two"),
    ]
    found = mistakes(BAD)
    assert [(line, key) for line, key, _ in found] == [(line, key) for line, key, _ in expected]
    for (_, _, message), (_, _, part) in zip(found, expected, strict=True):
        assert part in message


@pytest.mark.parametrize(
    ("text", "line", "part"),
    [
        (b"counts = \n", 1, "not TOML"),
        (b"late_days = 1\nlate_days = 2\n", 2, "Cannot overwrite"),
        (b"late_days = 1\ncounts = '''\n", 3, "not TOML"),
        (b"late_days = 1\n# \xff\n", 2, "UTF-8"),
        (b"a = " + b"[" * 5000, 1, "nested too deeply"),
        (b"assignments = 3", 1, "expected a table"),
        (b"\nextensions = [1]", 2, "[[extensions]]"),
        (b"penalty_a_day = nan", 1, "a percentage"),
        (b"late_days = true", 1, "a whole number"),
        (b"timezone = 'Europe/Berln'\n[assignments.day0_start]\ndeadline = 2026-01-01T10:00:00", 1, "'Europe/Berlin'"),
        (b"[assignments.day0_start]\ndeadline = 2026-01-01T10:00:00", 2, "does not say where"),
    ],
)
def test_a_file_that_cannot_be_used_says_where_and_why(text: bytes, line: int, part: str) -> None:
    [(found, _, message)] = mistakes(text)
    assert found == line
    assert part in message


def test_a_time_that_is_there_twice_or_never_is_refused() -> None:
    head = 'timezone = "Europe/Berlin"\n[assignments.day0_start]\ndeadline = '
    [(line, _, message)] = mistakes(head + "2026-10-25T02:30:00")
    assert line == 3
    assert "is there twice in Europe/Berlin" in message
    [(_, _, message)] = mistakes(head + "2026-03-29T02:30:00")
    assert "does not exist in Europe/Berlin" in message
    assert parsed(head + "2026-10-25T02:30:00+01:00").terms["day0_start"].deadline == datetime(
        2026, 10, 25, 2, 30, tzinfo=timezone(timedelta(hours=1))
    )


def test_windows_line_ends_and_a_byte_order_mark_are_read() -> None:
    assert parse_rules(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode(), UNITS) == parsed(GOOD)


keys = st.sampled_from(["a", "b", '"c d"', "e.f"])
values = st.sampled_from(["1", '"x"', '"""\nx\n"""', "[\n1,\n2]", "{ x = 1 }", "'''a\n\n'''"])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(keys, values, st.sampled_from(["", "\n", "# a = 1\n"])), min_size=1, max_size=8))
def test_lines_are_those_on_which_statements_begin(statements: list[tuple[str, str, str]]) -> None:
    text, expected = "", {}
    for number, (key, value, between) in enumerate(statements):
        text += between
        name = f"k{number}.{key}"
        expected[tuple(part.strip('"') for part in name.split("."))] = text.count("\n") + 1
        text += f"{name} = {value}\n"
    tomllib.loads(text)
    lines = TomlLines(text)
    for path, line in expected.items():
        assert lines.line_of(path) == line


def test_course_check_prints_what_holds_for_whom(course: Course) -> None:
    (course.root / NAME).write_text(GOOD)
    (course.submitted / "adda" / "day0_start").mkdir(parents=True)
    done = fxopt("course", "check")
    output = done.output
    assert done.exit_code == 0, output
    assert "Fri 27 Nov 2026 18:00 +0100" in output
    assert "10 % a day, up to 3 days" in output
    assert "not taken" in output
    assert "Tue 01 Dec 2026 12:00 +0100" in output
    assert "nobody called ada has handed anything in. Did you mean 'adda'?" in output
    output = fxopt("course", "check", "--json").output
    assert json.loads(output)["assignments"]["day1_compile_stack"]["deadline"] == "2026-11-27T17:00:00+00:00"


def test_course_check_refuses_with_every_mistake(course: Course) -> None:
    (course.root / NAME).write_text(BAD)
    done = fxopt("course", "check")
    assert done.exit_code == 2
    assert done.output.count(f"{NAME}:") == 13
