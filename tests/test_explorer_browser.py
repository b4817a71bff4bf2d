"""A graph to walk through, in JupyterLab in a real browser: click, search, keyboard; and untrusted, without its script.

Set `FXOPT_SCREENSHOTS` to a folder to keep the pictures there.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab_server import TOKEN, LabServer
from playwright.sync_api import Page, expect, sync_playwright
from test_browser import ROOT, SLOW, SWITCHES, Learner, browser_path

from autograder.course.workspace import PAGES

expect.set_options(timeout=60_000.0)  # other tests run beside this one

pytestmark = pytest.mark.browser

CELL = """import torch
from fxopt_core.capture import capture
from fxopt_workbench.explorer import explore
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(5, 7), torch.nn.Linear(7, 3)

    def forward(self, x):
        return self.last(torch.relu(self.first(x)))

explore(capture(Net(), (torch.randn(2, 5),), "export"))
"""


def notebook(outputs: list[dict[str, object]]) -> dict[str, object]:
    cell = {"id": "graph", "cell_type": "code", "execution_count": None, "metadata": {}, "outputs": outputs}
    metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3 (fxopt)", "language": "python"}}
    return {"cells": [cell | {"source": CELL}], "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LabServer]:
    root, home = tmp_path / "course", tmp_path / "home"
    home.mkdir()
    shutil.copytree(ROOT / "curriculum", root / "curriculum", ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
    (root / "solutions").mkdir()
    for page in PAGES:
        shutil.copy(ROOT / page, root)
    with LabServer(root, home) as running:
        yield running


@pytest.fixture
def page() -> Iterator[Page]:
    switches = [*SWITCHES, "--no-sandbox"] if os.geteuid() == 0 else list(SWITCHES)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path(), args=switches)
        page = browser.new_page(viewport={"width": 1400, "height": 1000})
        page.set_default_timeout(60_000)
        yield page
        browser.close()


def test_a_learner_walks_through_a_graph(page: Page, server: LabServer, tmp_path: Path) -> None:
    pictures = Path(os.environ.get("FXOPT_SCREENSHOTS", tmp_path))
    learner = Learner(page, pictures)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    put = {"type": "notebook", "format": "json", "content": notebook([])}
    assert server.request("PUT", "/api/contents/graph.ipynb", put)[0] == 201
    page.goto(server.url(f"/lab/tree/graph.ipynb?token={TOKEN}"))
    cell = learner.cell("explore(")
    expect(page.locator("#jp-main-statusbar")).to_contain_text("| Idle", timeout=SLOW)
    learner.run(cell)
    details = cell.get_by_role("region", name="Details of the node")
    node = cell.get_by_role("button", name="linear_1")

    # A click shows what is known.
    node.click()
    about = ("linear_1", "aten.linear.default", "[2, 3]", "float32", "pathlast", "FLOPs84")
    for fact in (*about, "notebook cell:10: return self.last("):
        expect(details).to_contain_text(fact)
    learner.look("clicked")

    # The keyboard goes on from there, and B makes no new cell below, as it does in a notebook.
    cells = page.locator(".jp-CodeCell").count()
    page.keyboard.press("b")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    expect(details).to_contain_text("relu")
    expect(details).to_contain_text("[2, 7]")
    expect(page.locator(".jp-CodeCell")).to_have_count(cells)

    # Search tells how many there are, marks them, and Enter goes from one to the next.
    find = cell.get_by_role("searchbox")
    find.fill("aten.linear [2, 7]")
    expect(cell.get_by_text("1 of 9 nodes")).to_be_visible()
    find.press("Enter")
    expect(details.locator("dd").first).to_have_text("linear")
    learner.look("found")

    find.fill("convolution")
    find.press("Enter")
    expect(details).to_have_text("Nothing was found.")
    find.fill("aten.linear [2, 7]")

    # Zooming changes the size of the picture.
    def width() -> float:
        box = cell.locator(".fxopt-view svg").bounding_box()
        assert box is not None
        return box["width"]

    before = width()
    cell.get_by_role("button", name="Zoom in").click()
    assert width() == pytest.approx(1.25 * before, rel=0.01)

    # All of it is there as a table too, of which the search leaves what it found.
    cell.get_by_text("All nodes as a table").click()
    expect(cell.get_by_role("rowheader", name="linear", exact=True)).to_be_visible()
    expect(cell.get_by_role("rowheader", name="relu")).to_be_hidden()
    here = (f"http://127.0.0.1:{server.port}/", f"ws://127.0.0.1:{server.port}/", "data:", "blob:", "about:")
    assert [url for url in asked if not url.startswith(here)] == []

    # Saved, and opened by someone who does not trust it: the image and the table, no script.
    page.keyboard.press("ControlOrMeta+S")
    expect(page.locator(".jp-mod-dirty")).to_have_count(0)
    saved = server.get("/api/contents/graph.ipynb")["content"]
    (output,) = saved["cells"][0]["outputs"]
    put["content"] = notebook([output | {"execution_count": None}])
    assert json.dumps(put).count("<script>") == 1
    assert server.request("PUT", "/api/contents/untrusted.ipynb", put)[0] == 201
    page.goto(server.url(f"/lab/tree/untrusted.ipynb?token={TOKEN}&reset"))
    shown = page.locator(".jp-OutputArea")
    expect(shown.get_by_role("img", name="9 nodes")).to_be_visible(timeout=SLOW)
    expect(shown.get_by_role("searchbox")).to_have_count(0)
    shown.get_by_text("All nodes as a table").click()
    expect(shown.get_by_role("rowheader", name="relu")).to_be_visible()
    learner.look("untrusted")
