"""A table that shows itself in a terminal, in a notebook and as plain text; and numbers with units."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from io import StringIO

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

NONE = "–"

WIDTH = 150
"""Columns of a table that goes into a pipe, a file or a notebook."""


@dataclass(frozen=True)
class Sheet:
    """A table with notes.

    Attributes:
        title: what it shows.
        headings: of the columns. The first column holds names, the others figures.
        rows: the cells as text.
        notes: sentences below it.
    """

    title: str
    headings: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    notes: tuple[str, ...] = ()

    def table(self) -> Table:
        """For a terminal."""
        # As text, because Rich would read square brackets as markup.
        notes = Text("\n".join(self.notes))
        table = Table(title=Text(self.title), title_justify="left", caption=notes, caption_justify="left")
        table.box, table.pad_edge = SIMPLE_HEAD, False
        for place, heading in enumerate(self.headings):
            table.add_column(heading, justify="right" if place else "left", overflow="fold", no_wrap=place > 0)
        for row in self.rows:
            table.add_row(*map(Text, row))
        return table

    def text(self) -> str:
        """In characters."""
        console = Console(file=StringIO(), width=WIDTH, force_terminal=False, color_system=None)
        with console.capture() as captured:
            console.print(self.table())
        return "\n".join(line.rstrip() for line in captured.get().splitlines())

    def html(self) -> str:
        """For a notebook."""
        rows = ["".join(f"<th>{escape(heading)}</th>" for heading in self.headings)]
        rows += ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in self.rows]
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        return f"<p>{escape(self.title)}</p><table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>{notes}"


class Shown:
    """Shows itself as its `sheet()`, in a notebook and as text."""

    def sheet(self) -> Sheet:
        """The table."""
        raise NotImplementedError

    def __str__(self) -> str:
        return self.sheet().text()

    def _repr_html_(self) -> str:
        return self.sheet().html()


def print_sheets(sheets: Sequence[Sheet]) -> None:
    """Print tables to the terminal, or into a pipe or file, which have no width of their own."""
    console = Console()
    console = console if console.is_terminal else Console(width=WIDTH)
    for sheet in sheets:
        console.print(sheet.table())


def format_count(number: float, unit: str = "") -> str:
    """Three significant digits and a decimal prefix, such as `4.09 G`, or `4.09 GFLOP` with a unit."""
    if not math.isfinite(number):
        return NONE
    for prefix, factor in (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(number) >= 0.9995 * factor:
            return f"{_three(number / factor)} {prefix}{unit}"
    return f"{_three(number)} {unit}".rstrip()


def _three(number: float) -> str:
    return f"{number:.3g}" if abs(number) < 999.5 else f"{number:.0f}"
