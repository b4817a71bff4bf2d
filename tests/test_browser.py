"""Day 1 as a new learner meets it: in a real browser, from the table of contents to the feedback page.

Set `FXOPT_SCREENSHOTS` to a folder to keep the pictures there; otherwise they lie in pytest's temporary folder.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest
from lab_server import TOKEN, LabServer
from playwright.sync_api import Browser, Locator, Page, Playwright, expect, sync_playwright

from autograder.course.workspace import PAGES
from autograder.exercises.day1.record_graphs import judge

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parent.parent
EXERCISE = "ex_01_torch_compile_basics"
ANSWERS = ROOT / "autograder" / "exercises" / "day1" / "record_graphs"
WRONG = ANSWERS / "wrong" / "keeps_the_last.py"
RIGHT = ANSWERS / "right" / "inner_function.py"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MAC_BROWSERS = (
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)
SWITCHES = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
SLOW = 180_000.0
"""Milliseconds to wait for what imports torch, compiles or grades."""

expect.set_options(timeout=60_000.0)  # other tests run beside this one


def browser_path() -> str:
    """The browser to drive; without one the test fails and says what to install."""
    for name in BROWSERS:
        if found := shutil.which(name):
            return found
    for path in MAC_BROWSERS:
        if Path(path).exists():
            return path
    pytest.fail(
        "no Chromium or Google Chrome was found. `make setup` installs it on Debian as root; elsewhere: "
        "sudo apt-get install chromium (Debian), sudo snap install chromium (Ubuntu), "
        "brew install --cask chromium (macOS)"
    )


@pytest.fixture(scope="module")
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as running:
        yield running


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LabServer]:
    root, home = tmp_path / "course", tmp_path / "home"
    home.mkdir()
    for name in ("curriculum", "solutions"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints"))
    for page in PAGES:
        shutil.copy(ROOT / page, root)
    with LabServer(root, home) as running:
        yield running
    assert not list(home.glob(".jupyter")), "the user's Jupyter configuration was written to"
    assert not list(home.glob(".ipython")), "the user's IPython configuration was written to"


class Learner:
    """What a person does in JupyterLab, and what they see."""

    def __init__(self, page: Page, pictures: Path) -> None:
        self.page = page
        self._pictures = pictures
        self._count = 0

    def look(self, name: str) -> None:
        """Keep a picture of the window."""
        self._count += 1
        self.page.screenshot(path=self._pictures / f"{self._count:02}_{name}.png")

    def cell(self, text: str) -> Locator:
        """The one code cell whose editor shows `text`."""
        return self.page.locator(".jp-Notebook .jp-CodeCell").filter(
            has=self.page.locator(".jp-InputArea-editor", has_text=text)
        )

    def write(self, cell: Locator, source: str) -> None:
        """Put `source` in place of what stands in a cell."""
        cell.locator(".cm-content").click()
        self.page.keyboard.press("ControlOrMeta+A")
        self.page.keyboard.insert_text(source)

    def run(self, cell: Locator) -> None:
        """Run a cell and wait until it has ended."""
        cell.locator(".cm-content").click()
        self.page.keyboard.press("Shift+Enter")
        self.wait_until_idle(cell)

    def run_all(self) -> None:
        """Menu Run, Run All Cells."""
        self.page.get_by_role("menuitem", name="Run", exact=True).click()
        self.page.get_by_role("menuitem", name="Run All Cells", exact=True).click()

    def wait_until_idle(self, cell: Locator) -> None:
        """Wait until a cell has a number instead of a star."""
        expect(cell.locator(".jp-InputArea-prompt")).to_have_text(re.compile(r"\[\d+\]"), timeout=SLOW)

    def validate(self) -> Locator:
        """Press Validate; the message of the dialog that appears."""
        self.page.locator(".validate-button").get_by_text("Validate").click()
        message = self.page.locator("#validation-message")
        expect(message).to_be_visible(timeout=SLOW)
        return message

    def close_dialog(self) -> None:
        self.page.locator(".jp-Dialog").get_by_role("button", name="OK").click()
        expect(self.page.locator(".jp-Dialog")).to_have_count(0)


def source_of(answer: Path) -> str:
    """An answer without the docstring that describes it."""
    return answer.read_text().split('"""', 2)[2].strip()


