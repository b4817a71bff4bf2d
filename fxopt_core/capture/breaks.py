"""Graph breaks: where Dynamo ended a graph, and why."""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

_PLACE = re.compile(
    r"^Graph break .*?in user code at (?P<file>.+):(?P<line>\d+)\nGraph Break Reason: (?P<reason>.*)", re.DOTALL
)
_AFTER_THE_REASON = re.compile(r"\n\n(?:Stack variable source attribution|User code traceback):.*", re.DOTALL)
_ANOTHER = re.compile(r"\n\n\*\*\* While handling this graph break, another graph break occurred: \*\*\*\n\n")
_EXPLANATION = re.compile(r"\n  Explanation: (?P<text>.*?)(?=\n  Hint: |\n\n  Developer debug context: |\Z)", re.DOTALL)
_HINT = re.compile(r"\n  Hint: (?P<text>.*?)(?=\n  Hint: |\n\n  Developer debug context: |\Z)", re.DOTALL)
_DOCUMENTATION = re.compile(r"please visit: (?P<url>\S+)")
_IDENTIFIER = re.compile(r"gb(?P<digits>\d+)")
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_PREAMBLE = re.compile(r"^(?:Encountered graph break|Failed to handle graph break).*?\n\n", re.DOTALL)
_LEFT_TO_PYTHON = re.compile(r"falling back to eager|then skipping the rest of the function")


@dataclass(frozen=True)
class GraphBreak:
    """One place where Dynamo had to end a graph.

    Attributes:
        reason: the first line says what it could not do and PyTorch's number for it (`[GB0059]`); where the
            break had a further consequence, a second line says which.
        file: file of the line that could not be captured, or `<ipython-input-…>` in a notebook.
        line: its number, from 1.
        source: the line itself, without indentation; empty where Python cannot find it.
        hints: what PyTorch advises.
        documentation: address of PyTorch's page about this kind of break, where there is one.
        skips_function: whether Dynamo left (the rest of) the whole function to Python, so that
            nothing of it is in any graph.
        times: how often Dynamo stopped there. A break inside a called function counts for the caller
            and for the function.
    """

    reason: str
    file: str
    line: int
    source: str
    hints: tuple[str, ...] = field(default=(), compare=False)
    documentation: str | None = field(default=None, compare=False)
    skips_function: bool = False
    times: int = 1

    @property
    def location(self) -> str:
        """`file:line`, which editors and terminals make a link of."""
        return f"{self.file}:{self.line}"


def graph_breaks(messages: Iterable[str]) -> tuple[GraphBreak, ...]:
    """Read the messages of Dynamo's `graph_breaks` log; the same break at the same line is one, counted.

    Messages of another form (there are none in torch 2.13) are no graph breaks and left out.
    """
    found: dict[tuple[str, int, str], list[GraphBreak]] = {}
    for message in messages:
        place = _PLACE.match(message)
        if place is not None:
            graph_break = _read(place["file"], int(place["line"]), place["reason"])
            cause = graph_break.reason.splitlines()[0]
            found.setdefault((graph_break.file, graph_break.line, cause), []).append(graph_break)
    return tuple(_as_one(same) for same in found.values())


def _as_one(same: list[GraphBreak]) -> GraphBreak:
    worst = max(same, key=lambda graph_break: graph_break.skips_function)
    return GraphBreak(
        worst.reason,
        worst.file,
        worst.line,
        worst.source,
        worst.hints,
        worst.documentation,
        worst.skips_function,
        len(same),
    )


def _read(file: str, line: int, text: str) -> GraphBreak:
    skips_function = _LEFT_TO_PYTHON.search(text) is not None
    text = _PREAMBLE.sub("", _AFTER_THE_REASON.sub("", text))
    cause, *consequences = _ANOTHER.split(text)
    documentation = _DOCUMENTATION.search(cause)
    return GraphBreak(
        reason="\n".join([_headline(cause), *(f"Therefore: {_headline(text)}" for text in consequences)]),
        file=file,
        line=line,
        source=linecache.getline(file, line).strip(),
        hints=tuple(_one_line(match["text"]) for match in _HINT.finditer(cause)),
        documentation=documentation["url"] if documentation else None,
        skips_function=skips_function,
    )


def _headline(text: str) -> str:
    """Kind of break, explanation and PyTorch's number for it, in one line."""
    kind = _one_line(text.split("\n", 1)[0])
    explanation = _EXPLANATION.search(text)
    # Further lines repeat the traced operations or the source, which differ from one stop at a line to the next.
    parts = [f"{kind}: {_one_line(explanation['text'].splitlines()[0])}" if explanation else kind]
    documentation = _DOCUMENTATION.search(text)
    number = _IDENTIFIER.search(documentation["url"]) if documentation else None
    if number:
        parts.append(f"[GB{number['digits']}]")
    return " ".join(parts)


def _one_line(text: str) -> str:
    return _ADDRESS.sub("", " ".join(text.split()))
