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
from autograder.course.course import Course
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


def lists_have_titles(page: Page, server: LabServer) -> None:
    """Units and notebooks have titles, and beside them the names that commands ask for; deadlines are the course's."""
    page.goto(server.url("/formgrader/gradebook"))
    rows = page.locator("#main-table tr")
    expect(rows).to_have_count(1)
    expect(rows.locator("td.name a")).to_have_text("Day 1: compile stack")
    expect(rows.locator("td.name small")).to_have_text(DAY)
    expect(rows.locator("td.duedate")).to_have_text("Fri 29 Nov 2030 18:00 +0100")
    # What searches the list has read the title, too.
    page.get_by_label("Search:").fill("compile stack")
    expect(rows.locator("td.name a")).to_be_visible()
    rows.locator("td.name a").click()
    expect(page.locator(".breadcrumb .active")).to_have_text("Day 1: compile stack")
    expect(rows.locator("td.name a")).to_have_text("Exercise 1: torch.compile basics")
    page.goto(server.url("/formgrader/manage_students/ada"))
    expect(rows.locator("td.name a")).to_have_text("Day 1: compile stack")
    # nbgrader would build the notebooks of `curriculum/` in its own way, over ours.
    page.goto(server.url("/formgrader/manage_assignments"))
    page.locator(".assign a").click()
    expect(page.locator(".modal", has_text="make notebooks")).to_be_visible()


def what_is_not_there_is_said(page: Page, server: LabServer, course: Course, submission: str) -> None:
    """An address at which nothing is leads on, by a page like the others."""
    missing = course.records / "autograded" / "ada" / DAY / f"{TASK.notebook}.ipynb"
    content = missing.read_bytes()
    missing.unlink()
    said = {
        "/nothing": "Nothing is at this address",
        "/submissions/nosuch/": "Nothing is at this address",
        "/submissions/nosuch/next": "Nothing is at this address",
        f"/submissions/{submission}/": f"fxopt grade --student ada --unit {DAY} --force",
        "/gradebook/<b>nosuch": "There is no assignment <b>nosuch.",
        f"/gradebook/{DAY}/nosuch": f"There is no graded notebook nosuch in {DAY}.",
        "/manage_submissions/nosuch": "There is no assignment nosuch.",
        "/manage_students/nosuch": "There is no student nosuch",
    }
    for address, told in said.items():
        answer = page.goto(server.url(f"/formgrader{address}"))
        assert answer is not None
        assert answer.status == 404, address
        expect(page.locator("#error-404")).to_contain_text(told)
        expect(page.locator("#error-404").get_by_role("link", name="Manual Grading")).to_be_visible()
    missing.write_bytes(content)
    assert "Traceback" not in server.log()


@pytest.mark.browser
def test_a_person_fills_a_rubric_and_the_learner_reads_it(
    graded: SmallCourse, page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    course = graded.course
    deadline = f"[assignments.{DAY}]\ndeadline = 2030-11-29T18:00:00+01:00\n"
    (course.root / "course.toml").write_text(f'timezone = "Europe/Berlin"\n{deadline}')
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

        lists_have_titles(page, server)
        what_is_not_there_is_said(page, server, course, submission)

        page.goto(server.url(f"/formgrader/submissions/{submission}/"))
        expect(page.locator(".panel-title")).to_contain_text("Exercise 1: torch.compile basics")
        expect(page.locator(".nbgrader-label", has_text=TASK.title)).to_have_count(1)
        fields = page.locator(".rubric-points")
        expect(fields).to_have_count(2)
        expect(page.locator(".rubric")).to_contain_text("names the mechanism </script>")
        # Whose points there are: nobody has looked at the words yet, the judge at the rest.
        said = page.locator(".nbgrader_cell", has=page.locator("input.score#deep_dive")).locator(".given-by")
        expect(said).to_have_text("waits for you")
        expect(page.locator(".given-by", has_text="given by the judge")).not_to_have_count(0)
        fields.nth(0).fill("4")
        fields.nth(0).blur()
        expect(page.locator(".rubric [role=status]")).to_contain_text("1 of 2 lines")
        fields.nth(1).fill("99")
        fields.nth(1).blur()
        expect(page.locator("input.score#deep_dive")).to_have_value("19")
        expect(fields.nth(1)).to_have_value("15")
        expect(said).to_have_text("given by a person")
        page.screenshot(path=Path(os.environ.get("FXOPT_SCREENSHOTS", tmp_path)) / "rubric.png", full_page=True)

        def score() -> bool:
            with Gradebook(course.database, "fxopt") as book:
                return bool(book.find_grade("deep_dive", TASK.notebook, DAY, "ada").manual_score == 19.0)

        until(score)
        shown = course.workspace / "feedback" / f"{TASK.notebook}.html"
        until(lambda: shown.is_file() and "measures it: 15 of 15" in shown.read_text())
        text = shown.read_text()
        assert "(19 of 20 points, given by a person)" in text
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
