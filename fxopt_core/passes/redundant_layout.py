"""Redundant layout: views, copies and casts that cancel, or that nobody can tell from what was there before."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import fx

from fxopt_core.graphs.editor import GraphEditor
from fxopt_core.graphs.examples import example_of
from fxopt_core.graphs.legality import legality
from fxopt_core.graphs.operations import function_like
from fxopt_core.passes.base import Analysis, Opportunity, OptimizationPass, PassResult
from fxopt_core.passes.layout_operations import (
    FOLLOWS_ORDER,
    KEEPS_ORDER,
    OPERATIONS,
    RETURNS_ITSELF,
    TURNS,
    VIEWS,
    computed,
    form,
    geometry,
    holds_every,
    may_have_gradient,
    one_cast_does,
    permutation,
    reads_bits,
)
from fxopt_core.passes.registry import register_pass
from fxopt_core.passes.substitution import (
    Conditions,
    GraphFacts,
    Substitution,
    known,
    object_is_new,
    same_mode,
    same_tensor,
)

_CONDITIONS = Conditions("redundant_layout")
_object_is_new = legality("redundant_layout: returned views are two objects")(object_is_new)


@legality("redundant_layout: casts lose nothing")
def cast_loses_nothing(before: torch.dtype, after: torch.dtype) -> str | None:
    """A number that another dtype rounds does not come back."""
    return None if holds_every(after, before) else f"{after} does not hold every number of {before}"


@legality("redundant_layout: gradients stop where they stopped")
def gradients_stop_here(facts: GraphFacts, node: fx.Node, source: fx.Node) -> str | None:
    """No gradient flows through `detach`, nor through a view of the same bits as a dtype, be it the same one.

    Unless there are none where it stands anyway.
    """
    if not may_have_gradient(source):
        return None
    off = facts.timeline.mode(node).gradients is False
    if off and same_mode(facts, node, (source,)) is None:
        return None
    return f"{'a view of the bits' if reads_bits(node) else 'detach'} stops gradients that may flow"


@legality("redundant_layout: a copy is asked for")
def no_copy_is_asked_for(node: fx.Node) -> str | None:
    """With `copy=True`, or where a memory format is given, a cast may copy though the dtype is the same."""
    given = (*node.args[1:], *node.kwargs.values())
    copies = node.target != "contiguous" and any(type(argument) is torch.memory_format for argument in given)
    return "it asks for a copy" if copies or any(argument is True for argument in given) else None


@dataclass(frozen=True)
class Lineage:
    """Where a value comes from, through operations of one kind that keep what it contains.

    Attributes:
        root: the first value.
        detached: whether gradients are stopped in between.
        switched: why nodes in between do not run in one mode, if so.
        written: why something in between may be written to, if so.
    """

    root: fx.Node
    detached: bool = False
    switched: str | None = None
    written: str | None = None


class Change(NamedTuple):
    """What becomes of a node.

    Attributes:
        value: stands for the node; or what it reads from now on.
        reads: whether the node stays, and reads `value`.
        dimensions: of the permutation of `value` that the node becomes, if it does.
    """

    value: fx.Node
    reads: bool = False
    dimensions: list[int] | None = None


class _Line:
    """Values of one kind: those with the same key have the same root, and contain the same.

    Args:
        key: of a value.
        words: how it is said that two are the same.
        why_not: why one may not stand for the other all the same.
    """

    def __init__(
        self,
        key: Callable[[fx.Node], Hashable],
        words: str,
        why_not: Callable[[GraphFacts, fx.Node, fx.Node], str | None],
    ) -> None:
        self.key, self.words, self.why_not = key, words, why_not
        self.lineages: dict[fx.Node, Lineage] = {}
        self.first: dict[Hashable, fx.Node] = {}

    def of(self, value: fx.Node) -> Lineage:
        """Where a value comes from; one that is of another kind begins a line."""
        lineage = self.lineages.get(value)
        if lineage is None:
            self.lineages[value] = lineage = Lineage(value)
            self.first.setdefault((value, False, self.key(value)), value)
        return lineage


def _not_one_view(facts: GraphFacts, node: fx.Node, value: fx.Node) -> str | None:
    return _object_is_new(facts, node, value) or _CONDITIONS.same_mode(facts, node, (value,))


def _not_one_content(facts: GraphFacts, node: fx.Node, value: fx.Node) -> str | None:
    return _CONDITIONS.why_not(facts, node, value, (example_of(value), example_of(node)))


class _Layouts(Substitution):
    """Follows views, copies and casts."""

    def __init__(self, editor: GraphEditor) -> None:
        super().__init__(editor, OPERATIONS)
        self.canonical: dict[fx.Node, fx.Node] = {}
        self.sources: dict[fx.Node, fx.Node] = {}
        self.permutations: dict[fx.Node, list[int] | None] = {}
        self.lost: dict[fx.Node, tuple[torch.dtype, str]] = {}
        self.views = _Line(geometry, "it is the same view as", _not_one_view)
        self.elements = _Line(form, "it contains the same as", _not_one_content)

    def visit(self, node: fx.Node, name: str) -> None:
        if not node.args or type(node.args[0]) is not fx.Node:
            return
        source = self._source(node)
        reasons: list[str] = []
        if (stops := self._stops_gradients(node, source)) is not None:
            reasons.append(stops)
        change = self._itself(node, name, source)
        if change is None and (example_of(node) is None or example_of(source) is None):
            change = self._undone(node, name, source)
            if change is None and (name in KEEPS_ORDER or source in self.names):
                reasons.append(str(known(None)))
        elif change is None:
            change = (
                (self._same(self.views, node, source, reasons) if name in VIEWS else None)
                or self._same_elements(node, name, source, reasons)
                or self._reads_further_up(node, name, source, reasons)
                or self._one_permutation(node, name, source, reasons)
            )
        self.names[node] = name
        if change is None:
            if reasons:
                self.analysis.refuse(node, "; ".join(dict.fromkeys(reasons)))
            return
        if change.reads:
            self.sources[node] = change.value
            rule = f"{name}({self.names[source]}(x))"
        else:
            self.canonical[node] = change.value
            self.facts.substituted(node, change.value)
            rule = name
        self.analysis.opportunities.append(Opportunity(node, change, rule))

    def _source(self, node: fx.Node) -> fx.Node:
        """What a node reads first, as far as it is decided yet."""
        first: Any = node.args[0]
        return self.sources.get(node) or self.canonical.get(first, first)

    def _keeps_order(self, node: fx.Node, name: str | None) -> bool:
        return name in KEEPS_ORDER and not reads_bits(node)

    def _itself(self, node: fx.Node, name: str, source: fx.Node) -> Change | None:
        """What returns its very argument is that argument, whoever writes to it or gets it."""
        if name not in RETURNS_ITSELF:
            return None
        examples = (example_of(source), example_of(node))
        reason = _CONDITIONS.known(*examples) or _CONDITIONS.same_tensor(*examples) or no_copy_is_asked_for(node)
        return Change(source) if reason is None else None

    def _undone(self, node: fx.Node, name: str, source: fx.Node) -> Change | None:
        """Two equal exchanges of dimensions are none, whatever the shape."""
        if name not in ("t", "transpose") or self.names.get(source) != name or source in self.sources:
            return None
        if (node.args[1:], node.kwargs) != (source.args[1:], source.kwargs):
            return None
        value = self._source(source)
        reason = self._why_not(self.views, node, value, self._through(node, source, Lineage(value)), Lineage(value))
        if reason is not None:
            self.analysis.refuse(node, reason)
        return Change(value) if reason is None else None

    def _through(self, node: fx.Node, source: fx.Node, lineage: Lineage) -> Lineage:
        """The lineage of a node whose source has the given one."""
        return Lineage(
            lineage.root,
            lineage.detached or (may_have_gradient(lineage.root) and self._stops_gradients(node, source) is not None),
            lineage.switched or _CONDITIONS.same_mode(self.facts, node, (source,)),
            lineage.written or _CONDITIONS.not_written(self.facts, (node, source)),
        )

    def _stops_gradients(self, node: fx.Node, source: fx.Node) -> str | None:
        stops = OPERATIONS.name_of(node) == "detach" or reads_bits(node)
        return gradients_stop_here(self.facts, node, source) if stops else None

    def _why_not(self, line: _Line, node: fx.Node, value: fx.Node, own: Lineage, other: Lineage) -> str | None:
        in_between = own.written or other.written or own.switched or other.switched
        return in_between or line.why_not(self.facts, node, value)

    def _same(self, line: _Line, node: fx.Node, source: fx.Node, reasons: list[str]) -> Change | None:
        """What has the same root and the same key is the same."""
        lineage = self._through(node, source, line.of(source))
        key = (lineage.root, lineage.detached, line.key(node))
        value = line.first.setdefault(key, node)
        if value in self.canonical:
            # It does not stay in the graph.
            value = line.first[key] = node
        if value is not node:
            reason = self._why_not(line, node, value, lineage, line.lineages[value])
            if reason is None:
                return Change(value)
            reasons.append(f"{line.words} {value}, but {reason}")
        line.lineages[node] = lineage
        return None

    def _same_elements(self, node: fx.Node, name: str, source: fx.Node, reasons: list[str]) -> Change | None:
        """What only copies and casts without loss come between contains the same."""
        if not self._keeps_order(node, name):
            return None
        root = self.elements.of(source).root
        before, after = example_of(root), example_of(node)
        assert before is not None
        assert after is not None
        if (lost := cast_loses_nothing(before.dtype, after.dtype)) is not None:
            # A new line begins here.
            self.lost[node] = (before.dtype, lost)
            return None
        if root in self.lost and after.dtype == self.lost[root][0]:
            reasons.append(self.lost[root][1])
        return self._same(self.elements, node, source, reasons)

    def _reads_further_up(self, node: fx.Node, name: str, source: fx.Node, reasons: list[str]) -> Change | None:
        """What only looks at elements in their order need not read a copy or a view of them in that order."""
        found: Change | None = None
        while name in FOLLOWS_ORDER and self._keeps_order(node, name):
            between = source if found is None else found.value
            if not self._keeps_order(between, self.names.get(between)):
                break
            value = self._source(between)
            first, second, third = (example_of(each) for each in (value, between, node))
            if first is None or second is None or third is None:
                break
            examples = (computed(node, first), third)
            if examples[0] is None:
                break
            if same_tensor(*examples) is not None or not one_cast_does(first.dtype, second.dtype, third.dtype):
                break
            if name in RETURNS_ITSELF and same_tensor(first, third) is None:
                # It would be what it reads, and that was refused above.
                break
            nodes = (node, between, value)
            views = name in VIEWS and self.names[between] in VIEWS
            fresh = name in ("clone", "_to_copy")
            reason = (
                self._stops_gradients(between, value)
                or cast_loses_nothing(first.dtype, second.dtype)
                or _CONDITIONS.not_written(self.facts, nodes)
                or _CONDITIONS.same_mode(self.facts, node, (between,))
                or (None if views or fresh else _CONDITIONS.returned_is_new(self.facts, node, value))
                or (None if fresh else _CONDITIONS.same_place(self.facts, *examples))
            )
            if reason is not None:
                reasons.append(f"it might read {value}, but {reason}")
                break
            found = Change(value, reads=True)
        return found

    def _one_permutation(self, node: fx.Node, name: str, source: fx.Node, reasons: list[str]) -> Change | None:
        """Two permutations are one."""
        if name not in TURNS or self.names.get(source) not in TURNS:
            return None
        first, second = self._permutation(source), self._permutation(node)
        if first is None or second is None:
            return None
        value = self._source(source)
        reason = (
            _CONDITIONS.not_written(self.facts, (node, source, value))
            or _CONDITIONS.same_mode(self.facts, node, (source,))
            or _is_read_as_transposed(node, second)
        )
        if reason is not None:
            reasons.append(f"it might permute {value}, but {reason}")
            return None
        self.permutations[node] = dimensions = [first[dimension] for dimension in second]
        return Change(value, True, dimensions)

    def _permutation(self, node: fx.Node) -> list[int] | None:
        if node not in self.permutations:
            self.permutations[node] = permutation(node)
        return self.permutations[node]


def _is_read_as_transposed(node: fx.Node, dimensions: list[int]) -> str | None:
    """Why the keys of attention stay as they are written: nothing would be gained, and a compiler knows them by it.

    Inductor (PyTorch 2.13) takes any permutation before the product for a transposition of the last two dimensions, and
    fails on the shapes that follow.
    """
    last = len(dimensions) - 1
    # Fused attention is written out again for a compiler.
    product = any(part in str(user.target) for user in node.users for part in ("matmul", "bmm", "fused_attention"))
    if product and dimensions[-2:] == [last, last - 1]:
        return "a product reads it with its last two dimensions exchanged, which compilers know attention by"
    return None


@register_pass("redundant_layout")
class RedundantLayout(OptimizationPass):
    """Take out views, copies and casts that cancel, or that nobody can tell from what was there before.

        n = x.to(its dtype), x.contiguous() of what is        becomes    x, which it is
        n = a view of a view ... of x                         becomes    m, the same view of x (or x itself)
        n = a copy, cast or reshape ... of x                  becomes    m, with the same elements of x
        n = f(g(x))                                           becomes    n = f(x)
        n = permute(permute(x, p), q)                         becomes    n = permute(x, r)

    The second: offset, shape and strides are equal. The third: shape, strides and dtype are equal, and no dtype on
    the way rounds a number of x. The fourth: `f` and `g` keep elements in their order, and `f` gives the same shape
    and strides without `g`. All need what a capture knows of dtype, shape and strides (those of inputs are the
    strides of the example inputs); without it only equal exchanges of two dimensions cancel. Nothing on the way may
    be written to, or stop gradients that may flow, and the mode (gradients, autocast) is the same. What is returned
    with storage of its own keeps it, and two returned views stay two objects. Exactness: bitwise, gradients too.

    One walk, in which each value is looked up by what it contains; linear in nodes and edges. What is not used any
    more is left to dead_code.
    """

    def analyze(self, editor: GraphEditor) -> Analysis:
        """Find what becomes of each view, copy and cast."""
        return _Layouts(editor).run()

    def transform(self, editor: GraphEditor, opportunity: Opportunity) -> None:
        """Use the earlier value, or read it."""
        node, change = opportunity.node, opportunity.data
        value, dimensions = change.value, change.dimensions
        if dimensions is not None:
            function = function_like(node, "permute", (value, dimensions))
            editor.change(node, function=function, args=(value, dimensions), kwargs={})
        elif change.reads:
            editor.change(node, args=(value, *node.args[1:]))
        else:
            editor.replace(node, value)

    def verify(self, editor: GraphEditor, result: PassResult) -> None:
        """What was taken out is gone."""
        self.require_gone(editor, (rewrite for rewrite in result.rewrites if not rewrite.after))
