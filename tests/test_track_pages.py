"""The pages at which a learner starts: their links lead somewhere, and their checklists can be read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from autograder.course.checklist import LINE, read_checklist
from autograder.course.tracks import START_PAGE, TRACKS, WEEK_1, Track
from autograder.course.workspace import PAGES

ROOT = Path(__file__).parent.parent

TRACK = pytest.mark.parametrize("track", TRACKS, ids=lambda track: track.name)


def text_of(track: Track) -> str:
    return (ROOT / track.page).read_text()


def headings_of(page: str) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", page, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def test_every_link_into_the_course_leads_to_a_page_and_every_page_is_linked() -> None:
    linked = {link for track in TRACKS for link in re.findall(r"\]\((curriculum/[^)]+)\)", text_of(track))}
    kinds = ("*.ipynb", "*.md")
    existing = {path.relative_to(ROOT).as_posix() for kind in kinds for path in (ROOT / "curriculum").rglob(kind)}
    assert linked == existing


def test_a_page_links_the_notebooks_of_its_own_units() -> None:
    for track in TRACKS:
        folders = {link.split("/")[1] for link in re.findall(r"\]\((curriculum/[^)]+/[^)]+)\)", text_of(track))}
        assert folders - {"capstone"} == {unit.folder for unit in track.units}


def test_the_start_page_leads_to_every_track_and_links_between_pages_hold() -> None:
    links = re.findall(r"\]\(([^)#]+\.md)(?:#([^)]+))?\)", (ROOT / START_PAGE).read_text())
    assert {track.page for track in TRACKS} <= {page for page, _ in links}
    for page in PAGES:
        links = re.findall(r"\]\((?!curriculum/)([^)#/:]+\.md)(?:#([^)]+))?\)", (ROOT / page).read_text())
        for target, anchor in links:
            assert (ROOT / target).is_file(), f"{page} links {target}"
            assert not anchor or anchor in headings_of((ROOT / target).read_text()), f"{page} links {target}#{anchor}"


@TRACK
def test_links_within_the_page_lead_to_its_headings(track: Track) -> None:
    page = text_of(track)
    targets = set(re.findall(r"\]\(#([^)]+)\)", page))
    assert len(targets) == len(re.findall(r"^### ", page, re.MULTILINE))
    assert targets <= headings_of(page)


@TRACK
def test_each_unit_that_is_not_there_says_so(track: Track) -> None:
    sections = re.split(r"^### ", text_of(track), flags=re.MULTILINE)[1:]
    for section in sections:
        section = section.split("\n## ")[0]
        has_notebooks = "](curriculum/" in section
        assert has_notebooks != ("not built yet" in section.lower()), section.splitlines()[0]
    for unit in track.units:
        assert sum(section.startswith(f"{unit.heading}:") for section in sections) == 1, unit.heading


@TRACK
def test_every_line_of_the_checklist_has_its_own_key(track: Track) -> None:
    items = read_checklist(ROOT, track)
    keys = [item.key for item in items]
    assert len(items) == text_of(track).count("- [ ]") == len(set(keys)) == len(LINE.findall(text_of(track))) >= 4


@TRACK
def test_the_times_of_the_schedule_agree_with_the_units(track: Track) -> None:
    page = text_of(track)
    hours = dict(re.findall(r"^\| \[(\d)\].*?\| (\d) \| ", page, re.MULTILINE))
    word = "Day" if track is WEEK_1 else "Unit"
    assert set(hours) == set(re.findall(rf"^### {word} (\d):", page, re.MULTILINE)) != set()
    for number, stated in hours.items():
        section = re.search(
            rf"^### {word} {number}:.*?\n\n\*(\d) hours(?:: ([\d.]+) for the lessons?, ([\d.]+))?", page, re.M | re.S
        )
        if section is None:
            pytest.fail(f"{word} {number} does not name its hours")
        assert section[1] == stated
        if section[2]:
            assert float(section[2]) + float(section[3]) == float(stated)


def test_the_start_page_adds_the_hours_up() -> None:
    page = (ROOT / START_PAGE).read_text()
    for track in TRACKS:
        total = sum(int(hours) for hours in re.findall(r"^\| \[\d\].*?\| (\d) \| ", text_of(track), re.MULTILINE))
        assert re.search(rf"^\| \[{track.name}\]\({track.page}\) .*\| {total} hours \|$", page, re.MULTILINE), total


def test_a_unit_belongs_to_one_track() -> None:
    names = [unit.name for track in TRACKS for unit in track.units]
    folders = [unit.folder for track in TRACKS for unit in track.units]
    assert len(names) == len(set(names))
    assert len(folders) == len(set(folders))
