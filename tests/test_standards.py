"""What every open day keeps to: minutes, points, predictions, hints, answers, short prose, text for pictures."""

from __future__ import annotations

import ast
import re
from functools import cache
from html import unescape
from pathlib import Path
from typing import Any

import nbformat
import pytest

from autograder.course.course import Course
from autograder.course.notebooks import grade_id, points_of
from autograder.course.sources import CLAIM, read_source
from autograder.course.task import UNITS, Task, WrittenTask
from autograder.course.tasks import all_tasks, written_tasks
from autograder.course.tracks import TRACKS, WEEK_1

ROOT = Path(__file__).parents[1]
COURSE = Course(ROOT)

MINUTES = re.compile(r"^\*(\d+) minutes(?:, (easy|medium|hard))?(, stretch)?\.\*", re.MULTILINE)
"""How a step of a lesson (`*10 minutes.*`) and a task (`*20 minutes, hard, stretch.*`) begin."""

SLACK = 10
"""By how many minutes the plan of a day may differ from the hours of the schedule."""

UNTIMED = ("What to remember", "Where this comes from")
"""Headings of lessons that state no minutes: they are part of the last step."""

MOST_WORDS = 150

HINTS = ("Hint 1", "Hint 2", "Hint 3")

UNIT = pytest.mark.parametrize("unit", UNITS)


@cache
def notebooks(unit: str) -> dict[str, Any]:
    """The sources of a day, by name. Nobody may change them."""
    return {path.stem: read_source(path) for path in sorted(COURSE.sources_of(UNITS[unit]).glob("*.py"))}


def lessons(unit: str) -> dict[str, Any]:
    return {name: notebook for name, notebook in notebooks(unit).items() if not name.startswith("ex_")}


SOURCES = pytest.mark.parametrize(
    ("name", "notebook"), [(name, notebook) for unit in UNITS for name, notebook in notebooks(unit).items()]
)


FOLDED = re.compile(r"```.*?```|<details>.*?</details>|\$\$.*?\$\$|^\|[^\n]*$", re.DOTALL | re.MULTILINE)
"""What is not read in one go: code, what unfolds, formulas and tables."""


def sections(notebook: Any) -> list[tuple[str, str]]:
    """Heading and text of each step of a lesson: what stands between two headings of the second level."""
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    parts = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    return [(part.splitlines()[0], "\n".join(part.splitlines()[1:]).strip()) for part in parts]


def task_text(task: Task | WrittenTask) -> str:
    [cell] = [cell for cell in notebooks(task.unit)[task.notebook].cells if grade_id(cell) == f"{task.name}-task"]
    return cell.source


def hours(unit: str) -> tuple[float, float]:
    """The hours that the page of the track gives to the lessons and to the exercise."""
    ((track, heading),) = ((track, each.heading) for track in TRACKS for each in track.units if each.name == unit)
    page = (ROOT / track.page).read_text()
    section = re.search(
        rf"^### {heading}:.*?\n\n\*[\d.]+ hours: ([\d.]+) for the lessons?, ([\d.]+)",
        page,
        re.M | re.S,
    )
    assert section, f"{track.page} does not divide the hours of {unit}: '*4 hours: 2 for the lesson, 2 for the …'"
    return float(section[1]), float(section[2])


@UNIT
def test_the_minutes_of_the_lessons_add_up(unit: str) -> None:
    total = 0
    for name, notebook in lessons(unit).items():
        for heading, text in sections(notebook):
            if heading in UNTIMED:
                continue
            stated = MINUTES.match(text)
            assert stated, f"{name}: the step {heading!r} does not begin with its minutes, such as '*10 minutes.*'"
            total += 0 if stated[3] else int(stated[1])
    assert abs(total - 60 * hours(unit)[0]) <= SLACK, f"{total} minutes"


@UNIT
def test_the_minutes_of_the_core_tasks_add_up(unit: str) -> None:
    total = 0
    for task in (task for task in (*all_tasks(), *written_tasks()) if task.unit == unit):
        stated = MINUTES.search(task_text(task))
        assert stated, f"{task.name} does not state its minutes"
        assert stated[2], f"{task.name} does not state how hard it is"
        total += 0 if stated[3] else int(stated[1])
    assert abs(total - 60 * hours(unit)[1]) <= SLACK, f"{total} minutes"


@UNIT
def test_a_day_has_a_hundred_points(unit: str) -> None:
    points: dict[str, float] = {}
    for notebook in notebooks(unit).values():
        points |= points_of(notebook)
    tasks = [task.name for task in all_tasks() if task.unit == unit]
    assert set(tasks) <= set(points)
    assert sum(points[name] for name in tasks) == 100


@UNIT
def test_written_answers_have_a_rubric(unit: str) -> None:
    for task in (task for task in written_tasks() if task.unit == unit):
        [cell] = [cell for cell in notebooks(unit)[task.notebook].cells if grade_id(cell) == task.name]
        assert cell.metadata.get("fxopt", {}).get("rubric"), f"{task.name} does not say what a person looks for"


@UNIT
def test_lessons_ask_for_predictions(unit: str) -> None:
    """At least four a day, and four in every lesson of twenty minutes and more."""
    counts = {}
    for name, notebook in lessons(unit).items():
        counts[name] = sum(cell.source.count("**Prediction.**") for cell in notebook.cells)
        minutes = sum(int(stated[1]) for _, text in sections(notebook) if (stated := MINUTES.match(text)))
        assert counts[name] >= 4 or minutes < 20, name
    assert sum(counts.values()) >= 4, counts


