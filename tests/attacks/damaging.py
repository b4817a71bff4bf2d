"""Damages notebooks, as disks, editors, mail programs and curious people do, and by rules that no one follows."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

ODD: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1e308,
    float("nan"),
    10**40,
    "",
    "x" * 5000,
    "\ud800",
    "\x00\x1b[2J",
    "<script>1</script>",
    "../../etc/passwd",
    [],
    {},
    [[]],
    {"a": {"b": []}},
    [None, 1, "a"],
)
"""Values of every kind, none of which belongs where it will stand."""

KEYS = (
    "cells",
    "metadata",
    "nbformat",
    "nbformat_minor",
    "cell_type",
    "source",
    "id",
    "nbgrader",
    "grade_id",
    "outputs",
)
"""Keys that mean something in a notebook."""


def damaged(content: bytes, seed: int) -> bytes:
    """The bytes of a notebook after up to four kinds of damage to what it holds, and up to two to its bytes."""
    random = Random(seed)
    structural: list[Callable[[Any, Random], Any]] = [_another_value, _without, _twice, _moved, _deeper, _other_key]
    document = json.loads(content)
    for _ in range(random.choice((0, 1, 1, 2, 4))):
        document = random.choice(structural)(document, random)
    try:
        text = json.dumps(document, ensure_ascii=random.random() < 0.5).encode(errors="surrogatepass")
    except (ValueError, RecursionError):
        text = content
    raw: list[Callable[[bytes, Random], bytes]] = [_cut, _flipped, _repeated, _spliced, _encoded, _framed]
    for _ in range(random.choice((0, 0, 1, 1, 2))):
        text = random.choice(raw)(text, random)
    return text


def _places(value: Any, random: Random) -> tuple[Any, Any]:
    """A container somewhere in the document, and a key or an index of it."""
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        key = random.choice(keys)
        inner = value[key]
        if not isinstance(inner, (dict, list)) or not inner or random.random() < 0.3:
            return value, key
        value = inner


def _in_place(change: Callable[[Any, Any, Random], None]) -> Callable[[Any, Random], Any]:
    def apply(document: Any, random: Random) -> Any:
        if not isinstance(document, (dict, list)) or not document:
            return document
        change(*_places(document, random), random)
        return document

    return apply


@_in_place
def _another_value(container: Any, key: Any, random: Random) -> None:
    container[key] = random.choice(ODD)


@_in_place
def _without(container: Any, key: Any, random: Random) -> None:
    del container[key]


@_in_place
def _twice(container: Any, key: Any, random: Random) -> None:
    if isinstance(container, list):
        container[key:key] = [container[key]] * random.choice((1, 2, 50))
    else:
        container[random.choice(KEYS)] = container[key]


@_in_place
def _moved(container: Any, key: Any, random: Random) -> None:
    if isinstance(container, list):
        random.shuffle(container)
    else:
        container[random.choice(KEYS)] = container.pop(key)


@_in_place
def _deeper(container: Any, key: Any, random: Random) -> None:
    value = container[key]
    for _ in range(random.choice((1, 5, 400))):
        value = [value] if random.random() < 0.5 else {"a": value}
    container[key] = value


@_in_place
def _other_key(container: Any, key: Any, random: Random) -> None:
    if isinstance(container, dict):
        container[random.choice(("", "\ud800", "__class__", "a" * 300, *KEYS))] = random.choice(ODD)


def _cut(text: bytes, random: Random) -> bytes:
    start, end = sorted(random.randrange(len(text) + 1) for _ in range(2))
    return random.choice((text[:start], text[start:], text[:start] + text[end:]))


def _flipped(text: bytes, random: Random) -> bytes:
    changed = bytearray(text)
    for _ in range(random.choice((1, 8, 200))):
        if changed:
            changed[random.randrange(len(changed))] = random.randrange(256)
    return bytes(changed)


def _repeated(text: bytes, random: Random) -> bytes:
    start = random.randrange(len(text) + 1)
    part = text[start : start + random.choice((1, 40, 4000))]
    return text[:start] + part * random.choice((2, 9)) + text[start:]


def _spliced(text: bytes, random: Random) -> bytes:
    start = random.randrange(len(text) + 1)
    between = random.choice(
        (b"NaN", b"\\ud800", b"\x00", b"\xff", b"]}", b"[" * 500, b'"', b"1e999999", b"/* */", b",")
    )
    return text[:start] + between + text[start:]


def _encoded(text: bytes, random: Random) -> bytes:
    kind = random.choice(("utf-16", "utf-32", "utf-8-sig", "latin-1", "utf-16-le"))
    return text.decode(errors="replace").encode(kind, errors="replace")


def _framed(text: bytes, random: Random) -> bytes:
    before, after = random.choice(
        ((b"\xef\xbb\xbf", b""), (b"\n\n", b"\n"), (b"", text), (b"<<<<<<< mine\n", b"\n>>>>>>>"))
    )
    return before + text + after