def message_of(answer: Path) -> str:
    """The message that a wrong answer must trigger."""
    return judge.MISCONCEPTIONS[answer.read_text().split('"""', 2)[1].splitlines()[0].strip()]


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser, closed at the end; without its own sandbox for root, who may not have one."""
    switches = [*SWITCHES, "--no-sandbox"] if os.geteuid() == 0 else list(SWITCHES)
    with sync_playwright() as running:
        launched = running.chromium.launch(executable_path=browser_path(), args=switches)
        yield launched
        launched.close()


def test_a_learner_goes_from_week_1_to_feedback(playwright: Playwright, server: LabServer, tmp_path: Path) -> None:
    pictures = Path(os.environ.get("FXOPT_SCREENSHOTS", tmp_path / "pictures"))
    pictures.mkdir(parents=True, exist_ok=True)
    switches = [*SWITCHES, "--no-sandbox"] if os.geteuid() == 0 else list(SWITCHES)
    browser = playwright.chromium.launch(executable_path=browser_path(), args=switches)
    context = browser.new_context(viewport={"width": 1400, "height": 1000})
    page = context.new_page()
    page.set_default_timeout(60_000)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    learner = Learner(page, pictures)
    try:
        go_through_day_1(learner, server)
    except BaseException:
        learner.look("failure")
        print(server.log())
        raise
    finally:
        context.close()
        browser.close()
    here = (f"http://127.0.0.1:{server.port}/", f"ws://127.0.0.1:{server.port}/", "data:", "blob:", "about:")
    assert asked
    assert [url for url in asked if not url.startswith(here)] == [], "the page asked another machine"


def go_through_day_1(learner: Learner, server: LabServer) -> None:
    page = learner.page

    # The start page opens as a page, not as source, and leads to Week 1.
    page.goto(server.url(f"/lab/tree/Start.md?token={TOKEN}"))
    preview = page.locator(".jp-MarkdownViewer")
    learner.look("start")
    preview.get_by_role("link", name="Week 1", exact=True).first.click()
    preview = page.locator(".jp-MarkdownViewer").filter(has=page.get_by_role("heading", name="Schedule"))
    expect(preview.get_by_role("heading", name="Week 1: the PyTorch 2 compiler stack")).to_be_visible()
    learner.look("week_1")

    # A link of the schedule leads to the section of that day.
    section = preview.get_by_role("heading", name="Day 4: Hugging Face models")
    expect(section).not_to_be_in_viewport()
    preview.get_by_role("link", name="4", exact=True).click()
    expect(section).to_be_in_viewport()

    # Its link leads to the exercise.
    preview.get_by_role("link", name="Day 1, exercise").click()
    expect(page.get_by_role("heading", name="Exercise 1: torch.compile basics")).to_be_visible()
    answer, check = learner.cell("class GraphRecorder"), learner.cell("check.day1.record_graphs(")
    expect(page.locator("#jp-main-statusbar")).to_contain_text("Python 3 (fxopt) | Idle", timeout=SLOW)
    learner.run_all()
    learner.wait_until_idle(check)
    expect(check.locator(".jp-OutputArea-output").first).to_contain_text("not yet written")
    learner.look("unanswered")

    # Validate says what is not yet written, and calls nothing failed.
    message = learner.validate()
    expect(message).to_contain_text("not yet written")
    expect(message).not_to_contain_text("Traceback")
    expect(message.get_by_text("The following cell failed")).to_be_hidden()
    learner.look("validate_unanswered")
    learner.close_dialog()

    # A wrong answer is told what is wrong with it, by the check and by Validate.
    learner.write(answer, source_of(WRONG))
    learner.run(answer)
    learner.run(check)
    expect(check.locator(".jp-OutputArea")).to_contain_text(message_of(WRONG))
    expect(check.locator(".jp-OutputArea")).to_contain_text("not right yet")
    exhibit = check.locator("details").first
    exhibit.locator("summary").first.click()
    expect(exhibit.get_by_role("img")).to_be_visible()
    exhibit.get_by_text("The same as text").click()
    expect(exhibit.locator("pre")).to_be_visible()
    exhibit.scroll_into_view_if_needed()
    learner.look("wrong")
    message = learner.validate()
    expect(message).to_contain_text(message_of(WRONG))
    learner.look("validate_wrong")
    learner.close_dialog()

    # The right answer turns the check.
    learner.write(answer, source_of(RIGHT))
    learner.run(answer)
    learner.run(check)
    expect(check.locator(".jp-OutputArea")).to_contain_text("✔ passed")
    expect(check.locator(".jp-OutputArea")).not_to_contain_text("not right yet")
    learner.look("right")
    message = learner.validate()
    expect(message.locator('[data-task="record_graphs"]')).to_contain_text("✔ passed")
    learner.look("validate_right")
    learner.close_dialog()

    # Submitting before saving is refused or done on what was saved; saved, it gives points and the feedback's place.
    submit = learner.cell("submit(")
    learner.write(submit, 'submit("ex_01")')
    page.keyboard.press("ControlOrMeta+S")
    learner.run(submit)
    told = submit.locator(".jp-OutputArea")
    expect(told).to_contain_text(f"Submitted {EXERCISE}")
    expect(told).to_contain_text(re.compile(r"Record every captured graph: passed, (\d+)/\1"))
    expect(told).to_contain_text(f"feedback/{EXERCISE}.html")
    expect(told).not_to_contain_text("Submissions")  # the bar of `fxopt grade` in a terminal, once for each moment
    learner.look("submitted")
    points = re.search(rf"{EXERCISE}: (\d+) of (\d+) points", told.inner_text())
    assert points is not None

    # The feedback lies where the learner was told, and shows the points.
    page.locator(".jp-FileBrowser .jp-BreadCrumbs-home").click()
    page.locator(".jp-DirListing-item", has_text="feedback").dblclick()
    page.locator(".jp-DirListing-item", has_text=f"{EXERCISE}.html").dblclick()
    feedback = page.frame_locator(".jp-HTMLViewer iframe").locator("body")
    expect(feedback).to_contain_text(f"Score: {float(points[1])} / {float(points[2])}")
    for case in judge.hidden_cases(Random(0)):
        expect(feedback).not_to_contain_text(case.name)
    learner.look("feedback")
