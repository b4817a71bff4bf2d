"""The page at which a learner starts: its links lead somewhere, and its checklist can be read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from autograder.course.checklist import LINE, read_checklist

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "Week1.md").read_text()


def test_every_link_into_the_course_leads_to_a_page_and_every_page_is_linked() -> None:
    linked = set(re.findall(r"\]\((curriculum/[^)]+)\)", PAGE))
    kinds = ("*.ipynb", "*.md")
    existing = {path.relative_to(ROOT).as_posix() for kind in kinds for path in (ROOT / "curriculum").rglob(kind)}
    assert linked == existing


def test_links_within_the_page_lead_to_its_headings() -> None:
    headings = re.findall(r"^#+ (.*)$", PAGE, re.MULTILINE)
    anchors = {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}
    targets = set(re.findall(r"\]\(#([^)]+)\)", PAGE))
    assert len(targets) == 7
    assert targets <= anchors


def test_each_day_that_is_not_there_says_so() -> None:
    for section in re.split(r"^### ", PAGE, flags=re.MULTILINE)[1:]:
        section = section.split("\n## ")[0]
        has_notebooks = "](curriculum/" in section
        assert has_notebooks != ("not built yet" in section.lower()), section.splitlines()[0]


def test_every_line_of_the_checklist_has_its_own_key() -> None:
    items = read_checklist(ROOT / "Week1.md")
    keys = [item.key for item in items]
    assert len(items) == PAGE.count("- [ ]") == len(set(keys))
    assert "extract-graphs" in keys
    assert len(LINE.findall(PAGE)) == 6


def test_the_times_of_the_schedule_agree_with_the_days() -> None:
    hours = dict(re.findall(r"^\| \[(\d)\].*?\| (\d) \| ", PAGE, re.MULTILINE))
    assert set(hours) == set("012345")
    for day, number in hours.items():
        section = re.search(
            rf"^### Day {day}:.*?\n\n\*(\d) hours(?:: ([\d.]+) for the lessons?, ([\d.]+))?", PAGE, re.M | re.S
        )
        if section is None:
            pytest.fail(f"day {day} does not name its hours")
        assert section[1] == number
        if section[2]:
            assert float(section[2]) + float(section[3]) == float(number)
