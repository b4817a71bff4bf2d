"""How much of a package's code is the course's: told by fingerprints that renaming and reformatting do not change.

Each function and class is read as the sequence of its syntax nodes, without names, docstrings, annotations and the
values of literals. Of every run of `LENGTH` nodes a hash is kept, the smallest of each window of `WINDOW` (winnowing:
Schleimer, Wilkerson and Aiken, "Winnowing: local algorithms for document fingerprinting", SIGMOD 2003). Code is read,
never run. Imports no torch.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

LENGTH = 24
"""Syntax nodes in one run: about two lines."""

WINDOW = 8

MOST_SHARED = 0.5
"""From which share of its own code on a package is a copy."""

LEAST_OWN = 12
"""Fewer fingerprints than these, about fifteen lines, are no sign of a copy."""

COURSE = ("fxopt_core", "fxopt_workbench")


@dataclass(frozen=True)
class Origin:
    """Where the code of a package comes from.

    Attributes:
        own: how many fingerprints it has that the template of its kind has not.
        shared: which share of these the course's code has, too.
        source: the module of the course that has most of them; empty where none has any.
        kept: which share of the template's fingerprints is still there.
    """

    own: int
    shared: float
    source: str
    kept: float

    @property
    def copied(self) -> bool:
        """Whether most of it is the course's."""
        return self.own >= LEAST_OWN and self.shared >= MOST_SHARED

    @property
    def nothing_own(self) -> bool:
        """Whether it is the template, as good as unchanged."""
        return self.own < LEAST_OWN and self.kept >= MOST_SHARED


def origin_of(files: Mapping[str, bytes], template: str) -> Origin:
    """Where the code of a package comes from.

    Args:
        files: of the package, by path; tests are left out, and what is not Python.
        template: the folder of the template that it began with.
    """
    sources = (content for path, content in files.items() if path.endswith(".py") and "tests/" not in path)
    own: set[int] = set()
    for content in sources:
        own |= fingerprints(content.decode(errors="replace"))
    known = _of_template(template)
    kept = len(own & known) / len(known)
    own -= known
    found = {name: len(own & theirs) for name, theirs in _of_course().items()}
    every = set().union(*_of_course().values())
    source = max(found, key=lambda name: found[name]) if any(found.values()) else ""
    return Origin(len(own), len(own & every) / len(own) if own else 0.0, source, kept)


def fingerprints(source: str) -> frozenset[int]:
    """The fingerprints of a file; none where it is no Python."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return frozenset()
    words = list(_words(tree.body))
    runs = [words[i : i + LENGTH] for i in range(max(0, len(words) - LENGTH + 1))]
    hashes = [int.from_bytes(hashlib.blake2b(" ".join(run).encode(), digest_size=8).digest()) for run in runs]
    return frozenset(min(hashes[i : i + WINDOW]) for i in range(max(0, len(hashes) - WINDOW + 1)))


def _words(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The kinds of the syntax nodes, in order; of an attribute its name too, which belongs to somebody else's code."""
    for node in nodes:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            continue
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):  # a docstring
            continue
        yield f"{type(node).__name__}.{node.attr}" if isinstance(node, ast.Attribute) else type(node).__name__
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "ctx", "type_comment"):
                continue
            children = value if isinstance(value, list) else [value]
            yield from _words(child for child in children if isinstance(child, ast.AST))


@cache
def _of_template(name: str) -> frozenset[int]:
    with resources.as_file(resources.files("autograder") / "capstone" / "template" / name) as folder:
        return frozenset().union(*(fingerprints(path.read_text()) for path in Path(folder).glob("my_capstone/*.py")))


@cache
def _of_course() -> dict[str, frozenset[int]]:
    """By dotted name, the fingerprints of each module of the course."""
    found = {}
    for package in COURSE:
        with resources.as_file(resources.files(package)) as folder:
            for path in sorted(Path(folder).rglob("*.py")):
                inside = path.relative_to(folder).with_suffix("").parts
                found[".".join([package, *inside])] = fingerprints(path.read_text())
    return found
