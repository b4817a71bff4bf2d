"""What became of a graph: node by node, as data, as text and for a picture."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch import fx

from fxopt_core.display import Displayable
from fxopt_core.graphs.editor import NodeSnapshot, snapshot
from fxopt_core.graphs.literal_keys import UnknownLiteralError, literal_key
from fxopt_workbench.tables import Table

_WORDS = {"-": "removed", "+": "added", "~": "changed", " ": "kept"}

GraphLike = fx.GraphModule | fx.Graph | Iterable[NodeSnapshot]


@dataclass(frozen=True)
class NodeChange:
    """One line of a diff.

    Attributes:
        before: the node as it was; `None` if it was added.
        after: the node as it is; `None` if it was removed.
        same: whether it computes the same from the same, whatever its name.
    """

    before: NodeSnapshot | None
    after: NodeSnapshot | None
    same: bool = False

    @property
    def sign(self) -> str:
        """`-` removed, `+` added, `~` changed, a space where it stayed."""
        if self.before is None or self.after is None:
            return "+" if self.before is None else "-"
        return " " if self.same else "~"

    def __str__(self) -> str:
        if self.before is None or self.after is None:
            return f"{self.sign} {self.after if self.before is None else self.before}"
        if self.same:
            renamed = "" if self.before.name == self.after.name else f"    (was {self.before.name})"
            return f"  {self.after}{renamed}"
        return f"~ {self.before}\n  → {self.after}"


@dataclass(frozen=True)
class GraphDiff(Displayable):
    """What became of every node, in the order of the graph after, removed ones where they stood."""

    changes: tuple[NodeChange, ...]

    def __bool__(self) -> bool:
        """Whether anything but names is different."""
        return any(not change.same for change in self.changes)

    @property
    def removed(self) -> tuple[NodeSnapshot, ...]:
        """The nodes that are gone."""
        return tuple(c.before for c in self.changes if c.before is not None and c.after is None)

    @property
    def added(self) -> tuple[NodeSnapshot, ...]:
        """The nodes that are new."""
        return tuple(c.after for c in self.changes if c.after is not None and c.before is None)

    @property
    def changed(self) -> tuple[tuple[NodeSnapshot, NodeSnapshot], ...]:
        """The nodes that have another function or other arguments: before and after."""
        return tuple((c.before, c.after) for c in self.changes if c.sign == "~" and c.before and c.after)

    @property
    def kept(self) -> tuple[tuple[NodeSnapshot, NodeSnapshot], ...]:
        """The nodes that compute the same from the same: before and after, which may differ in name."""
        return tuple((c.before, c.after) for c in self.changes if c.same and c.before and c.after)

    @property
    def marked_before(self) -> tuple[str, ...]:
        """The names to highlight in a picture of the graph before."""
        return tuple(c.before.name for c in self.changes if c.before is not None and not c.same)

    @property
    def marked_after(self) -> tuple[str, ...]:
        """The names to highlight in a picture of the graph after."""
        return tuple(c.after.name for c in self.changes if c.after is not None and not c.same)

    def as_text(self, context: int | None = 2) -> str:
        """Lines marked `-`, `+`, `~` or with a space.

        Args:
            context: how many nodes that stayed are shown around each that did not; `None` for all.
        """
        shown = (f"  … {one} more" if isinstance(one, int) else str(one) for one in self.excerpt(context))
        return "\n".join([self.summary, *shown])

    def excerpt(self, context: int | None) -> Iterator[NodeChange | int]:
        """The changes with so many nodes around them that stayed, and how many more are left out in between."""
        last = -1
        for position in range(len(self.changes)) if context is None else sorted(self._near(context)):
            if position > last + 1:
                yield position - last - 1
            yield self.changes[position]
            last = position
        if last + 1 < len(self.changes):
            yield len(self.changes) - last - 1

    @property
    def summary(self) -> str:
        """The figures."""
        counts = f"{len(self.removed)} removed, {len(self.added)} added, {len(self.changed)} changed"
        return f"{counts}, {len(self.kept)} kept"

    def _near(self, context: int) -> set[int]:
        positions = [position for position, change in enumerate(self.changes) if not change.same]
        around = {near for position in positions for near in range(position - context, position + context + 1)}
        return around & set(range(len(self.changes)))

    def __str__(self) -> str:
        return self.as_text()

    def tables(self) -> Sequence[Table]:
        """The same as `as_text()`, with words for the signs."""
        rows = [
            ("kept", f"… {one} more", f"… {one} more")
            if isinstance(one, int)
            else (_WORDS[one.sign], str(one.before or ""), str(one.after or ""))
            for one in self.excerpt(2)
        ]
        headings = ("what became", "before", "after")
        return [Table(self.summary, headings, rows, words=headings)]

    def as_json(self) -> dict[str, Any]:
        """Everything as JSON values, nodes as text."""
        return {
            "removed": [str(node) for node in self.removed],
            "added": [str(node) for node in self.added],
            "changed": [{"before": str(before), "after": str(after)} for before, after in self.changed],
            "kept": [{"before": before.name, "after": after.name} for before, after in self.kept],
        }


def diff_graphs(before: GraphLike, after: GraphLike) -> GraphDiff:
    """Compare two graphs, or lists of snapshots, node by node.

    A node of the graph after is the one before that computes the same from the same: the one of its name first, else
    any other, so that nodes that were only renamed have stayed. Where there is none, the node of the same name has
    changed; what is left over was removed or added. Linear in nodes and edges.

    Args:
        before: a graph module, a graph, or snapshots of nodes.
        after: what became of it; another object, since a graph that was changed in place is its own past.

    Raises:
        TypeError: something else is given.
    """
    old, new = _snapshots(before), _snapshots(after)
    return GraphDiff(tuple(_merged(old, new, _Pairing(old, new).pairs)))


def _snapshots(graph: GraphLike) -> list[NodeSnapshot]:
    if isinstance(graph, (fx.GraphModule, fx.Graph)):
        nodes = graph.graph.nodes if isinstance(graph, fx.GraphModule) else graph.nodes
        return [snapshot(node) for node in nodes]
    found = list(graph) if isinstance(graph, Iterable) else [graph]
    if not all(isinstance(node, NodeSnapshot) for node in found):
        raise TypeError(f"diff_graphs is given {type(graph).__name__}; expected a graph module, a graph or snapshots.")
    return found


class _Pairing:
    """Which node before is which after: `pairs` maps positions after to positions before, and whether it is the same.

    Two walks: the first pairs what computes the same from the same, all the way up to the inputs. The second pairs
    what is left by name, and takes what follows from a node that only changed as computed from the same.
    """

    def __init__(self, old: list[NodeSnapshot], new: list[NodeSnapshot]) -> None:
        self.pairs: dict[int, tuple[int, bool]] = {}
        self._old, self._new = old, new
        self._names = {node.name: position for position, node in enumerate(old)}
        self._taken: set[int] = set()
        after = {node.name for node in new}
        self._old_keys = list(_keys(old, {}))
        # Nodes that compute the same from the same. Those whose name is gone come first: they were renamed.
        self._alike: dict[Hashable, tuple[deque[int], deque[int]]] = defaultdict(lambda: (deque(), deque()))
        for position, key in enumerate(self._old_keys):
            self._alike[key][old[position].name in after].append(position)
        self._walk(by_name=False)
        self._walk(by_name=True)

    def _walk(self, *, by_name: bool) -> None:
        known: dict[str, str] = {}
        for position, key in enumerate(_keys(self._new, known)):
            node = self._new[position]
            if position not in self.pairs:
                partner = self._same(node, key)
                same = partner is not None
                if partner is None and by_name:
                    own = self._names.get(node.name)
                    partner = (
                        own if own is not None and own not in self._taken and self._old[own].op == node.op else None
                    )
                if partner is not None:
                    self._taken.add(partner)
                    self.pairs[position] = (partner, same)
            paired = self.pairs.get(position)
            known[node.name] = f"+{node.name}" if paired is None else self._old[paired[0]].name

    def _same(self, node: NodeSnapshot, key: Hashable) -> int | None:
        """An unpaired node before that computes the same from the same; by preference that of the same name."""
        own = self._names.get(node.name)
        if own is not None and own not in self._taken and self._old_keys[own] == key:
            return own
        for group in self._alike.get(key, ()):
            while group:
                position = group.popleft()
                if position not in self._taken:
                    return position
        return None


def _keys(nodes: list[NodeSnapshot], known: dict[str, str]) -> Iterator[Hashable]:
    """Equal for nodes that compute the same from the same, where `known` says, as it grows, what arguments are."""
    inputs = 0
    for node in nodes:
        inputs += node.op == "placeholder"
        # Inputs are known by their place, and may be called anything.
        yield ("placeholder", inputs) if node.op == "placeholder" else (node.op, node.target, _arguments(node, known))


def _arguments(node: NodeSnapshot, known: dict[str, str]) -> Hashable:
    names: dict[fx.Node, Any] = {}
    fx.node.map_arg(
        (node.args, node.kwargs), lambda source: names.setdefault(source, known.get(source.name, source.name))
    )
    try:
        return literal_key((node.args, dict(sorted(node.kwargs.items()))), names)
    except UnknownLiteralError:
        return re.sub(r"\w+", lambda word: known.get(word[0], word[0]), repr((node.args, node.kwargs)))


def _merged(
    old: list[NodeSnapshot], new: list[NodeSnapshot], pairs: dict[int, tuple[int, bool]]
) -> Iterator[NodeChange]:
    """Every node of both graphs once."""
    there = {partner for partner, _ in pairs.values()}
    shown = 0
    for position, node in enumerate(new):
        partner, same = pairs.get(position, (None, False))
        while partner is not None and shown <= partner:
            if shown not in there:
                yield NodeChange(old[shown], None)
            shown += 1
        yield NodeChange(None if partner is None else old[partner], node, same)
    for position in range(shown, len(old)):
        if position not in there:
            yield NodeChange(old[position], None)