@pytest.mark.parametrize("unit", [unit.name for unit in WEEK_1.units])
def test_sentences_about_what_was_measured_are_held_to_it(unit: str) -> None:
    """Two in every lesson of twenty minutes and more; readers get none of them."""
    for name, notebook in lessons(unit).items():
        minutes = sum(int(stated[1]) for _, text in sections(notebook) if (stated := MINUTES.match(text)))
        claims = [cell for cell in notebook.cells if CLAIM in cell.metadata.get("tags", ())]
        assert len(claims) >= 2 or minutes < 20, name
        assert all("assert " in cell.source and cell.source.startswith("#") for cell in claims), name
        released = nbformat.read(COURSE.curriculum / UNITS[unit] / f"{name}.ipynb", as_version=4)
        assert not {cell["id"] for cell in released.cells} & {cell["id"] for cell in claims}


@SOURCES
def test_no_wall_of_prose(name: str, notebook: Any) -> None:
    long = {
        cell.source[:60]: words
        for cell in notebook.cells
        if cell.cell_type == "markdown" and (words := len(FOLDED.sub("", cell.source).split())) > MOST_WORDS
    }
    assert not long


@SOURCES
def test_no_code_cell_is_empty_and_no_answer_takes_the_checks_along(name: str, notebook: Any) -> None:
    """Sorting imports moves them into the next cell; in an answer's cell a learner deletes them with the stub."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert cell.source.strip()
            answer = cell.metadata.get("nbgrader", {}).get("solution", False)
            assert not answer or "from autograder import" not in cell.source


@pytest.mark.parametrize("task", all_tasks(), ids=lambda task: task.name)
def test_a_task_is_called_the_same_in_the_notebook_and_in_its_checks(task: Task) -> None:
    cells = notebooks(task.unit)[task.notebook].cells
    above = cells[: [grade_id(cell) for cell in cells].index(task.answer_id)]
    text = "\n".join(cell.source for cell in above if cell.cell_type == "markdown")
    heading = re.findall(r"^## (?:Task \d+\. )?(.+)$", text, re.MULTILINE)[-1]
    assert re.sub(r"[*`]", "", heading) == task.title


@pytest.mark.parametrize("task", all_tasks(), ids=lambda task: task.name)
def test_every_task_has_three_hints_that_unfold(task: Task) -> None:
    found = re.findall(r"<details><summary>(Hint \d): [^<]+</summary>(.+?)</details>", task_text(task), re.DOTALL)
    assert tuple(name for name, _ in found) == HINTS
    assert all(len(text.split()) >= 3 for _, text in found)


CODE = re.compile(r"<(?:pre|code)>(.*?)</(?:pre|code)>|```(?:python)?\n(.*?)```|`([^`]+)`", re.DOTALL)
"""Code in a text: in HTML, fenced, or in backticks."""


def pasted(text: str, names: tuple[str, ...]) -> list[str]:
    """The pieces of code in a text that define one of the names as they stand."""
    found = []
    for match in CODE.finditer(text):
        code = unescape(re.sub(r"<[^>]+>", "", next(group for group in match.groups() if group is not None)))
        try:
            nodes = list(ast.walk(ast.parse(code)))
        except SyntaxError:
            continue
        defined = {node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
        if defined & set(names):
            found.append(code)
    return found


@pytest.mark.parametrize("task", all_tasks(), ids=lambda task: task.name)
def test_no_hint_can_be_pasted_as_an_answer(task: Task) -> None:
    hints = re.findall(r"<details><summary>Hint \d: [^<]+</summary>(.+?)</details>", task_text(task), re.DOTALL)
    assert [code for hint in hints for code in pasted(hint, task.provides)] == []


def test_what_can_be_pasted_is_found() -> None:
    for form in ("<pre>{}</pre>", "<code>{}</code>", "```python\n{}\n```", "`{}`"):
        assert pasted("See " + form.format("def fuse(graph):\n    return a &lt; b"), ("fuse",))
        assert not pasted("See " + form.format("def fuse(graph): …"), ("fuse",))


@pytest.mark.parametrize("task", all_tasks(), ids=lambda task: task.name)
def test_every_task_has_wrong_and_right_answers(task: Task) -> None:
    wrong, right = (sorted((task.folder / kind).glob("*.py")) for kind in ("wrong", "right"))
    assert len(wrong) >= 4
    assert len(right) >= 2
    texts = [path.read_text() for path in (*wrong, *right)]
    assert len(set(texts)) == len(texts)


@SOURCES
def test_pictures_in_the_text_have_alternatives(name: str, notebook: Any) -> None:
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            assert all(alt.strip() for alt in re.findall(r"!\[(.*?)\]\(", cell.source))
            assert all(re.search(r'alt="[^"]+"', image) for image in re.findall(r"<img[^>]*>", cell.source))


@SOURCES
def test_pictures_that_cells_show_have_alternatives(name: str, notebook: Any) -> None:
    """A drawing carries its text; what is plotted is told in text by the same cell or by the next one."""
    unit = next(folder for unit, folder in UNITS.items() if name in notebooks(unit))
    executed = nbformat.read(COURSE.sources_of(unit) / f"{name}.ipynb", as_version=4)
    code = [cell for cell in executed.cells if cell.cell_type == "code"]
    for cell, following in zip(code, [*code[1:], None], strict=True):
        for output in cell.outputs:
            data = output.get("data", {})
            html = "".join(data.get("text/html", ""))
            assert html.count("<img") == len(re.findall(r'<img[^>]*\balt="[^"]+"', html)), cell.source
            svg = "".join(data.get("image/svg+xml", ""))
            assert not svg or re.search(r"<title>[^<]+</title>|aria-label=\"[^\"]+\"", svg), cell.source
            if "image/png" in data:
                told = [*cell.outputs, *(following.outputs if following else [])]
                words = "".join("".join(item.get("text", "")) for item in told if item.output_type == "stream")
                assert len(words.split()) >= 8, f"no text tells what this plot shows: {cell.source}"
