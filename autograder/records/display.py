"""What a person reads of a submission: rebuilt from what is known to be harmless, and from nothing else.

A graded notebook is opened in a browser, by a learner as feedback and by an instructor in the form grader, whose
templates put text cells and displays into the page as they are. So nothing that a learner wrote reaches the graded
notebook as HTML, unless nh3 (which parses as a browser does and writes anew what is allowed) has cleaned it: no
scripts, styles, forms or frames, no ids or classes that the page's own scripts look for, no address from which a
browser would load something by itself. Markdown of learners is rendered here, in time that grows with its length, and
not by the templates. Imports no torch.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import nh3
from markdown_it import MarkdownIt
from nbformat import NotebookNode
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Unicode

from autograder.course.course import Course
from autograder.course.reading import PICTURES, is_base64
from autograder.records.intake import released

TEXT_SHOWN = 200_000
"""Most characters of one text cell or one display that are rendered; longer ones are shown as they are, cut."""

CUT = 20_000
"""Characters that are shown of what is too long to be rendered."""

TAGS_SHOWN = 10_000
"""Most tags of one piece of HTML; nh3's time grows with the square of how deep they nest."""

NESTING_SHOWN = 60
"""How deeply elements may nest. Readers of HTML that call themselves give up somewhere beyond."""

TEXTS_SHOWN = 2_000_000
"""Most characters of all text cells of one notebook that are rendered; what follows is shown as it is, cut."""

OUTPUTS_SHOWN = 2_000_000
"""Most characters of all outputs of one notebook."""

OUTPUT_SHOWN = 200_000
"""Most characters of one printed output."""

COLOURED = 20_000
"""Longest code cell that is coloured, in characters. What colours code looks ahead, so that its time may grow with the
square of a cell's length, but no faster than with the number of cells. Where one is longer, none of the notebook is."""

COLOURED_LINE = 2_000
"""Longest line of code that is coloured, in characters."""

BLANK_LINES = 100
"""Most blank lines that follow one another in code that is shown."""

PICTURE_SHOWN = 4_000_000
"""Most characters (base64) of one picture."""

ORIGINAL = "fxopt_markdown"
"""Cell metadata that keeps the Markdown of a text cell whose rendered form is shown."""

TAGS = set(
    "a abbr b blockquote br caption code dd del details div dl dt em h1 h2 h3 h4 h5 h6 hr i img ins kbd li mark ol p "
    "pre q s samp small span strong sub summary sup table tbody td tfoot th thead tr u ul var".split()
)
"""Elements that may be shown."""

ATTRIBUTES = {"a": {"href", "title"}, "img": {"src", "alt", "title", "width", "height"}} | {
    cell: {"colspan", "rowspan", "align", "scope"} for cell in ("td", "th")
}
"""Attributes that they may have. No `id`, `class`, `name` or `style`: the pages' own scripts and styles go by them."""

RENDERED = ("text/html", "text/markdown")
"""Kinds of display that are read and written anew."""

_LINK = re.compile(r"(https?://|mailto:|#)", re.IGNORECASE)
_EMBEDDED = re.compile(rf"data:({'|'.join(PICTURES)});base64,[A-Za-z0-9+/=\s]*")
_TAG = re.compile(r"<(/?)([a-z0-9]+)")
_VOID = frozenset({"br", "hr", "img"})


class _Markdown(MarkdownIt):
    """Markdown whose addresses are those that may be shown."""

    def validateLink(self, url: str) -> bool:  # noqa: N802 (its name in markdown-it)
        """Whether an address may stand in a link or a picture."""
        return bool(_LINK.match(url) or _EMBEDDED.fullmatch(url))


_MARKDOWN = _Markdown("commonmark", {"html": False}).enable(["table", "strikethrough"])


def safe_html(text: str) -> str:
    """HTML of anybody as HTML that can stand in a page. What is too long or too deep is shown as text."""
    if len(text) > TEXT_SHOWN or text.count("<") > TAGS_SHOWN:
        return as_text(text)
    clean = _cleaned(text)
    return clean if _nesting(clean) <= NESTING_SHOWN else as_text(text)


