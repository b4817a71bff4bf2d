"""`Program.md`: every section that it names exists, in the lesson that it links, and no lecture is left out."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "Program.md").read_text()

LECTURES = (1, 2, 3, 4, 5, 7, 9, 11, 27)

PLACE = re.compile(r"\]\((curriculum/[^)]+\.ipynb)\): ((?:\*[^*]+\*(?:, )?)+)")
ROWS = [line for line in TEXT.splitlines() if line.startswith("| ") and not line.startswith(("| point", "| ---"))]


def headings(notebook: str) -> set[str]:
    """The headings of a notebook's sections."""
    cells = nbformat.read(ROOT / notebook, as_version=4).cells
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    return set(re.findall(r"^## (.+)$", text, re.MULTILINE))


def test_every_lecture_has_its_points() -> None:
    parts = dict(re.findall(r"^## Lecture (\d+): [^\n]+\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL))
    assert tuple(map(int, parts)) == LECTURES
    for number, part in parts.items():
        rows = [line for line in part.splitlines() if line in ROWS]
        assert sum(row.startswith("| outcome: ") for row in rows) >= 2, number
        outlined = {int(found) for found in re.findall(r"^\| (\d)\. ", part, re.MULTILINE)}
        assert outlined == set(range(1, max(outlined) + 1)), number
        assert len(outlined) >= 3, number


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[2:60])
def test_what_a_point_names_exists(row: str) -> None:
    places = PLACE.findall(row)
    assert places, "this point has no place"
    assert row.count("](curriculum/") == len(places)
    for notebook, sections in places:
        assert set(re.findall(r"\*([^*]+)\*", sections)) <= headings(notebook), notebook
