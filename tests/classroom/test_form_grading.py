"""A person grades in a browser: fields for the lines of a rubric, and the learner sees the points at once."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from classroom import DAY, RIGHT, TASK, cell
from lab_server import TOKEN, LabServer
from nbgrader.api import Gradebook
from playwright.sync_api import Browser, Page, expect, sync_playwright
from small_course import SmallCourse, small
from test_browser import SWITCHES, browser_path

from autograder.authoring.release import release
from autograder.classroom import feedback
from autograder.course.progress import latest
from autograder.course.task import WrittenTask
from autograder.lab.lab import prepare
from autograder.records import gradebook

__all__ = ["small"]

QUESTION = """
# %% [markdown] nbgrader={"grade": false, "grade_id": "deep_dive-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## A deep dive

# %% [markdown] nbgrader={"grade": true, "grade_id": "deep_dive", "locked": false, "points": 20, "schema_version": 3, "solution": true, "task": false} fxopt={"rubric": {"names the mechanism </script>": 5, "measures it": 15}}
# The answer of the solution.
"""  # noqa: E501 (the metadata of a cell stands in one line)


@pytest.fixture
def graded(small: SmallCourse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SmallCourse:
    """A submission with an answer in words, graded as far as the judge can."""
    source = small.course.solutions / DAY / f"{TASK.notebook}.py"
    source.write_text(source.read_text() + QUESTION)
    for name, path in release(small.course, tmp_path / "built"):
        (small.course.curriculum / name).write_bytes(path.read_bytes())
    notebook = small.room.answered(RIGHT)
    cell(notebook, "deep_dive").source = "Guards are checked before each call."
    notebook.cells.append(nbformat.v4.new_code_cell("measure()"))
    small.room.place(json.dumps(notebook).encode(), "ada")
    [found] = gradebook.grade(small.course)
    assert found.failure == ""
    return small


@pytest.fixture
def page() -> Iterator[Page]:
    switches = [*SWITCHES, "--no-sandbox"] if os.geteuid() == 0 else list(SWITCHES)
    with sync_playwright() as playwright:
        browser: Browser = playwright.chromium.launch(executable_path=browser_path(), args=switches)
        made = browser.new_page(viewport={"width": 1200, "height": 1000})
        made.set_default_timeout(60_000)
        yield made
        browser.close()


def until(found: object, *, seconds: float = 60) -> None:
    """Wait until a function gives something true."""
    end = time.monotonic() + seconds
    while not found():  # type: ignore[operator]
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.mark.browser
def test_a_person_fills_a_rubric_and_the_learner_reads_it(
    graded: SmallCourse, page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    course = graded.course
    with Gradebook(course.database, "fxopt") as book:
        submission = book.find_submission_notebook(TASK.notebook, DAY, "ada").id
    with LabServer(course.root, home, "--instructor", environment={"FXOPT_STUDENT": "ada"}) as server:
        # Jupyter appends `?token=…` to the address that it prints and opens: that has to stay an address.
        assert "?" not in prepare(course, 8888, instructor=True).page
        page.goto(server.url(f"/instructor?token={TOKEN}"))
        expect(page).to_have_url(re.compile(r"/lab"))
        expect(page.locator("iframe[src*=formgrader]")).to_be_visible(timeout=120_000)

        broken: list[str] = []
        page.on("pageerror", lambda error: broken.append(str(error)))
        # Who goes from one submission to the next comes to the same place of it, and grades by keyboard.
        page.goto(server.url(f"/formgrader/submissions/{submission}/?index=1"))
        places = page.locator(".tabbable")
        expect(places.nth(1)).to_be_focused()
        page.keyboard.press("Tab")
        expect(places.nth(2)).to_be_focused()
        assert broken == []

        page.goto(server.url(f"/formgrader/submissions/{submission}/"))
        fields = page.locator(".rubric-points")
        expect(fields).to_have_count(2)
        expect(page.locator(".rubric")).to_contain_text("names the mechanism </script>")
        fields.nth(0).fill("4")
        fields.nth(0).blur()
        expect(page.locator(".rubric [role=status]")).to_contain_text("1 of 2 lines")
        fields.nth(1).fill("99")
        fields.nth(1).blur()
        expect(page.locator("input.score#deep_dive")).to_have_value("19")
        expect(fields.nth(1)).to_have_value("15")
        page.screenshot(path=Path(os.environ.get("FXOPT_SCREENSHOTS", tmp_path)) / "rubric.png", full_page=True)

        def score() -> bool:
            with Gradebook(course.database, "fxopt") as book:
                return bool(book.find_grade("deep_dive", TASK.notebook, DAY, "ada").manual_score == 19.0)

        until(score)
        shown = course.workspace / "feedback" / f"{TASK.notebook}.html"
        until(lambda: shown.is_file() and "measures it: 15 of 15" in shown.read_text())
        text = shown.read_text()
        assert "(19.0 of 20.0 points)" in text
        assert re.search(r"names the mechanism .*: 4 of 5", text)
        # Opened again, the lines are as they were left.
        page.reload()
        expect(page.locator(".rubric-points").nth(0)).to_have_value("4")
        expect(page.locator(".rubric-points").nth(1)).to_have_value("15")
    done = graded.run("progress", FXOPT_STUDENT="ada")
    assert "19/20" in done.stdout
    # And it ticks the checklist, as soon as the learner looks.
    question = WrittenTask("deep_dive", TASK.unit, TASK.notebook, "A deep dive")
    monkeypatch.setattr(feedback, "written_tasks", lambda: (question,))
    monkeypatch.setenv("FXOPT_STUDENT", "ada")
    feedback.note_written_points(course)
    assert latest(course.workspace)["grade", "deep_dive"] == "passed"