def _cleaned(text: str) -> str:
    return nh3.clean(
        text,
        tags=TAGS,
        attributes=ATTRIBUTES,
        attribute_filter=_allowed,
        url_schemes={"http", "https", "mailto", "data"},
        link_rel="noopener noreferrer nofollow",
    )


def _allowed(element: str, attribute: str, value: str) -> str | None:
    if attribute == "href":
        return value if _LINK.match(value) else None
    if attribute == "src":
        # Nothing is fetched for showing a submission: not from outside, and not from this server.
        return value if _EMBEDDED.fullmatch(value) else None
    return value


def _nesting(clean: str) -> int:
    """How deeply the elements of well-formed HTML nest."""
    depth = deepest = 0
    for closing, name in _TAG.findall(clean):
        if name not in _VOID:
            depth += -1 if closing else 1
            deepest = max(deepest, depth)
    return deepest


def as_text(text: str) -> str:
    """Text as HTML that shows it as it is, at most `CUT` characters of it."""
    left = f"\n… {len(text) - CUT:,} more characters" if len(text) > CUT else ""
    return f"<pre>{html.escape(text[:CUT] + left)}</pre>"


def markdown_as_html(text: str, pictures: dict[str, Any] | None = None) -> str:
    """Markdown of anybody as HTML that can stand in a page; HTML inside it is shown as text.

    Args:
        text: the Markdown.
        pictures: what `attachment:` addresses mean (base64 by kind, by name).
    """
    if len(text) > TEXT_SHOWN:
        return as_text(text)
    for name, data in (pictures or {}).items():
        kind, content = next(iter(data.items()))
        if kind in PICTURES and is_base64(content) and len(content) <= PICTURE_SHOWN:
            text = text.replace(f"(attachment:{name})", f"(data:{kind};base64,{''.join(content.split())})")
    return _cleaned(_MARKDOWN.render(text))


def one_block(safe: str) -> str:
    """Safe HTML as a single line that any Markdown renderer hands through untouched.

    A line end could end the block, a dollar or a backslash begin a formula, and a bracket a link, which the templates
    look for in time that grows with the square of how many there are.
    """
    for sign in "\r\n$\\[":
        safe = safe.replace(sign, f"&#{ord(sign)};")
    return f"<div>{safe}</div>"


class SafeToShow(NbGraderPreprocessor):
    """Makes a graded notebook safe to show. The last step of grading: points and checksums are of the original."""

    course_root = Unicode(help="Root folder of the course.").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        """Rebuild the notebook's cells and outputs."""
        names = resources["nbgrader"]
        course = Course(Path(self.course_root))
        release = released(course, names["assignment"], names["notebook"])
        make_safe(nb, {cell.source for cell in release.cells})
        return nb, resources


def make_safe(notebook: NotebookNode, ours: Iterable[str]) -> None:
    """Rebuild a graded notebook, in place, so that it can be shown to anybody.

    Args:
        notebook: the graded notebook.
        ours: texts of the released notebook's cells; what is equal to one of them stays as it is.
    """
    trusted = set(ours)
    room, text_room = OUTPUTS_SHOWN, TEXTS_SHOWN
    notebook.metadata = NotebookNode(
        {key: notebook.metadata[key] for key in ("kernelspec",) if key in notebook.metadata}
    )
    # Not `ipython3`: it reads a cell that begins with `%%perl` or `%%html` as that language, for some of which the time
    # grows with the square of the length.
    lexer = "python3" if all(map(_may_be_coloured, notebook.cells)) else "text"
    notebook.metadata["language_info"] = NotebookNode(name="python", pygments_lexer=lexer)
    for cell in notebook.cells:
        kept = {key: cell.metadata[key] for key in ("nbgrader",) if key in cell.metadata}
        pictures = cell.pop("attachments", None)
        if cell.cell_type == "code":
            cell.source = _without_long_gaps(cell.source)
            room = _safe_outputs(cell, room)
        elif cell.source not in trusted or cell.cell_type != "markdown":
            rendered = cell.cell_type == "markdown" and len(cell.source) <= min(TEXT_SHOWN, text_room)
            text_room -= len(cell.source) if rendered else 0
            shown = markdown_as_html(cell.source, pictures) if rendered else as_text(cell.source)
            kept[ORIGINAL] = cell.source[:TEXT_SHOWN]
            cell.cell_type, cell.source = "markdown", one_block(shown)
        cell.metadata = NotebookNode(kept)


