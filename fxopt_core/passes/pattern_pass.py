"""Passes that consist of rules: a pattern, and what takes its place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from torch import fx

from fxopt_core.graphs.editor import GraphEditor
from fxopt_core.graphs.effects import effects_of
from fxopt_core.graphs.examples import example_of, value_of
from fxopt_core.graphs.legality import legality
from fxopt_core.graphs.match_legality import ClaimedNodes, Sharing, is_metadata_assertion, sharing, why_not
from fxopt_core.graphs.matching import GraphIndex, Match, Matcher, Miss
from fxopt_core.graphs.patterns import Pattern, PatternError, pattern, trace
from fxopt_core.graphs.walks import nodes_in, reached
from fxopt_core.passes.base import Analysis, Opportunity, OptimizationPass, PassError, PassResult
from fxopt_core.passes.substitution import GraphFacts, same_mode, same_place, same_tensor
from fxopt_core.verification import Tolerance

MOST_ROUNDS = 100
"""How often rules are applied to what rules made, before a set of rules is taken to go on for ever."""

Check = Callable[[Match], str | None]
Find = Callable[[fx.Node, GraphIndex], Match | Miss | None]
Build = Callable[[GraphEditor, Match], fx.Node | Sequence[fx.Node]]


@dataclass(frozen=True, eq=False)
class RewriteRule:
    """Wherever `pattern` occurs and the checks have nothing against it, it is replaced.

    Attributes:
        name: of the rule, within its pass.
        pattern: a function (see `graphs.patterns.pattern`), or several with the same parameters: other spellings.
        find: in place of `pattern`, for what can be written in too many ways: is asked of every node, and answers
            with what it ends, as a `region`; with why that nearly is such a place; or with `None`.
        replacement: a function of some of the pattern's parameters, which returns as many values.
        build: in place of `replacement`: makes the nodes itself, with the editor. It inserts them before
            `match.before` (with one output that is `match.anchor`), and returns what takes the place of the
            outputs: nodes that it made, with storage of their own.
        checks: each answers with a reason why a match is left alone, or with `None`.
        tolerance: how far this rule's rewrites may be off; `None` for that of the pass.
        draws: the pattern draws random numbers, and the replacement the same ones in the same order.
        same_sharing: vouches that outputs share storage with inputs exactly as before, where operators do not tell.
        drops_assertions: assertions that export made about the dtype of inner values vanish with these values.
        hands_on: whether the replacement gives an input in the place of an output.
    """

    name: str
    pattern: Callable[..., Any] | tuple[Callable[..., Any], ...] = ()
    replacement: Callable[..., Any] | None = None
    build: Build | None = None
    find: Find | None = None
    checks: tuple[Check, ...] = ()
    tolerance: Tolerance | None = None
    draws: bool = False
    same_sharing: bool = False
    drops_assertions: bool = False
    patterns: tuple[Pattern, ...] = field(init=False)
    traced: Pattern | None = field(init=False)
    _sharing: Sharing = field(init=False)
    hands_on: bool = field(init=False)

    def __post_init__(self) -> None:
        """Trace the functions.

        Raises:
            PatternError: they do not fit together.
        """
        if (self.replacement is None) == (self.build is None):
            raise PatternError(f"the rule {self.name} needs either a replacement or a build function.")
        if (self.find is None) == (self.pattern == ()) or (self.find is not None and self.build is None):
            raise PatternError(f"the rule {self.name} needs either a pattern, or find and build.")
        spellings = self.pattern if isinstance(self.pattern, tuple) else (self.pattern,)
        object.__setattr__(self, "patterns", tuple(map(pattern, spellings)))
        object.__setattr__(self, "traced", None if self.replacement is None else trace(self.replacement))
        object.__setattr__(self, "_sharing", {})
        given_back = () if self.traced is None else self.traced.outputs
        object.__setattr__(self, "hands_on", any(output.op == "placeholder" for output in given_back))
        if self.traced is None:
            return
        object.__setattr__(self, "_sharing", sharing(self.traced.outputs, self.traced.calls, effects_of))
        for each in self.patterns:
            unknown = self.traced.wildcards.keys() - each.names.keys()
            if unknown:
                raise PatternError(f"the rule {self.name} replaces with {sorted(unknown)}, which its pattern has not.")
            if len(each.outputs) != len(self.traced.outputs):
                raise PatternError(
                    f"the rule {self.name} replaces {len(each.outputs)} outputs with {len(self.traced.outputs)}."
                )
        for call in self.traced.calls:
            effects = effects_of(call)
            if effects.observable and not (effects.random and self.draws):
                raise PatternError(f"the replacement of the rule {self.name} does more than compute, in {call}.")

    def searches(self, index: GraphIndex) -> Iterator[Matcher | _Finder]:
        """What looks for the rule in a graph: one for each pattern, or what asks `find`."""
        if self.find is not None:
            yield _Finder(self.find, index)
        for each in self.patterns:
            yield Matcher(each, index)

    @property
    def may_merge_outputs(self) -> bool:
        """Whether one node may take the place of two outputs."""
        if self.traced is None:
            return any(len(each.outputs) > 1 for each in self.patterns)
        return len(set(self.traced.outputs)) < len(self.traced.outputs)

    def shared_after(self, match: Match) -> Sharing:
        """With what the replacement's outputs will share storage."""
        if not self._sharing:
            return {}
        shared: Sharing = {}
        for (number, root), surely in self._sharing.items():
            met = root if isinstance(root, int) else match[str(root.target)]
            for other in (met,) if isinstance(root, int) else nodes_in(met):
                shared[number, other] = surely and other is met
        return shared

    def make(self, editor: GraphEditor, match: Match) -> list[fx.Node]:
        """Insert the replacement; the nodes that take the place of the outputs."""
        if self.traced is None:
            assert self.build is not None
            built = self.build(editor, match)
            return [built] if isinstance(built, fx.Node) else list(built)
        made: dict[fx.Node, Any] = {wildcard: match[name] for name, wildcard in self.traced.wildcards.items()}
        for call in self.traced.calls:
            args, kwargs = fx.node.map_arg((call.args, call.kwargs), made.__getitem__)
            made[call] = editor.insert(call.op, call.target, args, kwargs, like=match.anchor, before=match.before)
        return [made[output] for output in self.traced.outputs]


