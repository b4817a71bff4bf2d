"""Where a pattern occurs in a graph, and where it nearly does."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Hashable, Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

from torch import fx, nn

from fxopt_core.graphs.aliases import Storages
from fxopt_core.graphs.arguments import Name, arguments_of
from fxopt_core.graphs.examples import value_of
from fxopt_core.graphs.literal_keys import UnknownLiteralError, literal_key
from fxopt_core.graphs.patterns import Join, Pattern, function_key
from fxopt_core.graphs.timeline import Timeline
from fxopt_core.graphs.walks import nodes_in

MOST_WAYS = 64
"""How many ways to complete a match are tried from one node: they multiply with commutative calls and outputs."""


class GraphIndex(Timeline):
    """A graph by what its nodes call, and by what happens in it besides computing.

    What is asked for is found then, and kept: the graph must not change until all matches are found.

    Args:
        graph: the graph.
        storages: its storage classes.
    """

    def __init__(self, graph: fx.Graph, storages: Storages) -> None:
        super().__init__(graph, storages)
        self.storages = storages
        self.owner: nn.Module | None = graph.owning_module
        self._calling: dict[Hashable, list[fx.Node]] = {}
        self._users: dict[tuple[fx.Node, Hashable], deque[fx.Node]] = {}
        self._grouped: set[fx.Node] = set()

    def calling(self, key: Hashable) -> list[fx.Node]:
        """The nodes that call a function, method or class of module, in order."""
        if key not in self._calling:
            self._calling[key] = list(self._find(key))
        return self._calling[key]

    def _find(self, key: Any) -> Iterable[fx.Node]:
        if isinstance(key, str):
            return self._graph.find_nodes(op="call_method", target=key)
        if isinstance(key, type) and issubclass(key, nn.Module):
            return (node for node in self._graph.find_nodes(op="call_module") if function_key(node, self.owner) is key)
        return self._graph.find_nodes(op="call_function", target=key)

    def users(self, node: fx.Node, key: Hashable) -> deque[fx.Node]:
        """Those users of a node that call `key`, in order. Callers may take used ones off the front."""
        if node not in self._grouped:
            self._grouped.add(node)
            for user in sorted(node.users):
                self._users.setdefault((node, function_key(user, self.owner)), deque()).append(user)
        return self._users.get((node, key), deque())

    def between(self, positions: list[int], match: Match, first: int | None = None) -> fx.Node | None:
        """The first node at one of the positions that lies between those of a match, and is not one of them.

        Args:
            positions: in order.
            match: the match.
            first: from where on; by default from the first node of the match.
        """
        if not positions:
            return None
        last = match.span[1]
        first = match.span[0] if first is None else first
        for position in positions[bisect_right(positions, first) :]:
            if position >= last:
                return None
            if self.nodes[position] not in match.nodes:
                return self.nodes[position]
        return None


class Miss(NamedTuple):
    """A place where a pattern does not match, or must not be rewritten.

    Attributes:
        node: where the match would start, or end.
        reason: why not, in words.
        met: the nodes that would be part of the match.
    """

    node: fx.Node
    reason: str
    met: tuple[fx.Node, ...] = ()


class Match:
    """One occurrence of a pattern.

    Args:
        pattern: what was looked for.
        values: what each wildcard and each call of the pattern stands for.
        index: the graph in which it was found.
        before: where a replacement has to be inserted; known once the match is rewritten.
        data: what else was read there.

    Attributes:
        nodes: the matched nodes, in the order of the pattern's calls.
        outputs: the matched nodes that the pattern returns.
        anchor: the last of them in the graph.
    """

    __slots__ = ("anchor", "before", "data", "index", "nodes", "outputs", "pattern", "values")

    def __init__(
        self,
        pattern: Pattern,
        values: dict[fx.Node, Any],
        index: GraphIndex,
        before: fx.Node | None = None,
        data: Any = None,
    ) -> None:
        self.pattern, self.values, self.index, self.before, self.data = pattern, values, index, before, data
        self.nodes: tuple[fx.Node, ...] = tuple(map(values.__getitem__, pattern.calls))
        self.outputs: tuple[fx.Node, ...] = tuple(map(values.__getitem__, pattern.outputs))
        self.anchor = self.outputs[0] if len(self.outputs) == 1 else max(self.outputs)

    @property
    def inputs(self) -> tuple[fx.Node, ...]:
        """The nodes that wildcards stand for."""
        return tuple(dict.fromkeys(nodes_in([self.values[wildcard] for wildcard in self.pattern.wildcards.values()])))

    def __getitem__(self, name: str) -> Any:
        """What a wildcard or a named value of the pattern stands for: a node, or a literal."""
        return self.values[self.pattern.names[name]]

    @property
    def span(self) -> tuple[int, int]:
        """The positions of the first and of the last node."""
        positions = [self.index.position[node] for node in self.nodes]
        return min(positions), max(positions)

    def module(self, name: str) -> nn.Module:
        """The module that a named call of `module(...)` met."""
        assert self.index.owner is not None
        return self.index.owner.get_submodule(str(self[name].target))

    def example(self, name: str) -> Any:
        """The example value of a wildcard or named value, a literal as it is; `None` where the capture kept none."""
        value = self[name]
        return value_of(value) if isinstance(value, fx.Node) else value

    def resolved(self, replaced: dict[fx.Node, fx.Node]) -> Match:
        """The match as it is to be rewritten now: where its inputs have been replaced, and where the new nodes go."""

        def now(node: fx.Node) -> fx.Node:
            while node in replaced:
                node = replaced[node]
            return node

        values = dict(self.values)
        for wildcard in self.pattern.wildcards.values():
            value = values[wildcard]
            values[wildcard] = now(value) if type(value) is fx.Node else fx.node.map_arg(value, now)
        # The users of a single output all come after it.
        before = self.anchor if len(self.outputs) == 1 else min((self.anchor, *outside_users(self)))
        changed = Match.__new__(Match)
        changed.pattern, changed.index, changed.data = self.pattern, self.index, self.data
        changed.nodes, changed.outputs, changed.anchor = self.nodes, self.outputs, self.anchor
        changed.values, changed.before = values, before
        return changed


def outside_users(match: Match) -> list[fx.Node]:
    """The users of the match's outputs that are not of the match."""
    return [user for output in match.outputs for user in output.users if user not in match.nodes]


