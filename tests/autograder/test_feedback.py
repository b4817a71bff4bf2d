"""Feedback pages: what is kept from page to page changes nothing in them."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from bs4 import BeautifulSoup
from nbconvert.exporters import HTMLExporter
from nbformat import NotebookNode
from nbgrader.converters import GenerateFeedback
from nbgrader.coursedir import CourseDirectory

from autograder.course.course import Course, course_config
from autograder.records import feedback
from autograder.records.feedback import FeedbackExporter

PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

NAMES = {"notebook": "n", "score": 1.0, "max_score": 2.0, "late_penalty": 0.0}


def notebook(word: str) -> NotebookNode:
    """Cells of every kind that a graded notebook has."""
    picture = nbformat.v4.new_output("display_data", {"image/png": PICTURE})
    written = nbformat.v4.new_output("display_data", {"text/html": "<p>a <img src='data:image/png;base64,AA'> b</p>"})
    failed = nbformat.v4.new_output("error", ename="E", evalue="<b>", traceback=["\x1b[31mred\x1b[0m <i>"])
    cells = [
        nbformat.v4.new_markdown_cell(f"# {word} & more\n\nA formula $a < b$ and `code <i>`.\n\n- one\n- two"),
        nbformat.v4.new_code_cell(f"def {word}(x):\n    return '<b>' if x < 1 else \"&\"", outputs=[picture, written]),
        nbformat.v4.new_code_cell("%%bash\necho $HOME", outputs=[failed]),
    ]
    for number, cell in enumerate(cells):
        cell["id"] = f"cell{number}"
    return nbformat.v4.new_notebook(cells=cells, metadata={"language_info": {"name": "python"}})


def exporter_of(folder: Path) -> FeedbackExporter:
    """A new exporter, as each submission gets one."""
    config = course_config(Course(folder))
    converter = GenerateFeedback(coursedir=CourseDirectory(config=config), config=config)
    return FeedbackExporter(parent=converter, config=converter.config)


def page(kind: type[HTMLExporter], folder: Path, word: str) -> str:
    """A notebook as a page, its text and structure only."""
    exporter = exporter_of(folder)
    # nbconvert's own does not look for the heading, which the page shows.
    written, _ = kind.from_notebook_node(exporter, notebook(word), {"nbgrader": NAMES, "heading": f"{word} & more"})
    return str(BeautifulSoup(written, "html.parser"))


def test_a_page_is_what_nbconvert_writes_and_no_page_shows_another_ones_cells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, again = (page(FeedbackExporter, tmp_path, word) for word in ("first", "second", "first"))
    monkeypatch.setattr(FeedbackExporter, "markdown2html", HTMLExporter.markdown2html)
    assert first == again == page(HTMLExporter, tmp_path, "first")
    assert second == page(HTMLExporter, tmp_path, "second") != first
    assert first.count(f'alt="{feedback.NO_DESCRIPTION}"') == 2


def test_the_list_of_scores_names_written_answers_by_their_titles(tmp_path: Path) -> None:
    question = nbformat.v4.new_markdown_cell("my words")
    question.metadata["nbgrader"] = {"grade": True, "grade_id": "explain_two_bindings", "score": 0.0, "points": 10.0}
    book = nbformat.v4.new_notebook(cells=[question])
    written, _ = exporter_of(tmp_path).from_notebook_node(book, {"nbgrader": NAMES})
    (line,) = BeautifulSoup(written, "html.parser").select("#toc li")
    assert "A function or an operator?" in line.get_text()
    assert "explain_two_bindings" not in line.get_text()


def test_templates_are_compiled_once_and_equal_cells_made_into_html_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feedback, "_compiled", feedback._CompiledTemplates())
    page(FeedbackExporter, tmp_path, "first")
    compiled = dict(feedback._compiled._kept)
    assert len(compiled) >= 5
    missed = feedback._highlighted.cache_info().misses, feedback._rendered.cache_info().misses
    page(FeedbackExporter, tmp_path, "first")
    assert feedback._compiled._kept == compiled
    assert (feedback._highlighted.cache_info().misses, feedback._rendered.cache_info().misses) == missed


def test_long_cells_are_not_kept(tmp_path: Path) -> None:
    exporter = exporter_of(tmp_path)
    kept = feedback._highlighted.cache_info().currsize, feedback._rendered.cache_info().currsize
    long = "x = 1\n" * feedback.KEPT_LENGTH
    cells = [nbformat.v4.new_markdown_cell(long), nbformat.v4.new_code_cell(long)]
    exporter.from_notebook_node(nbformat.v4.new_notebook(cells=cells), {"nbgrader": NAMES})
    assert (feedback._highlighted.cache_info().currsize, feedback._rendered.cache_info().currsize) == kept