@legality("pattern: the replacement is a value")
def replacement_is_a_value(rule: RewriteRule, match: Match) -> str | None:
    """A literal cannot take the place of a node."""
    for output in rule.traced.outputs if rule.traced is not None else ():
        if output.op == "placeholder" and not isinstance(match[str(output.target)], fx.Node):
            return f"{output} is the literal {match[str(output.target)]!r}, which cannot take the place of a node"
    return None


@legality("pattern: what passes through is the same tensor")
def passed_through_is_the_same(rule: RewriteRule, match: Match, facts: GraphFacts) -> str | None:
    """An input that takes the place of a result must be the tensor that the result was, in the same mode."""
    outputs = rule.traced.outputs if rule.traced is not None else ()
    for output, theirs in zip(match.outputs, outputs, strict=False):
        if theirs.op != "placeholder":
            continue
        value = match[str(theirs.target)]
        examples = example_of(value), example_of(output)
        if facts.reads_storage and None in examples:
            return f"{value} may lie elsewhere in its storage than {output}, and the graph looks there with as_strided"
        reason = (
            same_tensor(*examples) or same_place(facts, *examples) or same_mode(facts, output, (value, *match.nodes))
        )
        if reason is not None:
            return f"{value} cannot take the place of {output}: {reason}"
    return None


def _why_not_hand_on(rule: RewriteRule, match: Match, facts: GraphFacts) -> str | None:
    return replacement_is_a_value(rule, match) or passed_through_is_the_same(rule, match, facts)


class _Found(NamedTuple):
    rule: RewriteRule
    match: Match
    replaced: dict[fx.Node, fx.Node]