def _may_be_coloured(cell: NotebookNode) -> bool:
    """Whether a cell does not keep its notebook's code from being coloured."""
    return cell.cell_type != "code" or (
        len(cell.source) <= COLOURED and all(len(line) <= COLOURED_LINE for line in cell.source.splitlines())
    )


def _without_long_gaps(source: str) -> str:
    """Code of which at most `BLANK_LINES` blank lines follow one another.

    What colours code looks at each of them for the end of the gap: its time grows with the square of their number.
    """
    kept: list[str] = []
    blank = 0
    for line in source.split("\n"):
        blank = 0 if line.strip() else blank + 1
        if blank <= BLANK_LINES:
            kept.append(line)
    return "\n".join(kept)


def _safe_outputs(cell: NotebookNode, room: int) -> int:
    """Rebuild the outputs of a code cell; how many characters the cells after it may still show."""
    kept: list[NotebookNode] = []
    for output in cell.get("outputs", []):
        safe = _safe_output(output) if room > 0 else None
        size = 0 if safe is None else max(_shown(safe), _rendered(output))
        if safe is None or size > room:
            kept.append(NotebookNode(output_type="stream", name="stderr", text="… further output was left out\n"))
            room = 0
            break
        room -= size
        kept.append(safe)
    cell.outputs = kept
    return room


def _shown(safe: NotebookNode) -> int:
    """How many characters of an output are shown."""
    size = sum(len(str(value)) for value in [*safe.get("data", {}).values(), safe.get("text", "")])
    return size + sum(map(len, safe.get("traceback", [])))


def _rendered(output: NotebookNode) -> int:
    """How many characters of an output were rendered, which takes time also where nothing is left of them."""
    return sum(min(len(output.get("data", {}).get(kind, "")), TEXT_SHOWN) for kind in RENDERED)


def _safe_output(output: NotebookNode) -> NotebookNode:
    kind = output.output_type
    if kind == "stream":
        return NotebookNode(output_type=kind, name=output.name, text=_cut(output.text))
    if kind == "error":
        lines = [_cut(str(line)) for line in output.traceback[:1000]]
        return NotebookNode(output_type=kind, ename=output.ename, evalue=_cut(output.evalue), traceback=lines)
    data = {}
    for name, value in output.data.items():
        if name == "text/plain":
            data[name] = _cut(value)
        elif name == "text/html":
            data[name] = safe_html(value)
        elif name == "text/markdown":
            data["text/html"] = markdown_as_html(value)
        elif name == "image/svg+xml" and len(value) <= PICTURE_SHOWN:
            # The templates show it as a picture of its own, in which a browser runs and fetches nothing.
            data[name] = value
        elif name in PICTURES and len(value) <= PICTURE_SHOWN and is_base64(value):
            data[name] = value
    if not data:
        data["text/plain"] = f"(a display of a kind that is not shown: {', '.join(output.data)[:200] or 'empty'})"
    told = {key: str(output.metadata[key])[:200] for key in ("title", "status") if key in output.get("metadata", {})}
    safe = NotebookNode(output_type=kind, data=NotebookNode(data), metadata=NotebookNode(told))
    if kind == "execute_result":
        safe["execution_count"] = None
    return safe


def _cut(text: str) -> str:
    return text if len(text) <= OUTPUT_SHOWN else text[:OUTPUT_SHOWN] + "\n… further output was left out\n"
