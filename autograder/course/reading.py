"""Reading notebooks that anybody may have written. Imports no torch.

What a notebook holds beside its cells' text decides nothing here, so it is never built in memory: outputs, widgets and
unknown metadata are passed over where they stand. So a small file cannot become gigabytes of objects, and nothing that
is only shown (a title, a language, a plug-in's data) can make an answer unreadable.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import json
import os
import re
import stat
import warnings
from pathlib import Path
from typing import Any

import msgspec
import nbformat
from nbformat import NotebookNode

from autograder.exchange.verdict import one_line

SIZE_LIMIT = 100 * 1024 * 1024
"""Largest notebook file that is read at all, in bytes."""

CODE_LIMIT = 2 * 1024 * 1024
"""Most characters of code that the cells of one notebook may hold together."""

TEXT_LIMIT = 4 * 1024 * 1024
"""Most characters of text and code that the cells of one notebook may hold together."""

CELL_LIMIT = 5_000
"""Most cells of one notebook."""

LENIENT_LIMIT = 8 * 1024 * 1024
"""Largest file, in bytes, of an odd notebook (an old format, `NaN` in an output) that Python's own JSON reader gets."""

ENTRY_LIMIT = 500_000
"""Most values, lists and objects that Python's own JSON reader may meet in it; it needs some 100 bytes for each."""

PICTURE_LIMIT = 4 * 1024 * 1024
"""Most characters (base64) of pictures that the text cells of one notebook may bring along."""

PICTURES = ("image/png", "image/jpeg", "image/gif")
"""Kinds of picture that a text cell may bring along."""

REPLACED = "\ufffd"
"""What Unicode puts in the place of a character that cannot be read."""

CELLS_NAMED = 10
"""How many damaged cells a line about them names."""

_IDENTIFIER = re.compile(r"[A-Za-z0-9_-]{1,64}")

_ENCODINGS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    # Before UTF-16: its mark begins with that of UTF-16.
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)

_NOTHING = msgspec.Raw(b"null")

NOT_READ = "fxopt_not_read"
"""Metadata of a notebook: a line for each thing in it that could not be read, where the rest could."""


class UnreadableNotebookError(ValueError):
    """The file is no notebook; the message is one line that says why and what to do."""


class _Cell(msgspec.Struct):
    """What is read of a cell; the rest is passed over."""

    cell_type: str
    source: msgspec.Raw = _NOTHING
    metadata: msgspec.Raw = _NOTHING
    id: msgspec.Raw = _NOTHING
    attachments: msgspec.Raw = _NOTHING


class _Document(msgspec.Struct):
    """What is read of a notebook."""

    cells: list[_Cell]
    nbformat: int
    metadata: msgspec.Raw = _NOTHING


class _Metadata(msgspec.Struct):
    """Metadata of a notebook or a cell, as far as it may matter."""

    nbgrader: msgspec.Raw = _NOTHING
    tags: msgspec.Raw = _NOTHING
    kernelspec: msgspec.Raw = _NOTHING


_Scalars = dict[str, str | int | float | bool | None]


def read_notebook(path: Path) -> NotebookNode:
    """Read a notebook from disk, upgraded to the current format, without outputs (see `parse_notebook`).

    Raises:
        UnreadableNotebookError: missing, too large, not JSON, or JSON that is not a notebook.
    """
    return parse_notebook(path.name, read_content(path))


