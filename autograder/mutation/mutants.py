"""All mutants of one answer: each is the answer with one edit. Imports no torch."""

from __future__ import annotations

import ast
import difflib
import hashlib
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, fields

import libcst as cst
from libcst.metadata import MetadataWrapper, ParentNodeProvider, PositionProvider

from autograder.mutation.operators import OPERATORS, Change, Place, Source


@dataclass(frozen=True)
class Mutant:
    """An answer with one edit.

    Attributes:
        answer: name of the answer that was edited: `reference`, or a file of `right/` without its suffix.
        operator: name of the operator that made the edit (a key of `OPERATORS`).
        line: the first line that differs, counted from 1 in the answer.
        before: the lines that the edit changed, without indentation (see `difference`).
        after: the lines that stand there instead, likewise.
        occurrence: which one it is of those mutants of this answer whose `before` and `after` are the same, from 1.
        source: the whole edited answer.
    """

    answer: str
    operator: str
    line: int
    before: str
    after: str
    occurrence: int
    source: str

    @property
    def key(self) -> tuple[str, str, str, int]:
        """What names the mutant for as long as the lines that it touches stay as they are."""
        return self.answer, self.before, self.after, self.occurrence

    @property
    def digest(self) -> str:
        """A short name of its whole text."""
        return hashlib.sha256(self.source.encode()).hexdigest()[:16]

    def described(self) -> str:
        """One line for tables."""
        number = f" (no. {self.occurrence})" if self.occurrence > 1 else ""
        before, after = (" ⏎ ".join(text.splitlines()) or "nothing" for text in (self.before, self.after))
        return f"{self.answer}:{self.line}{number}: {before}  →  {after}  [{self.operator}]"


_SKIPPED = (cst.Annotation, cst.Import, cst.ImportFrom, cst.Decorator)
"""Parts of an answer in which nothing is edited: what says or names, and computes nothing."""


class _Visitor(cst.CSTVisitor):
    """Collects the nodes that may be edited, in the order in which they stand."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes: list[cst.CSTNode] = []
        self.imported: set[str] = set()

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, (cst.Import, cst.ImportFrom)) and not isinstance(node.names, cst.ImportStar):
            for alias in node.names:
                name = alias.evaluated_alias or alias.evaluated_name.partition(".")[0]
                # Classes and functions come from modules too: only names of modules are wanted.
                if isinstance(node, cst.Import) or name.islower():
                    self.imported.add(name)
        if isinstance(node, _SKIPPED):
            return False
        if isinstance(node, cst.Expr) and isinstance(node.value, cst.BaseString):
            return False  # a docstring
        self.nodes.append(node)
        # What a message says is free, but how it begins: `raise` is edited as a whole.
        return not isinstance(node, cst.Raise)


def read(answer: str) -> tuple[Source, list[cst.CSTNode], MetadataWrapper]:
    """An answer as operators see it, and its nodes in order.

    Raises:
        libcst.ParserSyntaxError: the answer is no Python.
    """
    wrapper = MetadataWrapper(cst.parse_module(answer))
    visitor = _Visitor()
    wrapper.module.visit(visitor)
    parents = wrapper.resolve(ParentNodeProvider)
    return Source(wrapper.module, parents, frozenset(visitor.imported)), visitor.nodes, wrapper


def edits(answer: str) -> Iterator[tuple[str, str]]:
    """The name of an operator and an edited answer, for every edit that there is, in the order of the places."""
    source, nodes, wrapper = read(answer)
    wrapper.resolve(PositionProvider)
    for node in nodes:
        for name, (kinds, function) in OPERATORS.items():
            if not isinstance(node, kinds):
                continue
            for change in function(Place(node, source)):
                text = _edited(source, change)
                if text is not None:
                    yield name, text


def _edited(source: Source, change: Change) -> str | None:
    old, new = change.old, change.new
    try:
        # Only what holds the node is made anew: `deep_replace` would walk through the whole tree each time.
        for above in source.above(old):
            old, new = above, _with_child(above, old, new)
    except cst.CSTValidationError:
        return None  # cannot be written down: `return` without a space, say
    assert isinstance(new, cst.Module)
    return new.code


def _with_child(above: cst.CSTNode, old: cst.CSTNode, new: cst.CSTNode) -> cst.CSTNode:
    """A node with another child in the place of one."""
    for item in fields(above):
        value = getattr(above, item.name)
        if value is old:
            return above.with_changes(**{item.name: new})
        if isinstance(value, (list, tuple)) and any(child is old for child in value):
            return above.with_changes(**{item.name: [new if child is old else child for child in value]})
    raise AssertionError(f"{type(above).__name__} does not hold {type(old).__name__}")


def mutants_of(name: str, answer: str) -> list[Mutant]:
    """Every mutant of an answer, each once, in the order of the places; no two runs differ.

    Left out is what is no program, and what is the same program as the answer or as an earlier mutant.

    Args:
        name: of the answer, for `Mutant.answer`.
        answer: its source.

    Raises:
        SyntaxError: the answer itself is no program.
    """
    seen = {ast.dump(ast.parse(answer))}
    found: list[Mutant] = []
    counts: Counter[tuple[str, str]] = Counter()
    for operator, text in edits(answer):
        tree = _compiled(text)
        if tree is None or tree in seen:
            continue
        seen.add(tree)
        line, before, after = difference(answer, text)
        counts[before, after] += 1
        found.append(Mutant(name, operator, line, before, after, counts[before, after], text))
    return found


def _compiled(text: str) -> str | None:
    """The tree of a program as text; `None` for what is no program."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # `is` with a number, say
        try:
            tree = ast.parse(text)
            compile(tree, "mutant", "exec")
        except (SyntaxError, ValueError):
            return None
    return ast.dump(tree)


MOST_LINES = 3
"""Of edits that take away more lines than these the first line is told, and how many follow."""


def difference(before: str, after: str) -> tuple[int, str, str]:
    """The first line in which two texts differ, counted from 1 in `before`, and the lines that differ in both.

    Where lines are only put in, the line above is told on both sides, so that one can see where.
    """
    old, new = before.splitlines(), after.splitlines()
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    changes = [item[1:] for item in matcher.get_opcodes() if item[0] != "equal"]
    if all(start == end for start, end, _, _ in changes):
        changes = [
            (start - 1, end, put - 1, stop) if start and put else (start, end, put, stop)
            for start, end, put, stop in changes
        ]
    taken = [line.strip() for start, end, _, _ in changes for line in old[start:end]]
    put_in = [line.strip() for _, _, start, end in changes for line in new[start:end]]
    return changes[0][0] + 1, _short(taken), _short(put_in)


def _short(lines: list[str]) -> str:
    if len(lines) <= MOST_LINES:
        return "\n".join(lines)
    return f"{lines[0]} … and {len(lines) - 1} lines more"