def region(index: GraphIndex, nodes: Sequence[fx.Node], inputs: Iterable[fx.Node], data: Any = None) -> Match:
    """Nodes of a graph as a match of the pattern that they are themselves.

    Args:
        index: the graph.
        nodes: in order; the last one gives the result.
        inputs: what they are computed from.
        data: what else a rule has to know of them.
    """
    given = {source.name: source for source in inputs}
    pattern = Pattern(nodes[-1].graph, given, tuple(nodes), (nodes[-1],))
    return Match(pattern, {node: node for node in (*given.values(), *nodes)}, index, data=data)


class _Finder:
    """Searches by a function, as `Matcher` does by a pattern."""

    def __init__(self, find: Find, index: GraphIndex) -> None:
        self.find = find
        self.index = index
        self.starts = index.nodes
        self.misses: list[Miss] = []

    def matches(self, node: fx.Node, taken: set[fx.Node]) -> Iterator[Match]:
        found = self.find(node, self.index)
        if isinstance(found, Match):
            yield found
        elif found is not None:
            self.misses.append(found)


def _one_for_each_place(refused: list[Miss], nearly: list[Miss], taken: set[fx.Node]) -> Iterator[Miss]:
    """Of several reasons for one place the nearest miss: what was found whole, then where most was met."""
    claimed: set[fx.Node] = set()
    for misses, others in ((refused, frozenset[fx.Node]()), (nearly, taken)):
        for miss in sorted(misses, key=lambda miss: -len(miss.met)):
            met = {miss.node, *miss.met}
            if claimed.isdisjoint(met) and others.isdisjoint(met):
                claimed |= met
                yield miss