class _Goal(NamedTuple):
    """To match a value of the pattern with a value of the graph: the argument `name` of `parent`."""

    wanted: Any
    found: Any
    parent: fx.Node | None = None
    name: Name = 0


_Goals = tuple[Any, Any] | None
"""A linked list of goals and joins, so that ways that branch off share their rest."""


class _State:
    """What is known on the way to a match: values by wildcard and call, in the order in which they were met."""

    __slots__ = ("choices", "met", "values")

    def __init__(self) -> None:
        self.values: dict[fx.Node, Any] = {}
        self.met: set[fx.Node] = set()
        self.choices: list[tuple[Iterator[_Goals], int]] = []

    def next_way(self) -> _Goals:
        """Go back to the last choice, and take the next way from there; `None` if none is left."""
        while self.choices:
            ways, size = self.choices[-1]
            while len(self.values) > size:
                key, value = self.values.popitem()
                if key.op != "placeholder":
                    self.met.discard(value)
            way = next(ways, None)
            if way is not None:
                return way
            self.choices.pop()
        return None


class Matcher:
    """Finds a pattern in one graph, through an index by function: where a function is absent it costs nothing.

    Matching starts at those nodes that call what is rarest of the pattern in this graph. Solutions are found by
    backtracking over the order of commutative arguments and over users, where an output has to be found from what
    it shares with others. From one node at most `MOST_WAYS` ways are tried, so that time is linear.

    Args:
        pattern: what to look for.
        index: the graph.

    Attributes:
        start: what is rarest of the pattern.
        starts: the nodes that may stand for it, in order.
    """

    def __init__(self, pattern: Pattern, index: GraphIndex) -> None:
        self.pattern = pattern
        self.index = index
        self._best = 0
        self._nearest: tuple[_Goal | Join, dict[fx.Node, Any]] | None = None
        counts = {call: len(index.calling(pattern.keys[call])) for call in (*pattern.outputs, *pattern.calls)}
        self.start = min(counts, key=lambda call: counts[call])
        self.starts = index.calling(pattern.keys[self.start])

    def matches(
        self, node: fx.Node, taken: set[fx.Node] | None = None, start: fx.Node | None = None
    ) -> Iterator[Match]:
        """Every way in which the pattern matches with `node` in the place of one of its calls.

        Args:
            node: one of `starts`.
            taken: nodes that belong to other matches: no output is looked for among them. It may only grow.
            start: the call, by default the rarest.
        """
        start = start if start is not None else self.start
        goals: _Goals = None
        for join in reversed(self.pattern.joins(start)):
            goals = (join, goals)
        goals = (_Goal(start, node), goals)
        state = _State()
        for _ in range(MOST_WAYS):
            failed = self._follow(goals, state, taken)
            if failed is None:
                # Going back to a choice changes the values; without one they are the match's own.
                yield Match(self.pattern, dict(state.values) if state.choices else state.values, self.index)
            elif isinstance(failed, _Goal):
                self._note(failed, state.values)
            goals = state.next_way()
            if goals is None:
                return

    def _note(self, failed: _Goal | Join, values: dict[fx.Node, Any]) -> None:
        """Keep what failed, if more than ever was met before it."""
        if len(values) > self._best:
            self._best, self._nearest = len(values), (failed, dict(values))

    def _follow(self, goals: _Goals, state: _State, taken: set[fx.Node] | None) -> _Goal | Join | None:
        """Meet one goal after the other; the one that fails or branches, or `None` if all are met."""
        while goals is not None:
            goal, goals = goals
            if isinstance(goal, Join):
                state.choices.append((self._users(goal, goals, state.values, taken), len(state.values)))
                return goal
            met = self._meet(goal, goals, state)
            if met is _FAILED:
                return goal
            goals = met
        return None

    def _users(
        self, join: Join, goals: _Goals, values: dict[fx.Node, Any], taken: set[fx.Node] | None
    ) -> Iterator[_Goals]:
        """One way for each user that the call `join.user` may stand for."""
        known = values[join.known]
        users = self.index.users(known, self.pattern.keys[join.user]) if isinstance(known, fx.Node) else deque()
        while taken and users and users[0] in taken:
            users.popleft()
        for user in islice(users, MOST_WAYS):
            if not taken or user not in taken:
                yield (_Goal(join.user, user), goals)
        if not users:
            self._note(join, values)

    def _meet(self, goal: _Goal, goals: _Goals, state: _State) -> _Goals:
        """The goals that are left when this one is met; `_FAILED` if it cannot be."""
        wanted, found = goal.wanted, goal.found
        if not isinstance(wanted, fx.Node):
            return self._meet_literal(goal, goals)
        if wanted in state.values:
            return goals if same_value(state.values[wanted], found) else _FAILED
        if wanted.op == "placeholder":
            state.values[wanted] = found
            return goals
        pattern = self.pattern
        if type(found) is not fx.Node or found in state.met or not found.op.startswith("call"):
            return _FAILED
        key = pattern.keys[wanted]
        same = found.op == "call_function" and found.target is key
        if not same and function_key(found, self.index.owner) != key:
            return _FAILED
        state.values[wanted] = found
        state.met.add(found)
        pairs = self._arguments(wanted, found)
        if pairs is None:
            return _FAILED
        if wanted in pattern.swapping:
            state.choices.append((_exchanged(pairs, wanted, found, goals), len(state.values)))
        # What is met without doubt is met at once; of anything else a goal can say why it is not.
        for done, (_, one, other) in enumerate(pairs):
            wildcard = type(one) is fx.Node and one.op == "placeholder"
            if not wildcard or state.values.setdefault(one, other) is not other:
                return _and(pairs[done:], wanted, goals)
        return goals

    def _arguments(self, wanted: fx.Node, found: fx.Node) -> list[tuple[Name, Any, Any]] | None:
        """Which argument of the pattern's call meets which of the node's; `None` where they have different ones."""
        args, given = wanted._args, found._args
        if len(args) == len(given) and not wanted._kwargs and not found._kwargs:
            return list(zip(range(len(given)), args, given, strict=True))
        arguments = self.pattern.arguments[wanted]
        named = arguments_of(self.pattern.keys[wanted], given, found.kwargs)
        if named.keys() != arguments.keys():
            return None
        order = list(arguments)
        if wanted in self.pattern.swapping:
            first = self.pattern.operands(wanted)
            order = [*first, *(name for name in order if name not in first)]
        return [(name, arguments[name], named[name]) for name in order]

    def _meet_literal(self, goal: _Goal, goals: _Goals) -> _Goals:
        """Literals are the same to the last bit; lists and tuples are met item by item."""
        wanted, found = goal.wanted, goal.found
        if isinstance(wanted, (list, tuple)) and isinstance(found, (list, tuple)):
            alike = isinstance(wanted, tuple) == isinstance(found, tuple) or goal.parent in self.pattern.with_schema
            if len(wanted) != len(found) or not alike:
                return _FAILED
            items = [(goal.name, one, other) for one, other in zip(wanted, found, strict=True)]
            return _and(items, goal.parent, goals)
        if isinstance(wanted, slice) and isinstance(found, slice):
            parts = [(goal.name, getattr(wanted, part), getattr(found, part)) for part in ("start", "stop", "step")]
            return _and(parts, goal.parent, goals)
        return goals if same_value(wanted, found) else _FAILED

    def nearest_miss(self, least: int = 1) -> Miss | None:
        """Of the places that were tried, and some more, the one where most of the pattern was met.

        Args:
            least: how many calls of the pattern have to be met there; `None` is returned where fewer are.
        """
        if sum(bool(self.index.calling(key)) for key in self.pattern.keys.values()) < least:
            return None
        for call in self.pattern.calls:
            for node in self.index.calling(self.pattern.keys[call])[:MOST_WAYS]:
                next(self.matches(node, start=call), None)
        if self._nearest is None:
            return None
        failed, values = self._nearest
        met = [value for key, value in values.items() if key.op != "placeholder"]
        if len(met) < least:
            return None
        reason = f"{len(met)} of {len(self.pattern.calls)} calls of the pattern are here, but "
        return Miss(met[0], reason + self._explain(failed, values), tuple(met))

    def _explain(self, failed: _Goal | Join, values: dict[fx.Node, Any]) -> str:
        if isinstance(failed, Join):
            return f"nothing that uses {values[failed.known]!r} calls {_name(self.pattern.keys[failed.user])}"
        wanted, found, parent, name = failed
        where = "the node" if parent is None else f"argument {name!r} of {values.get(parent, parent)}"
        if not isinstance(wanted, fx.Node):
            return f"{where} is {found!r}, and the pattern has {wanted!r}"
        if wanted in values and values[wanted] is not found:
            return f"{where} is {found!r}, and {wanted} of the pattern is {values[wanted]!r} elsewhere"
        function = _name(self.pattern.keys[wanted])
        if not isinstance(found, fx.Node) or function_key(found, self.index.owner) != self.pattern.keys[wanted]:
            called = _name(function_key(found, self.index.owner)) if isinstance(found, fx.Node) else "a literal"
            return f"{where} is {found!r} ({called}), and the pattern calls {function}"
        if wanted in values:
            return f"{found} is given other arguments than {function} in the pattern"
        return f"{where} is {found!r}, which stands for another call of the pattern already"


