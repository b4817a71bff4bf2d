"""The glossary: one page, each term once, each linked from the lesson that shows it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from autograder.authoring.glossary import PAGE, GlossaryError, glossary_page, read_terms
from autograder.course.course import Course
from autograder.course.sources import sources
from autograder.course.task import UNITS

COURSE = Course(Path(__file__).parents[2])


def test_every_term_is_linked_from_its_lesson_and_every_link_leads_to_a_term() -> None:
    terms = read_terms(COURSE)
    linked = {
        source.stem: set(re.findall(rf"\]\(\.\./{PAGE}#([^)]+)\)", source.read_text())) for source in sources(COURSE)
    }
    for term in terms:
        assert term.anchor in linked[term.lesson], f"{term.lesson} does not link to {term.term!r}"
    assert set().union(*linked.values()) == {term.anchor for term in terms}


@pytest.mark.parametrize("unit", UNITS.values())
def test_every_day_defines_its_terms_in_sentences(unit: str) -> None:
    terms = [term for term in read_terms(COURSE) if term.unit == unit]
    assert len(terms) >= 3
    assert all(term.means.endswith(".") and len(term.means.split()) >= 6 for term in terms)


def test_headings_have_the_same_anchor_in_jupyterlab_and_on_github() -> None:
    headings = re.findall(r"^## (.*)$", glossary_page(COURSE), re.MULTILINE)
    assert [heading.replace(" ", "-") for heading in headings] == [term.anchor for term in read_terms(COURSE)]
    assert all(heading == heading.lower() for heading in headings)


def make_course(root: Path, **files: str) -> Course:
    for unit, text in files.items():
        folder = root / "solutions" / unit
        folder.mkdir(parents=True)
        (folder / "lesson.py").write_text("")
        (folder / "glossary.toml").write_text(text)
    return Course(root)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"day": "[node"}, "day/glossary.toml: "),
        ({"day": '[node]\nmeans = "x"'}, "'node' must have `means` and `lesson`"),
        ({"day": '[node]\nmeans = "x"\nlesson = "elsewhere"'}, "names the lesson 'elsewhere', which is not there"),
        (
            {"day1": '[node]\nmeans = "x"\nlesson = "lesson"', "day2": '[Node]\nmeans = "y"\nlesson = "lesson"'},
            "'Node' is defined in day1 already",
        ),
    ],
)
def test_malformed_files_are_refused(tmp_path: Path, files: dict[str, str], message: str) -> None:
    with pytest.raises(GlossaryError, match=re.escape(message)):
        read_terms(make_course(tmp_path, **files))
