"""The course as a website: built once from the notebooks that are committed, then read as files and in a browser."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import nbformat
import pytest
from bs4 import BeautifulSoup
from playwright.sync_api import Browser, expect
from test_browser import ROOT, chromium

from autograder.authoring.glossary import read_terms
from autograder.course.course import Course, find_course
from autograder.course.tracks import TRACKS
from autograder.website.badges import badges_for
from autograder.website.building import OURS, build_website
from autograder.website.flowcharts import FlowchartError, read_flowchart, with_drawn_flowcharts
from autograder.website.reference import PACKAGES, as_restructured_text, words_of
from autograder.website.sources import Chapter, WebsiteError

UNITS = {unit.folder for track in TRACKS for unit in track.units} | {"capstone"}


@pytest.fixture(scope="module")
def course() -> Course:
    return find_course(ROOT)


@pytest.fixture(scope="module")
def chapters() -> list[Chapter]:
    return []


@pytest.fixture(scope="module")
def website(course: Course, chapters: list[Chapter], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("website") / "site"
    # A badge is part of what is looked at; the address is made up.
    chapters += build_website(course, folder, "https://github.com/someone/fxopt")
    return folder


@pytest.fixture(scope="module")
def pages(website: Path) -> dict[str, BeautifulSoup]:
    return {
        path.relative_to(website).with_suffix("").as_posix(): BeautifulSoup(path.read_text(), "html.parser")
        for path in website.rglob("*.html")
    }


def test_every_notebook_guide_and_package_has_its_page(
    pages: dict[str, BeautifulSoup], chapters: list[Chapter]
) -> None:
    notebooks = {
        path.relative_to(ROOT / "curriculum").with_suffix("").as_posix()
        for unit in UNITS
        for path in (ROOT / "curriculum" / unit).glob("*.ipynb")
    }
    guides = {"index", "Glossary", "instructor", "architecture", *(Path(track.page).stem for track in TRACKS)}
    assert notebooks | guides | {f"reference/{package}" for package in PACKAGES} <= set(pages)
    assert {page for chapter in chapters for page in chapter.pages} | {"index", "search"} == set(pages)


def test_every_link_and_picture_leads_somewhere(website: Path, pages: dict[str, BeautifulSoup]) -> None:
    lost, followed = [], 0
    for name, page in pages.items():
        here = website / f"{name}.html"
        for tag in page.find_all(["a", "img", "script", "link"]):
            address = urlsplit(str(tag.get("href") or tag.get("src") or ""))
            if address.scheme or address.netloc or not (address.path or address.fragment):
                continue
            followed += 1
            target = (here.parent / unquote(address.path)).resolve() if address.path else here
            if not target.is_file():
                lost.append(f"{name}: {tag}")
            elif address.fragment and target.suffix == ".html":
                reached = pages[target.relative_to(website).with_suffix("").as_posix()]
                if reached.find(id=unquote(address.fragment)) is None:
                    lost.append(f"{name}: {tag}")
    assert lost == []
    assert followed > 1000


def test_lessons_show_what_they_print_and_every_picture_has_words(pages: dict[str, BeautifulSoup]) -> None:
    lessons = [name for name in pages if "/lesson_" in name]
    assert len(lessons) >= 6
    for name in lessons:
        assert len(pages[name].select(".cell_output")) > 5, name
    # Charts of matplotlib lie beside the page and bring no words along; the table below each says the same.
    pictures = [(name, image) for name, page in pages.items() for image in page.select("article img")]
    charts = [image for _, image in pictures if "_images/" in str(image["src"]) and str(image["src"]).endswith(".png")]
    drawn = [(name, image) for name, image in pictures if image not in charts]
    assert len(drawn) > 20
    assert [(name, str(image)[:80]) for name, image in drawn if not image.get("alt")] == []


def test_exercises_show_no_answer(course: Course, pages: dict[str, BeautifulSoup]) -> None:
    looked_for = 0
    for name in sorted(name for name in pages if "/ex_" in name):
        unit, exercise = name.split("/")
        given = "\n".join(cell.source for cell in _cells(ROOT / "curriculum" / unit / f"{exercise}.ipynb"))
        for cell in _cells(course.sources_of(unit) / f"{exercise}.ipynb"):
            if not cell.metadata.get("nbgrader", {}).get("solution"):
                continue
            lines = {line.strip().rstrip(":") for line in cell.source.splitlines() if len(line.strip()) > 25}
            # A hint may quote one line.
            own = [line for line in lines if line not in given]
            looked_for += len(own)
            assert [line for line in own if line in pages[name].get_text()] == [], f"{name} shows an answer"
    assert looked_for > 300


def _cells(notebook: Path) -> list[nbformat.NotebookNode]:
    return list(nbformat.read(notebook, as_version=4).cells)


def test_the_glossary_is_there_whole(course: Course, pages: dict[str, BeautifulSoup]) -> None:
    anchors = [term.anchor for term in read_terms(course)]
    assert len(anchors) > 40
    assert [anchor for anchor in anchors if pages["Glossary"].find(id=anchor) is None] == []


def test_the_reference_tells_what_a_pass_must_be(pages: dict[str, BeautifulSoup]) -> None:
    page = pages["reference/fxopt_core.passes"]
    assert page.find(id="fxopt_core.passes.OptimizationPass") is not None
    assert "Sequences of passes: exact changes no bit" in page.get_text()
    optimizer = pages["reference/fxopt_core.optimizer"].get_text()
    assert "VerificationError" in optimizer
    assert "dynamic" in optimizer


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as launched:
        yield launched


@pytest.mark.browser
def test_no_page_asks_another_machine_for_anything(
    website: Path, pages: dict[str, BeautifulSoup], browser: Browser
) -> None:
    page = browser.new_page()
    asked: list[str] = []
    errors: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    for name in pages:
        page.goto((website / f"{name}.html").as_uri(), wait_until="load")
    page.close()
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    assert len(asked) > len(pages)
    assert errors == []


@pytest.mark.browser
def test_a_reader_searches_follows_and_turns_the_light_off(website: Path, browser: Browser) -> None:
    page = browser.new_page(color_scheme="light", viewport={"width": 1280, "height": 900})
    page.goto((website / "index.html").as_uri())
    for image in page.locator(".graphs img").all():
        assert image.evaluate("image => image.complete && image.naturalWidth") > 100
        assert re.match(r"The graph (before|after) the rewrite", image.get_attribute("alt") or "")
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.locator(".theme-toggle:visible").first.click()
    page.wait_for_function(f"getComputedStyle(document.body).backgroundColor != {paper!r}")
    page.fill("input[name=q]", "bytecode")
    page.press("input[name=q]", "Enter")
    found = page.locator("#search-results a", has_text="Day 1: the compile stack").first
    expect(found).to_be_visible()
    found.click()
    expect(page.locator("h1").first).to_contain_text("Day 1: the compile stack")
    page.locator("a[href*='Glossary.html#']").first.click()
    expect(page.locator("h1").first).to_contain_text("Glossary")
    page.close()


def test_a_folder_of_somebody_else_stays_as_it_is(course: Course, tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "letter.txt").write_text("mine")
    with pytest.raises(WebsiteError, match="was not made by `fxopt site`"):
        build_website(course, tmp_path / "site")
    assert [path.name for path in tmp_path.rglob("*")] == ["site", "letter.txt"]


def test_a_build_that_fails_leaves_the_website_of_before(tmp_path: Path) -> None:
    # A course whose lessons were never built.
    root = tmp_path / "course"
    for folder in ("solutions", "curriculum"):
        (root / folder).mkdir(parents=True)
    for track in TRACKS:
        (root / track.page).write_text(f"# {track.name}\n\n[The lesson](curriculum/day1/lesson_one.ipynb)\n")
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / OURS).touch()
    (tmp_path / "site" / "index.html").write_text("before")
    with pytest.raises(WebsiteError, match=r"lesson_one\.ipynb is missing: run `make notebooks`"):
        build_website(Course(root), tmp_path / "site")
    assert (tmp_path / "site" / "index.html").read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["course", "site"]


def test_badges_lead_to_the_repository_or_say_what_they_need() -> None:
    assert badges_for(None) == ""
    assert "https://codespaces.new/someone/fxopt)" in badges_for("https://github.com/someone/fxopt.git")
    assert "https://mybinder.org/v2/gh/someone/fxopt/HEAD" in badges_for("https://github.com/someone/fxopt/")
    for wrong in ("someone/fxopt", "https://example.org/someone/fxopt", "https://github.com/someone", ""):
        with pytest.raises(ValueError, match=r"https://github\.com/OWNER/NAME"):
            badges_for(wrong)


def test_a_flowchart_is_drawn_with_its_groups_and_arrows(tmp_path: Path) -> None:
    chart = 'flowchart BT\n  subgraph one["The first"]\n    a & b --> c\n  end\n  one --> d\n'
    text = f"Before.\n\n```mermaid\n{chart}```\nAfter."
    drawn = with_drawn_flowcharts(text, tmp_path / "page")
    assert drawn.startswith("Before.")
    assert drawn.endswith("(page-1.svg)\nAfter.")
    svg = (tmp_path / "page-1.svg").read_text()
    assert re.findall(r"<title>(.+?)</title>", svg).count("cluster_one") == 1
    assert {"a&#45;&gt;c", "b&#45;&gt;c", "c&#45;&gt;d"} <= set(re.findall(r"<title>(.+?)</title>", svg))
    assert "The first" in svg


@pytest.mark.parametrize("lines", ["graph LR\na --> b", "flowchart BT\na --- b", "flowchart BT\nclick a callback"])
def test_a_flowchart_with_something_else_in_it_is_refused(lines: str) -> None:
    with pytest.raises(FlowchartError, match=r"begins with|neither an arrow nor a group"):
        read_flowchart(lines)


def test_docstrings_are_read_as_they_are_meant() -> None:
    assert as_restructured_text(["Takes `*args`, and `Node`s; *args too."]) == [
        r"Takes ``*args``, and ``Node``\ s; \*args too."
    ]
    assert as_restructured_text(["Compared are", "- one;", "  more of it", "- two."]) == [
        "Compared are",
        "",
        "- one;",
        "  more of it",
        "- two.",
    ]
    assert as_restructured_text(["`file:line`, a link"]) == ["``file:line``, a link"]


def test_a_constant_is_told_by_the_words_below_it() -> None:
    from fxopt_core.passes import PRESETS

    assert words_of(PRESETS, "PRESETS").startswith("Sequences of passes")
    with pytest.raises(LookupError, match="NOWHERE"):
        words_of(object(), "NOWHERE")


def test_hosted_machines_are_told_targets_and_extras_that_exist() -> None:
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    makefile = (ROOT / "Makefile").read_text()
    for command in (container["postCreateCommand"], container["postAttachCommand"]):
        [target] = re.findall(r"make (\w+)", command)
        assert f"\n{target}:" in makefile
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    [asked] = re.findall(r'"\.\[(.+)\]"', (ROOT / ".binder" / "postBuild").read_text())
    assert set(asked.split(",")) <= set(extras)
    subprocess.run(["bash", "-n", ROOT / ".binder" / "postBuild"], check=True)
