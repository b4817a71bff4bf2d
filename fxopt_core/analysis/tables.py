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
        names: how many columns, from the first on, hold words and are set to the left.
    """

    title: str
    headings: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    notes: tuple[str, ...] = ()
    names: int = 1

    def table(self) -> Table:
        """For a terminal."""
        # As text, because Rich would read square brackets as markup.
        notes = Text("\n".join(self.notes))
        table = Table(title=Text(self.title), title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
        table.caption, table.caption_justify = notes, "left"
        for place, heading in enumerate(self.headings):
            words = place < self.names
            table.add_column(heading, justify="left" if words else "right", overflow="fold", no_wrap=not words)
        for row in self.rows:
            table.add_row(*map(Text, row))
        return table

    def __str__(self) -> str:
        console = Console(file=StringIO(), width=WIDTH, force_terminal=False, color_system=None)
        with console.capture() as captured:
            console.print(self.table())
        return "\n".join(line.rstrip() for line in captured.get().splitlines())

    def _repr_html_(self) -> str:
        def cells(tag: str, row: Sequence[str]) -> str:
            sides = ("left" if place < self.names else "right" for place in range(len(row)))
            pairs = zip(sides, row, strict=True)
            return "".join(f'<{tag} style="text-align: {side}">{escape(cell)}</{tag}>' for side, cell in pairs)

        body = "".join(f"<tr>{cells('td', row)}</tr>" for row in self.rows)
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        head = f"<caption>{escape(self.title)}</caption><thead><tr>{cells('th', self.headings)}</tr></thead>"
        return f"<table>{head}<tbody>{body}</tbody></table>{notes}"


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
