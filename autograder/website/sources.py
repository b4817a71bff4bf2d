"""What the pages of the website are made from: the course's notebooks and guides, laid out as a tree of their own."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from autograder.course.course import Course
from autograder.course.sources import without_claims
from autograder.course.tracks import TRACKS
from autograder.website.flowcharts import with_drawn_flowcharts
from fxopt_workbench.files import write_whole

GUIDES = (("docs/instructor.md", "instructor.md"), ("docs/architecture.md", "architecture.md"))
"""Guides of the repository: the path there, and on the website."""

_NOTEBOOK = re.compile(r"\(curriculum/(\w+)/(\w+)\.ipynb")
"""A schedule's link to a notebook: what a track consists of, in the order in which it is taken."""

_ELSEWHERE = re.compile(r"(?<!!)\[([^\]]+)\]\((CONTRIBUTING\.md|evidence\.md|docs/evidence\.md)(#[^)]*)?\)")
"""Links to pages that are for those who build the course."""


@dataclass(frozen=True)
class Chapter:
    """A group of pages, as the navigation shows it.

    Attributes:
        title: of the group.
        pages: paths on the website without suffix, in order.
    """

    title: str
    pages: tuple[str, ...]


class WebsiteError(RuntimeError):
    """The website cannot be made; the message says of what, and what to do."""


def lay_out(course: Course, folder: Path) -> list[Chapter]:
    """Write every notebook and guide into a folder, under the addresses that the course's own links use.

    What a track's schedule links to makes its chapter, in that order. Lessons come executed from `solutions/`, with the
    outputs that they had then; exercises come from `curriculum/`, which has no answers.

    Args:
        course: the course with its sources.
        folder: empty.

    Raises:
        WebsiteError: a notebook or a guide is missing.
    """
    chapters = []
    for track in TRACKS:
        _guide(course, track.page, folder / track.page)
        linked = dict.fromkeys(_NOTEBOOK.findall((course.root / track.page).read_text()))
        for unit, name in linked:
            _notebook(course, unit, name, folder)
        chapters.append(Chapter(track.name, (Path(track.page).stem, *(f"{unit}/{name}" for unit, name in linked))))
    _guide(course, "curriculum/Glossary.md", folder / "Glossary.md")
    for source, target in GUIDES:
        _guide(course, source, folder / target)
    chapters.append(Chapter("Beside the lessons", ("Glossary", "instructor", "architecture")))
    if (images := course.root / "docs" / "images").is_dir():
        shutil.copytree(images, folder / "docs" / "images")
    return chapters


def _notebook(course: Course, unit: str, name: str, folder: Path) -> None:
    """Write one notebook of a unit: an exercise as it is handed out, anything else as it was executed."""
    shown = (course.curriculum / unit if name.startswith("ex_") else course.sources_of(unit)) / f"{name}.ipynb"
    if not shown.is_file():
        raise WebsiteError(f"{shown} is missing: run `make notebooks`, which executes the lessons")
    write_whole(folder / unit / shown.name, nbformat.writes(as_page(nbformat.read(shown, as_version=4))))


def as_page(notebook: NotebookNode) -> NotebookNode:
    """The same notebook as a page: no marks of the grader, no claims, and no output twice.

    A cell's `text/plain` beside a picture or a table stays out: it is the object's name, and every picture of the
    course brings its words along.
    """
    page = without_claims(notebook)
    page.metadata = nbformat.from_dict({"kernelspec": notebook.metadata.get("kernelspec", {})})
    for cell in page.cells:
        cell.metadata = nbformat.from_dict({})
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if {"text/html", "image/svg+xml", "image/png", "text/markdown"} & set(data):
                data.pop("text/plain", None)
    return page


def _guide(course: Course, source: str, target: Path) -> None:
    """Write a guide with links that hold on the website, and with its flowcharts drawn."""
    path = course.root / source
    if not path.is_file():
        raise WebsiteError(f"{path} is missing")
    text = path.read_text()
    text = re.sub(r"\]\((?:\.\./)?curriculum/", "](", text)
    text = re.sub(r"\]\(docs/(?=instructor|architecture)", "](", text)
    text = _ELSEWHERE.sub(r"\1", text)
    write_whole(target, with_drawn_flowcharts(text, target.with_suffix("")))