class PatternPass(OptimizationPass):
    """A pass whose rewrites are rules. A subclass states `rules`; earlier rules come first, then earlier nodes.

    No two rewrites of a round touch the same node: of matches that overlap the first is taken, and the others are
    refusals. Rounds go on until no rule applies, so that a second run finds nothing. A rule that matches nowhere
    is reported with its nearest miss, if most of it was met somewhere. Each place is refused once, for the reason of
    the nearest miss.
    """

    rules: ClassVar[tuple[RewriteRule, ...]] = ()
    least_met: ClassVar[int] = 2
    """How many calls of a pattern must be there for its nearest miss to be worth a word."""

    def analyze(self, editor: GraphEditor) -> Analysis:
        """Find where the rules apply."""
        analysis = Analysis()
        index = GraphIndex(editor.graph, editor.storages)
        facts = GraphFacts(editor)
        claimed = ClaimedNodes()
        replaced: dict[fx.Node, fx.Node] = {}
        refused: list[Miss] = []
        nearly: list[Miss] = []
        for rule in self.rules:
            for search in rule.searches(index):
                before = len(analysis.opportunities), len(refused)
                for node in search.starts:
                    match = self._first_legal(rule, search, node, claimed, refused, facts)
                    if match is not None:
                        claimed.accept(match, rule.shared_after(match))
                        found = _Found(rule, match, replaced)
                        analysis.opportunities.append(Opportunity(match.anchor, found, rule.name, rule.tolerance))
                if isinstance(search, _Finder):
                    nearly += search.misses
                elif before == (len(analysis.opportunities), len(refused)):
                    miss = search.nearest_miss(least=self.least_met)
                    nearly += [] if miss is None else [miss._replace(reason=f"{rule.name}: {miss.reason}")]
        for miss in _one_for_each_place(refused, nearly, claimed.nodes):
            analysis.refuse(miss.node, miss.reason)
        return analysis

    @staticmethod
    def _first_legal(
        rule: RewriteRule,
        search: Matcher | _Finder,
        node: fx.Node,
        claimed: ClaimedNodes,
        refused: list[Miss],
        facts: GraphFacts,
    ) -> Match | None:
        refusal: Miss | None = None
        for match in search.matches(node, claimed.nodes):
            reason = (
                why_not(
                    match,
                    claimed,
                    rule.shared_after(match),
                    draws=rule.draws,
                    same_sharing=rule.same_sharing,
                    drops_assertions=rule.drops_assertions,
                )
                or (rule.hands_on and _why_not_hand_on(rule, match, facts))
                or (rule.checks and next((reason for check in rule.checks if (reason := check(match))), None))
                or None
            )
            if reason is None:
                return match
            refusal = refusal or Miss(node, f"{rule.name}: {reason}", match.nodes)
            if node in claimed.nodes:
                break
        if refusal is not None:
            refused.append(refusal)
        return None

    def transform(self, editor: GraphEditor, opportunity: Opportunity) -> None:
        """Put the replacement in the place of one match.

        Raises:
            PassError: the replacement is of another shape or dtype, or shares storage that the rule does not tell of.
        """
        rule, match, replaced = opportunity.data
        match = match.resolved(replaced)
        made = rule.make(editor, match)
        if len(made) != len(match.outputs):
            raise PassError(f"the rule {rule.name} made {len(made)} values for {len(match.outputs)} outputs.")
        if rule.build is not None and not rule.same_sharing and _shares(editor, match, made):
            raise PassError(
                f"what the rule {rule.name} built for {match.anchor} may share storage with something else; expected "
                "new storage, or a rule with same_sharing=True that keeps sharing as it was."
            )
        for output, value in zip(match.outputs, made, strict=True):
            _require_same_kind(rule, output, value)
        replaced.update(zip(match.outputs, made, strict=True))
        for node in reversed(match.nodes):
            if node in replaced:
                editor.replace(node, replaced[node])
            else:
                for assertion in filter(is_metadata_assertion, list(node.users)):
                    editor.erase(assertion)
                editor.erase(node)

    def run(self, editor: GraphEditor, *, denied: Iterable[str] = ()) -> PassResult:
        """Apply the rules until none applies.

        Raises:
            PassError: they go on for ever, or a replacement is not what its rule promises.
        """
        denied = frozenset(denied)
        result = last = super().run(editor, denied=denied)
        rounds = 1
        while self._may_find_more(last):
            if rounds == MOST_ROUNDS:
                raise PassError(f"{self.name}: the rules still find something after {MOST_ROUNDS} rounds.")
            last = super().run(editor, denied=denied)
            rounds += 1
            result.rewrites += last.rewrites
            result.refusals = last.refusals
            result.statistics.update(last.statistics)
        return result

    def _may_find_more(self, last: PassResult) -> bool:
        """Whether another round may find what this one did not.

        A new match needs a node that a rewrite inserted, a node that came to stand next to another, two values that
        became one, or that what refused it is gone.
        """
        keys = {key for rule in self.rules for each in rule.patterns for key in each.keys.values()}
        return last.changed and (
            bool(last.refusals)
            or any(rule.may_merge_outputs for rule in self.rules)
            or any(
                rewrite.reused or any(new.op == "call_module" or new.target in keys for new in rewrite.after)
                for rewrite in last.rewrites
            )
        )


def _shares(editor: GraphEditor, match: Match, made: list[fx.Node]) -> bool:
    """Whether what was built shares storage with what was there, or with the module's."""
    new = {node.name for node in editor.current.after}
    inside = reached(
        (node for node in made if node.name in new),
        lambda node: (source for source in node.all_input_nodes if source.name in new),
    )
    return any(node.op == "get_attr" for node in made) or bool(sharing(tuple(made), inside, effects_of))


def _require_same_kind(rule: RewriteRule, output: fx.Node, value: Any) -> None:
    """What takes the place of a value is of its shape and dtype, as far as the capture kept examples."""
    if value_of(output) is value_of(value):
        return
    examples = example_of(output), example_of(value)
    kinds = [(each.shape, each.dtype, each.device) for each in examples if each is not None]
    if len(kinds) == 2 and kinds[0] != kinds[1]:
        raise PassError(
            f"the rule {rule.name} replaces {output} of {kinds[0]} with {value} of {kinds[1]}; expected the same "
            "shape, dtype and device. Add a check to the rule."
        )
