"""Graph breaks in words: what Dynamo could not do, PyTorch's number for it, and what PyTorch advises."""

from __future__ import annotations

import re
from dataclasses import replace

from fxopt_core.capture.dynamo_log import GraphBreak

_AFTER_THE_REASON = re.compile(r"\n\n(?:Stack variable source attribution|User code traceback):.*", re.DOTALL)
_ANOTHER = re.compile(r"\n\n\*\*\* While handling this graph break, another graph break occurred: \*\*\*\n\n")
_EXPLANATION = re.compile(r"\n  Explanation: (?P<text>.*?)(?=\n  Hint: |\n\n  Developer debug context: |\Z)", re.DOTALL)
_HINT = re.compile(r"\n  Hint: (?P<text>.*?)(?=\n  Hint: |\n\n  Developer debug context: |\Z)", re.DOTALL)
_DOCUMENTATION = re.compile(r"please visit: (?P<url>\S+)")
_IDENTIFIER = re.compile(r"gb(?P<digits>\d+)")
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_PREAMBLE = re.compile(r"^(?:Encountered graph break|Failed to handle graph break).*?\n\n", re.DOTALL)


def explain_breaks(breaks: tuple[GraphBreak, ...]) -> tuple[GraphBreak, ...]:
    """Graph breaks as Dynamo wrote them, in a line or two each; the same break at the same line is one, counted."""
    found: dict[tuple[str, int, str], list[GraphBreak]] = {}
    for graph_break in map(_explained, breaks):
        cause = graph_break.reason.splitlines()[0]
        found.setdefault((graph_break.file, graph_break.line, cause), []).append(graph_break)
    return tuple(
        replace(max(same, key=lambda graph_break: graph_break.skips_function), times=len(same))
        for same in found.values()
    )


def _explained(graph_break: GraphBreak) -> GraphBreak:
    text = _PREAMBLE.sub("", _AFTER_THE_REASON.sub("", graph_break.reason))
    cause, *consequences = _ANOTHER.split(text)
    documentation = _DOCUMENTATION.search(cause)
    return replace(
        graph_break,
        reason="\n".join([_headline(cause), *(f"Therefore: {_headline(text)}" for text in consequences)]),
        hints=tuple(_one_line(match["text"]) for match in _HINT.finditer(cause)),
        documentation=documentation["url"] if documentation else None,
    )


def _headline(text: str) -> str:
    """Kind of break, explanation and PyTorch's number for it, in one line."""
    kind = _one_line(text.split("\n", 1)[0])
    explanation = _EXPLANATION.search(text)
    # Further lines repeat the traced operations or the source, which differ from one stop at a line to the next.
    parts = [
        f"{kind}: {_one_line(explanation['text'].splitlines()[0])}" if explanation and explanation["text"] else kind
    ]
    documentation = _DOCUMENTATION.search(text)
    number = _IDENTIFIER.search(documentation["url"]) if documentation else None
    if number:
        parts.append(f"[GB{number['digits']}]")
    return " ".join(parts)


def _one_line(text: str) -> str:
    return _ADDRESS.sub("", " ".join(text.split()))
