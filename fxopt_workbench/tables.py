"""Tables that show themselves in a terminal, in a notebook and as plain text; and numbers with units."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import singledispatch
from html import escape
from io import StringIO
from typing import Any, Literal

from rich import table as rich_table
from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions
from rich.text import Text

from fxopt_core.display import Displayable

NONE = "–"
UNKNOWN = "unknown"

WIDTH = 150
"""Characters in a line of a table that goes into a notebook or a file."""

PIPE = 100
"""Characters in a line that a command prints into a pipe."""

FEWEST = 24
"""Characters that a column of words keeps where the line is short."""


@singledispatch
def tables_of(result: Any) -> Sequence[Table]:
    """The tables of a result, in the order in which they are read: its own `tables()`, or what is registered for it.

    Results of `fxopt_core` hold data only; `fxopt_workbench.results` registers how they are shown.
    """
    tables: Sequence[Table] = result.tables()
    return tables


@singledispatch
def document_of(result: Any) -> dict[str, Any]:
    """A result as JSON values. `fxopt_workbench.results` registers the results that can be written so.

    Raises:
        TypeError: this kind of result has no such form.
    """
    raise TypeError(f"{type(result).__name__} has no JSON form; print it, or read its attributes.")


@dataclass(frozen=True)
class Table(Displayable):
    """A table with notes.

    Attributes:
        title: what it shows.
        headings: of the columns. The first column holds names. Without headings there are notes only.
        rows: the cells as text.
        notes: sentences below it.
        words: headings of further columns that hold words, so that they begin at the left and may be broken; the
            others hold figures.
    """

    title: str
    headings: tuple[str, ...] = ()
    rows: Sequence[tuple[str, ...]] = ()
    notes: tuple[str, ...] = ()
    words: tuple[str, ...] = ()

    def tables(self) -> Sequence[Table]:
        """Itself."""
        return (self,)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[rich_table.Table | Text]:
        """For a terminal. What is wider than it goes on below, under the names of the rows again."""
        # As text, because Rich would read square brackets as markup.
        if self.title:
            yield Text(self.title)
        for columns in self._bands(options.max_width) if self.headings else ():
            yield self._table(columns, options.max_width)
        yield from map(Text, self.notes)

    def _bands(self, width: int) -> list[list[int]]:
        """The columns that stand side by side in so many characters: each band with the first, which holds names."""
        bands = [[0]]
        for place in range(1, len(self.headings)):
            needed = sum(self._widths(column)[0] for column in (*bands[-1], place))
            if len(bands[-1]) > 1 and needed > _inside(width, len(bands[-1]) + 1):
                bands.append([0])
            bands[-1].append(place)
        return bands

    def _widths(self, place: int) -> tuple[int, int]:
        """The fewest characters that a column takes, and the most: words may be broken, figures never are."""
        heading, cells = self.headings[place], [row[place] for row in self.rows]
        most = max(map(len, [heading, *cells]))
        if self._holds_figures(heading):
            return max(map(len, [*heading.split(), *cells])), most
        return min(most, FEWEST), most

    def _table(self, columns: Sequence[int], width: int) -> rich_table.Table:
        fewest, most = zip(*map(self._widths, columns), strict=True)
        widths = list(fewest)
        # Rich would take from figures as well as from words.
        spare = _inside(width, len(columns)) - sum(widths)
        figures = [self._holds_figures(self.headings[place]) for place in columns]
        for kind in (False, True):
            while spare > 0 and (short := [i for i, one in enumerate(figures) if one is kind and widths[i] < most[i]]):
                for place in short[:spare]:
                    widths[place] += 1
                spare -= len(short[:spare])
        widths[0] = max(1, widths[0] + min(spare, 0))
        table = rich_table.Table(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
        for place, room, right in zip(columns, widths, figures, strict=True):
            justify: Literal["left", "right"] = "right" if right else "left"
            table.add_column(Text(self.headings[place]), justify=justify, overflow="fold", width=room)
        for row in self.rows:
            table.add_row(*(Text(row[place]) for place in columns))
        return table

    def text(self, width: int = WIDTH) -> str:
        """In characters, of which so many stand in a line."""
        # In a notebook Rich would show the table instead of writing it.
        console = Console(file=StringIO(), width=width, force_terminal=False, force_jupyter=False, color_system=None)
        with console.capture() as captured:
            console.print(self)
        return "\n".join(line.rstrip() for line in captured.get().splitlines())

    def html(self) -> str:
        """For a notebook. The names of rows and columns are marked as such, for those who listen to the table."""
        lines = "<br>".join(map(escape, self.notes))
        notes = f"<p>{lines}</p>" if lines else ""
        if not self.headings:
            return (f"<p><strong>{escape(self.title)}</strong></p>" if self.title else "") + notes
        # JupyterLab centres captions and puts all cells to the right.
        caption = f'<caption style="text-align: left"><strong>{escape(self.title)}</strong></caption>'
        # A heading may take two lines, so that what is below it decides how wide the column is.
        head = "".join(
            f'<th scope="col" style="{self._alignment(heading)}">{escape(heading)}</th>' for heading in self.headings
        )
        body = "".join(f"<tr>{self._cells(row)}</tr>" for row in self.rows)
        table = f"<table>{caption if self.title else ''}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        return f'<div style="overflow-x: auto">{table}</div>{notes}'

    def _cells(self, row: tuple[str, ...]) -> str:
        name, *others = row
        named = zip(self.headings[1:], others, strict=True)
        cells = "".join(f"<td{self._aside(heading)}>{escape(cell)}</td>" for heading, cell in named)
        return f'<th scope="row"{self._aside(self.headings[0])}>{escape(name)}</th>{cells}'

    def _aside(self, heading: str) -> str:
        whole = "; white-space: nowrap" if self._holds_figures(heading) else ""
        return f' style="{self._alignment(heading)}{whole}"'

    def _alignment(self, heading: str) -> str:
        return f"text-align: {'right' if self._holds_figures(heading) else 'left'}"

    def _holds_figures(self, heading: str) -> bool:
        return heading not in (self.headings[0], *self.words)


def _inside(width: int, columns: int) -> int:
    """Characters of a line that cells may take: two stand between columns, one at each edge."""
    return width - 2 * columns


def aligned(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table as wide as it takes, without a break in any cell."""
    table = [headings, *rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(headings))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]
    return [lines[0], "  ".join("-" * width for width in widths), *lines[1:]]