def read_content(path: Path) -> bytes:
    """The bytes of a notebook's file.

    Raises:
        UnreadableNotebookError: missing, no file, or too large.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        raise UnreadableNotebookError(f"{path.name}: there is no such notebook") from None
    except OSError as error:
        raise UnreadableNotebookError(f"{path.name}: this file cannot be opened ({error.strerror})") from error
    return read_descriptor(descriptor, path.name)


def read_descriptor(descriptor: int, name: str, *, own_links_only: bool = False) -> bytes:
    """The bytes behind an open file, which is closed. `name` is for messages.

    Args:
        descriptor: opened for reading with `O_NONBLOCK`, so that a named pipe keeps nobody waiting.
        name: the file's name.
        own_links_only: refuse a file that has a second name elsewhere (a hard link).

    Raises:
        UnreadableNotebookError: no regular file, or too large.
    """
    try:
        state = os.fstat(descriptor)
        refusal = ""
        if stat.S_ISDIR(state.st_mode):
            refusal = "this is a folder, not a notebook"
        elif not stat.S_ISREG(state.st_mode):
            refusal = "this is no regular file (a device, a pipe or a socket)"
        elif own_links_only and state.st_nlink > 1:
            refusal = "this file is a hard link, the second name of another file; hand in a copy of your notebook"
        elif state.st_size > SIZE_LIMIT:
            refusal = (
                f"{state.st_size / 2**20:.0f} MiB is more than the {SIZE_LIMIT / 2**20:.0f} MiB that are read; "
                "clear the outputs (Edit, Clear Outputs of All Cells), save, and submit again"
            )
        if refusal:
            raise UnreadableNotebookError(f"{name}: {refusal}")
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(SIZE_LIMIT)
    finally:
        os.close(descriptor)


def parse_notebook(name: str, content: bytes) -> NotebookNode:
    """The notebook in the bytes of a file, upgraded to the current format. `name` is for messages.

    Kept are the cells (type, text, nbgrader's metadata, tags, pictures in text cells) and the kernel's name. What is
    harmless is put right: another encoding than UTF-8 that says so (a byte-order mark), Windows' ends of lines, ids
    that are missing or odd or there twice, characters that cannot be written again (lone surrogates), nbgrader
    metadata that names no cell, a format that is not stated. A cell that cannot be read becomes an empty one, and
    characters that cannot be read become signs that say so; a line under `NOT_READ` in the metadata names them.

    Raises:
        UnreadableNotebookError: not JSON, or JSON that is not a notebook, or too much text.
    """
    encoding = next((encoding for mark, encoding in _ENCODINGS if content.startswith(mark)), "utf-8")
    lost = 0
    try:
        content = content.decode(encoding).encode()
    except UnicodeError:
        text = content.decode(encoding, errors="replace")
        lost = text.count(REPLACED) - content.count(REPLACED.encode())
        content = text.encode()
    notebook = _parsed(name, content)
    if lost > 0:
        notebook.metadata.setdefault(NOT_READ, []).append(
            f"{lost} characters of the file are not in UTF-8 and became {REPLACED!r}; save the notebook in JupyterLab"
        )
    return notebook


def _parsed(name: str, content: bytes) -> NotebookNode:
    if content.count(b'"cell_type"') > CELL_LIMIT:
        raise _too_many_cells(name)
    try:
        document = msgspec.json.decode(content, type=_Document)
        if document.nbformat != 4:
            raise msgspec.ValidationError("another format")
        return _checked(name, document)
    except (msgspec.DecodeError, RecursionError):
        document = _read_leniently(name, content)
    try:
        return _checked(name, document)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _not_a_notebook(name, error) from error


def _too_many_cells(name: str) -> UnreadableNotebookError:
    return UnreadableNotebookError(f"{name}: it has more than the {CELL_LIMIT} cells that are read")


def _not_json(name: str, error: Exception) -> UnreadableNotebookError:
    return UnreadableNotebookError(
        f"{name}: this file is not JSON, so it is no notebook ({one_line(error, 100)}); "
        "open it in JupyterLab, save it there, and submit again"
    )


def _not_a_notebook(name: str, error: Exception | str) -> UnreadableNotebookError:
    first_line = (str(error).strip() or type(error).__name__).splitlines()[0]
    return UnreadableNotebookError(
        f"{name}: JSON, but not a notebook ({one_line(first_line, 120)}); "
        "fetch a fresh copy and paste your answers into it"
    )


def _read_leniently(name: str, content: bytes) -> _Document:
    """What strict JSON does not allow but notebooks hold (`NaN`, lone surrogates), and formats before the fourth."""
    too_large = len(content) > LENIENT_LIMIT or sum(content.count(sign) for sign in (b",", b"[", b"{")) > ENTRY_LIMIT
    try:
        if too_large:
            # Only to say what is wrong: this builds nothing.
            msgspec.json.decode(content, type=msgspec.Raw)
        document = None if too_large else json.loads(content.decode())
    except (ValueError, RecursionError, msgspec.DecodeError) as error:
        raise _not_json(name, error) from error
    if too_large:
        raise _not_a_notebook(name, "it is large, and damaged or of an old format")
    try:
        if isinstance(document, dict) and "cells" not in document:
            with warnings.catch_warnings():
                # Ids that are missing or repeated are harmless here, and old tools write such files.
                warnings.simplefilter("ignore")
                document = nbformat.reads(json.dumps(document), as_version=4)
        if not isinstance(document, dict):
            raise ValueError("no object")
        if not isinstance(document.get("cells"), list):
            raise ValueError("it has no list of cells")
        if len(document["cells"]) > CELL_LIMIT:
            raise _too_many_cells(name)
        # What has cells is of the fourth format, whatever it says of itself.
        kept = {"cells": [_of_a_cell(cell) for cell in document["cells"]], "nbformat": 4}
        kept["metadata"] = document.get("metadata")
        text = json.dumps(_without_surrogates(kept), ensure_ascii=False)
        # `NaN` and its like stand in metadata at most, where nobody reads them.
        return msgspec.json.decode(re.sub(r"(?<=[\s:\[,])-?(NaN|Infinity)(?=[\s,\]}])", "null", text), type=_Document)
    except UnreadableNotebookError:
        raise
    except Exception as error:  # nbformat raises many types for malformed structure
        raise _not_a_notebook(name, error) from error


def _of_a_cell(cell: Any) -> dict[str, Any]:
    """What is read of a cell of any form; a source that nobody can read stands where there is none."""
    known = cell if isinstance(cell, dict) else {}
    kept = {key: known[key] for key in ("source", "metadata", "id", "attachments") if key in known}
    if isinstance(known.get("cell_type"), str):
        return kept | {"cell_type": known["cell_type"]}
    return kept | {"cell_type": "raw", "source": False}


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return writable(value)
    if isinstance(value, list):
        return [_without_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {writable(key): _without_surrogates(item) for key, item in value.items()}
    return value


def writable(text: str) -> str:
    """Text without lone surrogates, which Python prints but nobody can write to a file."""
    return text.encode(errors="replace").decode()


def _checked(name: str, document: _Document) -> NotebookNode:
    """The notebook, of whose raw parts each is decoded only after its size was looked at."""
    if len(document.cells) > CELL_LIMIT:
        raise _too_many_cells(name)
    # A character takes at most six bytes in JSON.
    if sum(len(memoryview(cell.source)) for cell in document.cells) > 6 * TEXT_LIMIT:
        raise _too_long(name, "text", TEXT_LIMIT)
    notebook = nbformat.v4.new_notebook()
    notebook.nbformat_minor = 5
    kernel = _decoded(_decoded(document.metadata, _Metadata, _Metadata()).kernelspec, _Scalars, {})
    if kernel:
        known = {key: str(value)[:80] for key, value in kernel.items()}
        # Without these two no notebook can be written.
        name_of_kernel = known.setdefault("name", known.get("language", "python"))
        known.setdefault("display_name", name_of_kernel)
        notebook.metadata["kernelspec"] = NotebookNode(known)
    seen: set[str] = set()
    pictures = PICTURE_LIMIT
    for index, cell in enumerate(document.cells):
        built, pictures = _built(cell, index, seen, pictures)
        notebook.cells.append(built)
    if unread := [str(number) for number, cell in enumerate(document.cells, start=1) if _source_of(cell) is None]:
        shown = ", ".join(unread[:CELLS_NAMED]) + ", …" * (len(unread) > CELLS_NAMED)
        notebook.metadata[NOT_READ] = [f"these cells are damaged and count as empty (by number): {shown}"]
    for kinds, what, most in ((("code",), "code", CODE_LIMIT), (("code", "markdown", "raw"), "text", TEXT_LIMIT)):
        if sum(len(cell.source) for cell in notebook.cells if cell.cell_type in kinds) > most:
            raise _too_long(name, what, most)
    return notebook


def _too_long(name: str, what: str, most: int) -> UnreadableNotebookError:
    return UnreadableNotebookError(
        f"{name}: its cells hold more than the {most / 2**20:.0f} MiB of {what} that are read; was data pasted into a "
        "cell?"
    )


def _decoded(raw: msgspec.Raw, kind: Any, otherwise: Any) -> Any:
    """A part of the file, or `otherwise` where it is not of that kind (odd metadata decides nothing)."""
    if len(memoryview(raw)) > LENIENT_LIMIT:
        return otherwise
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, RecursionError):
        return otherwise


def _source_of(cell: _Cell) -> str | None:
    """The text of a cell; `None` where there is something in its place that is no text."""
    try:
        source: str | list[str] | None = msgspec.json.decode(cell.source, type=str | list[str] | None)
    except (msgspec.DecodeError, RecursionError):
        return None
    return source if isinstance(source, str) else "".join(source or ())


def _built(cell: _Cell, index: int, seen: set[str], pictures: int) -> tuple[NotebookNode, int]:
    """One cell, and how many characters of pictures the cells after it may still bring along."""
    text = (_source_of(cell) or "").replace("\r\n", "\n")
    # What is neither code nor text is shown as it is and run by nobody.
    kind = cell.cell_type if cell.cell_type in ("code", "markdown") else "raw"
    built = getattr(nbformat.v4, f"new_{kind}_cell")(text)
    identifier = _decoded(cell.id, str, "")
    if identifier in seen or not _IDENTIFIER.fullmatch(identifier):
        identifier = f"repaired-{index}"
    seen.add(identifier)
    built["id"] = identifier
    metadata = _decoded(cell.metadata, _Metadata, _Metadata())
    nbgrader = _decoded(metadata.nbgrader, _Scalars, {})
    if isinstance(nbgrader.get("grade_id"), str):
        built.metadata["nbgrader"] = NotebookNode(nbgrader)
    if tags := _decoded(metadata.tags, list[str], []):
        built.metadata["tags"] = tags
    if kind == "markdown" and len(memoryview(cell.attachments)) <= pictures:
        attachments = _pictures(_decoded(cell.attachments, dict[str, dict[str, Any]], {}))
        if attachments:
            built["attachments"] = NotebookNode(attachments)
            pictures -= len(memoryview(cell.attachments))
    return built, pictures


def _pictures(attachments: dict[str, dict[str, Any]]) -> dict[str, NotebookNode]:
    """Of what a text cell brings along, the pictures."""
    found: dict[str, NotebookNode] = {}
    for name, data in attachments.items():
        kept = {kind: value for kind, value in data.items() if kind in PICTURES and is_base64(value)}
        if kept and len(name) < 200:
            found[name] = NotebookNode(kept)
    return found


def is_base64(value: Any) -> bool:
    """Whether this is text that stands for bytes, and holds nothing else (spaces and line ends apart)."""
    if not isinstance(value, str):
        return False
    try:
        base64.b64decode("".join(value.split()), validate=True)
    except (binascii.Error, ValueError):
        return False
    return True
