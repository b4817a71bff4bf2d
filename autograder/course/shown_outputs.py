"""What a learner's cells showed when they handed in, for cells that grading does not run. Imports no torch.

Nothing is graded by it: a person who reads an answer in words wants to see the measurement that it speaks of. The
outputs are the learner's word, so they are read within a budget and made safe before anybody sees them.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec

from autograder.course.notebooks import clean_outputs
from autograder.exchange.channel import MalformedMessageError

BYTES_READ = 8 * 1024 * 1024
"""Most bytes of outputs of one notebook that are read at all."""

AS_HANDED_IN = "[as handed in: grading did not run this cell]\n"

_NOTHING = msgspec.Raw(b"null")


class _Output(msgspec.Struct):
    output_type: str
    name: str = "stdout"
    text: str | list[str] = ""
    data: dict[str, msgspec.Raw] = {}
    ename: str = ""
    evalue: str = ""
    traceback: list[str] = []


class _Cell(msgspec.Struct):
    id: str = ""
    outputs: msgspec.Raw = _NOTHING


class _Notebook(msgspec.Struct):
    cells: list[_Cell]


def handed_in_outputs(content: bytes) -> dict[str, list[dict[str, Any]]]:
    """Outputs by the id of their cell, of those cells whose outputs can be read; each begins by saying what it is."""
    try:
        cells = msgspec.json.decode(content, type=_Notebook).cells
    except (msgspec.DecodeError, RecursionError):
        return {}
    found: dict[str, list[dict[str, Any]]] = {}
    room = BYTES_READ
    for cell in cells:
        size = len(memoryview(cell.outputs))
        if not cell.id or cell.id in found or size > room:
            continue
        room -= size
        try:
            outputs = msgspec.json.decode(cell.outputs, type=list[_Output] | None) or []
            clean, _ = clean_outputs([_plain(output) for output in outputs], 2 * size + 1000)
        except (msgspec.DecodeError, RecursionError, MalformedMessageError):
            continue
        if clean:
            found[cell.id] = [{"output_type": "stream", "name": "stdout", "text": AS_HANDED_IN}, *clean]
    return found


def _plain(output: _Output) -> dict[str, Any]:
    """An output as the learner's side reports those of cells that it runs."""
    if output.output_type == "stream":
        return {"output_type": "stream", "name": output.name, "text": _joined(output.text)}
    if output.output_type == "error":
        lines = {"ename": output.ename, "evalue": output.evalue, "traceback": output.traceback}
        return {"output_type": "error", **lines}
    texts = {}
    for kind, raw in output.data.items():
        with suppress(msgspec.DecodeError):  # of a kind that is no text, such as JSON or a widget
            texts[kind] = _joined(msgspec.json.decode(raw, type=str | list[str]))
    return {"output_type": "display_data", "data": texts}


def _joined(text: str | list[str]) -> str:
    return text if isinstance(text, str) else "".join(text)
