"""The dashboard: what it counts, who may read it, and what a browser makes of it, also of hostile names and answers."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import nbformat
import pytest
from classroom import cell
from made_up_class import DAY, NOTEBOOK, make_class, record
from nbgrader.api import Gradebook
from playwright.sync_api import Browser, Page, expect
from test_browser import chromium

from autograder.classroom.dashboard.data import RESULTS, Reader, gate_matrix, mutation_matrix
from autograder.classroom.dashboard.page import in_words, render
from autograder.classroom.dashboard.server import DashboardServer
from autograder.classroom.generate import Generated
from autograder.course.course import Course
from autograder.course.reading import read_notebook
from autograder.records.lock import course_lock, is_graded_now

RUN = "window.ran=1;document.title='taken';fetch('http://outside.example/')"
SCRIPT = f'</script><script>{RUN}</script><img src=x onerror="{RUN}"><svg onload="{RUN}">\'"`</pre></code>'

GATE = {
    "ok": False,
    "matrix": {"record_graphs": {"wrong": {"ok": 4, "tried": 5}}, "walk_graph": {"wrong": {"ok": 5, "tried": 5}}},
}
MUTATION = [
    {"task": "record_graphs", "counts": {"mutants": 40, "killed": 38, "equivalent": 1, "survivors": 1}, "rows": []},
    {"task": "walk_graph", "mutants": 9, "killed": 9, "equivalent": 0, "survivors": 0},
]


@pytest.fixture(scope="module")
def made(fresh_course: Course, tmp_path_factory: pytest.TempPathFactory) -> tuple[Course, list[Generated]]:
    """A class of which 12 of 16 are graded. One of them has a script for a name and another one in an answer."""
    course = Course(shutil.copytree(fresh_course.root, tmp_path_factory.mktemp("dashboard") / "course"))
    students = make_class(course, 16, 0)
    with Gradebook(course.database, "fxopt") as book:
        book.update_or_create_student(students[0].student, first_name=SCRIPT, last_name=SCRIPT, email=SCRIPT)
    # The only one with this misconception, so that this is the answer that is shown.
    students[0].answers["record_graphs"] = "wrong/keeps_the_last"
    for other in students[1:]:
        if other.answers["record_graphs"] == "wrong/keeps_the_last":
            other.answers["record_graphs"] = "blank"
    path = course.submitted / students[0].student / DAY / f"{NOTEBOOK}.ipynb"
    notebook = read_notebook(path)
    cell(notebook, "record_graphs-answer").source = f"# {SCRIPT}\n" + "x = 1\n" * 3
    nbformat.write(notebook, path)
    record(course, students[:12])
    (course.records / "gate.json").write_text(json.dumps(GATE))
    (course.records / "mutate.json").write_text(json.dumps(MUTATION))
    return course, students


def reader(course: Course, now: datetime | None = None) -> Reader:
    files = course.records / "gate.json", course.records / "mutate.json"
    return Reader(course, *files) if now is None else Reader(course, *files, lambda: now)


def test_it_counts_what_was_made(made: tuple[Course, list[Generated]]) -> None:
    course, students = made
    with course_lock(course):
        snapshot = reader(course).snapshot()
    run = snapshot.run
    assert (run.handed_in, run.done, run.waiting, run.refused, run.running) == (16, 12, 4, 0, True)
    # A verdict every four seconds: 15 a minute, so four more take 16 seconds.
    assert run.a_minute == pytest.approx(15, rel=0.3)
    assert run.left is not None
    assert run.left.total_seconds() == pytest.approx(16, rel=0.3)
    [assignment] = snapshot.assignments
    assert assignment.states["graded"] == 12
    assert assignment.states["not graded yet"] == 4
    graded = students[:12]
    for found in assignment.tasks:
        kinds = [each.answers[found.task] for each in graded]
        right = sum(kind == "reference" or kind.startswith("right/") for kind in kinds)
        assert (found.counts["passed"], found.counts["not written"], found.of) == (right, kinds.count("blank"), 12)
        assert set(found.counts) == set(RESULTS)
    [distribution] = assignment.distributions
    assert sum(count for *_, count in distribution.bins) == 12
    shown = next(m for m in assignment.misconceptions if m.students == (students[0].student,) and m.shown)
    assert SCRIPT in shown.answer
    # Nobody grades any more: no time left is told.
    later = reader(course).snapshot().run
    assert (later.running, later.left, later.waiting) == (False, None, 4)


def test_a_run_that_has_just_begun_has_no_speed_yet(made: tuple[Course, list[Generated]]) -> None:
    course, _ = made
    with course_lock(course):
        run = reader(course, datetime.now(UTC) + timedelta(hours=1)).snapshot().run
    assert (run.running, run.a_minute, run.left) == (True, None, None)


def test_a_grader_that_was_killed_grades_no_more(
    made: tuple[Course, list[Generated]], monkeypatch: pytest.MonkeyPatch
) -> None:
    course, _ = made
    note = course.records / "grading.lock"
    with course_lock(course):
        left_behind = json.loads(note.read_text())
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    for holder in (
        left_behind | {"process": ended.pid},
        left_behind | {"since": "2001-01-01 00:00:00"},  # the number belongs to a younger process now
        left_behind | {"since": "yesterday"},
        {"machine": left_behind["machine"]},
    ):
        note.write_text(json.dumps(holder))
        assert is_graded_now(course) is False, holder
    note.write_text(json.dumps(left_behind | {"machine": "another"}))
    assert is_graded_now(course) is None
    assert reader(course).snapshot().run.running  # its verdicts came lately
    later = reader(course, datetime.now(UTC) + timedelta(hours=1)).snapshot().run
    assert not later.running
    note.write_text("")
    assert is_graded_now(course) is False
    # A gradebook on a server may be filled from another machine, whose notes are not here.
    monkeypatch.setenv("FXOPT_DATABASE", "postgresql+psycopg://class@localhost/gradebook")
    assert is_graded_now(Course(course.root)) is None


def test_a_run_that_slows_down_takes_longer(made: tuple[Course, list[Generated]]) -> None:
    course, _ = made
    with course_lock(course):
        soon, late = (reader(course, datetime.now(UTC) + timedelta(minutes=m)).snapshot().run for m in (0, 5))
    assert soon.left is not None
    assert late.left is not None
    assert late.left > 3 * soon.left


def test_the_matrices_say_what_is_off_and_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "gate.json"
    assert "`fxopt gate --json" in gate_matrix(path).problem
    path.write_text(json.dumps(GATE))
    assert gate_matrix(path).rows == (("record_graphs", ("4/5",), False), ("walk_graph", ("5/5",), True))
    for text in ("{", "[]", '{"matrix": {"a": 1}}', "\x00"):
        path.write_text(text)
        assert "run it again" in gate_matrix(path).problem, text
    path.write_text(json.dumps(MUTATION))
    assert [row[2] for row in mutation_matrix(path).rows] == [False, True]
    for text in ("{}", '[{"task": 1}]', '[{"task": "a", "counts": 3}]', "[1]"):
        path.write_text(text)
        assert "run it again" in mutation_matrix(path).problem, text


def test_times_are_told_for_people() -> None:
    said = {0.2: "1 second", 40: "40 seconds", 150: "2 minutes", 5400: "1 hour 30 minutes", 7200: "2 hours"}
    assert {seconds: in_words(timedelta(seconds=seconds)) for seconds in said} == said


@pytest.fixture
def server(made: tuple[Course, list[Generated]]) -> Iterator[DashboardServer]:
    with DashboardServer(reader(made[0]).snapshot) as running:
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def ask(server: DashboardServer, path: str, method: str = "GET", **headers: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    answer.read()
    return answer


def test_only_who_knows_the_address_reads_it_and_nobody_writes(server: DashboardServer) -> None:
    assert server.server_address[0] == "127.0.0.1"
    token = server.token
    good = ask(server, f"/{token}/")
    assert good.status == 200
    policy = good.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert (good.headers["Cache-Control"], good.headers["Referrer-Policy"]) == ("no-store", "no-referrer")
    for path in ("/", f"/{token}", f"/{token[:-1]}/", f"/{token}x/", "/style.css", f"/?token={token}", "/%C3%B6/"):
        assert ask(server, path).status == 404, path
    for name in ("../data.py", "..%2fdata.py", "page.py", "page.html.j2", "/etc/passwd", "style.css?x"):
        assert ask(server, f"/{token}/{name}").status == 404, name
    for host in ("evil.example", f"evil.example:{server.port}", "127.0.0.1", ""):
        assert ask(server, f"/{token}/", Host=host).status == 421, host
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert ask(server, f"/{token}/", method).status == 501, method
    assert ask(server, f"/{token}/style.css").status == 200


def test_what_cannot_be_read_is_said_and_the_server_goes_on(server: DashboardServer, made: tuple[Course, list]) -> None:
    rules = made[0].root / "course.toml"
    rules.write_text("late_day = 1")
    try:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        connection.request("GET", f"/{server.token}/")
        answer = connection.getresponse()
        assert answer.status == 503
        assert "late_day" in answer.read().decode()
    finally:
        rules.unlink()
    assert ask(server, f"/{server.token}/").status == 200


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as launched:
        yield launched


def opened(browser: Browser, server: DashboardServer, scheme: str = "light") -> tuple[Page, list[str], list[str]]:
    """A page, the addresses that it asks for, and what its console says."""
    page = browser.new_context(color_scheme=scheme, viewport={"width": 1000, "height": 900}).new_page()  # type: ignore[arg-type]
    page.set_default_timeout(60_000)
    asked: list[str] = []
    said: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(server.address)
    return page, asked, said


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_browser_shows_the_class(browser: Browser, server: DashboardServer, scheme: str, tmp_path: Path) -> None:
    page, asked, said = opened(browser, server, scheme)
    expect(page.get_by_role("heading", name="Day 1: compile stack")).to_be_visible()
    expect(page.locator("#told")).to_contain_text("12 of 16 graded, 4 wait")
    # Every picture has its twin, and is told to those who do not see it.
    pictures = page.locator("svg.chart")
    assert pictures.count() == page.locator("figure > details table").count() == 2
    for place in range(pictures.count()):
        assert pictures.nth(place).locator("desc").text_content()
    colours = page.evaluate("[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]")
    light = [sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in colours]
    assert (light[0] > light[1]) == (scheme == "light")
    assert min(abs(light[0] - light[1]), 1000) > 450
    # Bars are painted, and by the colours of the scheme: none is left black on black.
    fills = set(page.eval_on_selector_all(".chart .part", "parts => parts.map(part => getComputedStyle(part).fill)"))
    assert len(fills) >= 3
    assert not {"rgb(0, 0, 0)", "none"} & fills
    # By keyboard alone: the first stop skips the head, and a misconception unfolds.
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the class")).to_be_focused()
    summary = page.locator(".misconception summary").first
    summary.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".misconception").first).to_have_attribute("open", "")
    page.screenshot(
        path=Path(os.environ.get("FXOPT_SCREENSHOTS", tmp_path)) / f"dashboard_{scheme}.png", full_page=True
    )
    assert said == []
    assert all(address.startswith(server.address) for address in asked)


@pytest.mark.browser
def test_what_is_new_appears_by_itself(
    browser: Browser, server: DashboardServer, made: tuple[Course, list[Generated]]
) -> None:
    course, students = made
    page, asked, said = opened(browser, server)
    expect(page.locator("#told")).to_contain_text("12 of 16 graded")
    page.locator(".misconception summary").first.focus()
    page.keyboard.press("Enter")
    record(course, students[12:])
    expect(page.locator("#told")).to_contain_text("16 of 16 graded")
    expect(page.locator(".states")).to_contain_text("16 graded")
    # What was unfolded and focused still is, and those who listen are told.
    expect(page.locator(".misconception").first).to_have_attribute("open", "")
    expect(page.locator(".misconception summary").first).to_be_focused()
    expect(page.locator("#announce")).to_contain_text("16 of 16 graded")
    assert said == []
    assert all(address.startswith(server.address) for address in asked)


@pytest.mark.browser
def test_scripts_in_names_and_answers_do_nothing(
    browser: Browser, server: DashboardServer, made: tuple[Course, list[Generated]]
) -> None:
    page, asked, said = opened(browser, server)
    for details in page.locator("details").all():
        details.evaluate("each => each.open = true")
    expect(page.locator("pre", has_text="x = 1").first).to_contain_text(SCRIPT[:40])
    assert page.content().count("&lt;script&gt;") >= 2
    assert page.locator("main script, main img, main [onload], main [onerror], main iframe").count() == 0
    page.wait_for_timeout(300)
    assert page.evaluate("window.ran") is None
    assert page.title() == "fxopt: the class"
    assert said == []
    assert all(address.startswith(server.address) for address in asked)
    # And were it not escaped, the policy would hold.
    page.evaluate("html => document.getElementById('main').insertAdjacentHTML('beforeend', html)", SCRIPT)
    page.wait_for_timeout(300)
    assert page.evaluate("window.ran") is None
    assert any("Content Security Policy" in line for line in said)


def test_every_text_is_escaped_in_every_template(made: tuple[Course, list[Generated]]) -> None:
    snapshot = reader(made[0]).snapshot()
    page = render(snapshot)
    assert "<script>window" not in page
    assert "onerror=&#34;" in page
    assert page.count("<script") == 1