def whole_lines(text: str) -> str:
    """HTML of a text in columns: they line up in whole lines of a fixed-width font only, which not every page gives."""
    return f'<pre style="font-family: monospace; white-space: pre; overflow-x: auto">{escape(text)}</pre>'


def text_twin(text: str) -> str:
    """HTML of the text that says what a picture says, folded."""
    return f"<details><summary>The same as text</summary>{whole_lines(text)}</details>"


def output_console() -> Console:
    """What a command prints to: the terminal, as wide as it is; a pipe, as wide as `COLUMNS` says or 100 characters."""
    console = Console(markup=False, highlight=False)
    if console.is_terminal or os.environ.get("COLUMNS", "").isdigit():
        return console
    return Console(markup=False, highlight=False, width=PIPE)


def print_tables(tables: Iterable[Table]) -> None:
    """Print tables to the `output_console`."""
    console = output_console()
    for table in tables:
        console.print(table)


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


def format_seconds(seconds: float) -> str:
    """Seconds with three significant digits and a fitting unit, such as `1.25 ms`; `unknown` for `nan`."""
    if math.isnan(seconds):
        return UNKNOWN
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}" if seconds * factor < 1000 else f"{seconds * factor:.0f} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def format_bytes(number: int | None) -> str:
    """Bytes with three significant digits and a binary unit, such as `4.5 MiB`; `–` for `None`."""
    if number is None:
        return "–"
    size = float(number)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.3g} {unit}" if size < 1000 else f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.3g} GiB" if size < 1000 else f"{size:.0f} GiB"


def format_calls(calls: float | None) -> str:
    """A number of calls, rounded up; `never` when infinite, `–` for `None`."""
    if calls is None:
        return "–"
    return "never" if math.isinf(calls) else f"{math.ceil(calls):,}".replace(",", " ")
