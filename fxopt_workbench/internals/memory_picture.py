"""Tensors drawn over the memory that they share: which element of which tensor lies where."""

from __future__ import annotations

import base64
from collections.abc import Collection
from dataclasses import dataclass
from html import escape

import torch

from fxopt_core.display import choose_kinds
from fxopt_workbench.tables import aligned, text_twin

MOST_POSITIONS = 64
"""Positions of memory in one picture; more could not be read."""

MOST_ELEMENTS = 512
"""Elements of one tensor in a picture; an expanded one may have more than there are positions."""

_CELL, _HEIGHT, _GAP, _MARGIN, _LETTER = 34, 26, 8, 10, 8
"""Least width of a cell, its height, distance of rows, margin, and width of a letter, in pixels."""

_SMALLEST = 0.6
"""Scale below which a picture is scrolled and not shrunk further: its letters are then 8 pixels high."""


@dataclass(frozen=True)
class MemoryPicture:
    """A strip of memory, and below it a row for each tensor. JupyterLab shows the picture with its text folded below.

    Attributes:
        title: what it shows.
        positions: how many positions of memory are drawn, from the beginning of the storage.
        rows: each tensor's name, and for each position which of its elements lie there, counted in the order in which
            the tensor is read; none, or several, may lie at one.
        line: after how many positions a thicker line is drawn (a cache line, a row); 0 for none.
    """

    title: str
    positions: int
    rows: tuple[tuple[str, tuple[tuple[int, ...], ...]], ...]
    line: int = 0

    @property
    def text(self) -> str:
        """The text twin: a row for each tensor, and `.` where it has no element."""
        header = ["position", *(str(place) for place in range(self.positions))]
        rows = [[name, *(_numbers(cell) or "." for cell in cells)] for name, cells in self.rows]
        note = "Numbers: which element of the tensor lies there, in the order in which it is read."
        return "\n".join([self.title, "", *aligned(header, rows), "", note])

    def alt_text(self) -> str:
        """One sentence that stands for the picture where it cannot be seen."""
        reached = (f"{name} has elements at {sum(map(bool, cells))}" for name, cells in self.rows)
        return f"{self.title}. Of {self.positions} positions of memory, {', '.join(reached)}."

    @property
    def svg(self) -> str:
        """The picture as an `<svg>` element on a ground of its own, so that it reads on a light and on a dark page."""
        left, wide, width = self._widths()
        height = _MARGIN * 2 + (len(self.rows) + 2) * (_HEIGHT + _GAP)
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
            f'role="img" font-family="sans-serif" font-size="13"><title>{escape(self.alt_text())}</title>',
            f'<rect width="{width}" height="{height}" rx="6" fill="#ffffff" stroke="#8a8a8a"/>',
            _words(_MARGIN, _MARGIN + 17, self.title, "start", bold=True),
        ]
        positions = ("position", tuple((place,) for place in range(self.positions)))
        for number, (name, cells) in enumerate((positions, *self.rows)):
            top = _MARGIN + (number + 1) * (_HEIGHT + _GAP)
            parts.append(_words(left - _GAP, top + 18, name, "end"))
            for place, cell in enumerate(cells):
                ground = "#ffffff" if not cell else "#ececec" if number == 0 else "#cfe3f7"
                parts.append(
                    f'<rect x="{left + place * wide}" y="{top}" width="{wide}" height="{_HEIGHT}" '
                    f'fill="{ground}" stroke="#8a8a8a"/>'
                )
                parts.append(_words(left + (place + 0.5) * wide, top + 18, _numbers(cell), "middle"))
        for place in range(self.line, self.positions, self.line) if self.line else ():
            x = left + place * wide
            parts.append(
                f'<line x1="{x}" x2="{x}" y1="{_MARGIN + _HEIGHT}" y2="{height - _MARGIN}" stroke="#222222" '
                'stroke-width="3"/>'
            )
        return "".join([*parts, "</svg>"])

    def _widths(self) -> tuple[int, int, int]:
        """Where the first cell begins, how wide each is, and how wide all of the picture is, in pixels."""
        names = max(len(name) for name, _ in (("position", ()), *self.rows))
        longest = max((len(_numbers(cell)) for _, cells in self.rows for cell in cells), default=0)
        left, wide = _MARGIN + names * _LETTER + _GAP, max(_CELL, (longest + 1) * _LETTER)
        return left, wide, max(left + self.positions * wide, len(self.title) * _LETTER) + 2 * _MARGIN

    def __str__(self) -> str:
        return self.text

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, str]:
        """The text, and the picture as an image, which JupyterLab shows also in a notebook that it does not trust."""
        data = base64.b64encode(self.svg.encode()).decode()
        style = f"max-width: 100%; min-width: {self._widths()[2] * _SMALLEST:.0f}px"
        html = (
            f'<figure style="margin: 0; overflow-x: auto"><img style="{style}" src="data:image/svg+xml;base64,{data}" '
            f'alt="{escape(self.alt_text(), quote=True)}"/></figure>'
            f"{text_twin(self.text)}"
        )
        return choose_kinds({"text/plain": self.text, "text/html": html}, include, exclude)


def draw_memory(title: str, /, *, line: int = 0, **tensors: torch.Tensor) -> MemoryPicture:
    """Draw tensors over the storage that they share.

    Args:
        title: what the picture shows.
        line: after how many positions to draw a thicker line; 0 for none.
        tensors: by the name that their row gets; underscores become spaces.

    Raises:
        ValueError: no tensor is given, they do not share one storage and one dtype, the storage holds more than
            `MOST_POSITIONS` elements, or a tensor has more than `MOST_ELEMENTS`.
    """
    if not tensors:
        raise ValueError("draw_memory needs at least one tensor to draw, as in draw_memory('title', x=x)")
    first = next(iter(tensors.values()))
    storage = first.untyped_storage()
    positions = storage.nbytes() // first.element_size()
    for name, tensor in tensors.items():
        if tensor.untyped_storage().data_ptr() != storage.data_ptr() or tensor.dtype != first.dtype:
            raise ValueError(
                f"{name!r} does not share storage and dtype with {next(iter(tensors))!r}: draw it by itself"
            )
        if tensor.numel() > MOST_ELEMENTS:
            raise ValueError(f"{name!r} has {tensor.numel()} elements, and a picture shows at most {MOST_ELEMENTS}")
    if positions > MOST_POSITIONS:
        raise ValueError(
            f"the storage holds {positions} elements, and a picture at most {MOST_POSITIONS}: take a smaller tensor"
        )
    rows = tuple((name.replace("_", " "), _elements(tensor, positions)) for name, tensor in tensors.items())
    return MemoryPicture(title, positions, rows, line)


def _elements(tensor: torch.Tensor, positions: int) -> tuple[tuple[int, ...], ...]:
    """For each position of memory, which elements of a tensor lie there."""
    memory = torch.arange(positions)
    places = memory.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset()).flatten().tolist()
    return tuple(tuple(number for number, place in enumerate(places) if place == at) for at in range(positions))


def _numbers(cell: tuple[int, ...]) -> str:
    """Elements that lie at one position, for a cell."""
    return ",".join(map(str, cell))


def _words(x: float, y: float, text: str, anchor: str, *, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="#222222"{weight}>{escape(text)}</text>'