_FAILED: _Goals = (None, None)


def _exchanged(pairs: list[tuple[Name, Any, Any]], wanted: fx.Node, found: fx.Node, goals: _Goals) -> Iterator[_Goals]:
    """The way in which the first two arguments change places; found out about when the straight way leads nowhere."""
    if not any(map(_is_sequence, found.args)):
        (name, one, first), (other, two, second), *rest = pairs
        yield _and([(name, one, second), (other, two, first), *rest], wanted, goals)


def _and(pairs: list[tuple[Name, Any, Any]], parent: fx.Node | None, goals: _Goals) -> _Goals:
    for name, wanted, found in reversed(pairs):
        goals = (_Goal(wanted, found, parent, name), goals)
    return goals


def _name(key: Hashable) -> str:
    return key if isinstance(key, str) else str(getattr(key, "__name__", key))


def same_value(one: Any, other: Any) -> bool:
    """Whether two arguments are one node, or literals that are the same to the last bit."""
    if one is other:
        return True
    try:
        return literal_key(one, {}) == literal_key(other, {})
    except UnknownLiteralError:
        return False


def _is_sequence(value: Any) -> bool:
    """Whether adding it may mean joining lists or tuples, where the order counts."""
    if not isinstance(value, fx.Node):
        return isinstance(value, (list, tuple, str))
    if isinstance(value_of(value), (list, tuple)):
        return True
    return value.target in ("size", "split", "chunk") or (value.target is getattr and value.args[1] == "shape")
