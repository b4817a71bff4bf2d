"""When the nodes of a match may be replaced."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

import torch
from torch import fx

from fxopt_core.graphs.aliases import OUTSIDE, Storages
from fxopt_core.graphs.effects import PURE, Effects, Storage
from fxopt_core.graphs.legality import legality
from fxopt_core.graphs.matching import Match, outside_users

Sharing = dict[tuple[int, fx.Node | int], bool]
"""Which output shares storage: its number, and the node outside or the number of the output before it with which it
does; whether it surely does."""


def sharing(
    outputs: tuple[fx.Node, ...], inside: Collection[fx.Node], effects: Callable[[fx.Node], Effects]
) -> Sharing:
    """With what the outputs of some calls share storage.

    Args:
        outputs: of the calls.
        inside: the calls themselves; whatever else they use is outside.
        effects: of a call.
    """
    if all(effects(node) is PURE for node in inside) and len({*outputs}) == len(outputs) and {*outputs} <= {*inside}:
        return {}
    found: Sharing = {}
    made: dict[fx.Node, tuple[int, bool]] = {}
    for number, output in enumerate(outputs):
        for root, surely in _roots(output, inside, effects):
            if root not in inside:
                found[number, root] = found.get((number, root), False) or surely
            elif root in made:
                found[number, made[root][0]] = surely and made[root][1]
            else:
                made[root] = (number, surely)
    return found


def _roots(
    output: fx.Node, inside: Collection[fx.Node], effects: Callable[[fx.Node], Effects]
) -> Iterator[tuple[fx.Node, bool]]:
    """The nodes whose own storage the output's may be: outside, or where it was made."""
    pending, seen = [(output, True)], {output}
    while pending:
        node, surely = pending.pop()
        if node not in inside:
            yield node, surely
            continue
        done = effects(node)
        if not done.view:
            yield node, surely and not done.aliases
        for place in done.aliases:
            if isinstance(place, fx.Node) and place not in seen:
                seen.add(place)
                # Writing in place gives the same tensor back, as surely as a view does.
                pending.append((place, surely and (done.view or place in done.writes)))


@dataclass
class ClaimedNodes:
    """What accepted matches hold: matches found later have to respect it.

    Attributes:
        nodes: those that will be replaced.
        fixed: those next to a match that is inserted early, which must stay where they are.
    """

    nodes: set[fx.Node] = field(default_factory=set)
    fixed: set[fx.Node] = field(default_factory=set)
    _shares: dict[fx.Node, list[fx.Node]] = field(default_factory=lambda: defaultdict(list))

    def accept(self, match: Match, after: Sharing) -> None:
        """Take the match's nodes, and note what its replacement will share storage with."""
        self.nodes.update(match.nodes)
        if _moves_up(match):
            self.fixed.update(match.inputs, outside_users(match))
        storages = match.index.storages
        for number, other in after:
            partner = match.outputs[other] if isinstance(other, int) else other
            storages.merge(match.outputs[number], partner)
            self._shares[match.outputs[number]].append(partner)
            if match.outputs[number] in storages.returned:
                self._return(partner, storages)

    def _return(self, node: fx.Node, storages: Storages) -> None:
        pending: list[Storage] = [node]
        while pending:
            place = pending.pop()
            if isinstance(place, fx.Node) and place not in storages.returned:
                storages.returned.add(place)
                pending += [*storages.effects(place).aliases, *self._shares.get(place, ())]


def _moves_up(match: Match) -> bool:
    """Whether an output is used before the last node of the match, so that the replacement must stand earlier."""
    if len(match.outputs) == 1:
        return False
    return any(user < match.anchor for user in outside_users(match))


@legality("pattern: one match for each node")
def one_match_for_each(match: Match, claimed: ClaimedNodes) -> str | None:
    """A node is replaced once."""
    for node in match.nodes:
        if node in claimed.nodes:
            return f"{node} is part of another match"
        if node in claimed.fixed:
            return f"{node} is used by another match with several outputs"
    if _moves_up(match):
        for node in (*match.inputs, *outside_users(match)):
            if node in claimed.nodes:
                return f"{node}, before or after the match, is part of another match"
    return None


def is_metadata_assertion(node: fx.Node) -> bool:
    """Whether the node is what `torch.export` adds to check that a value has the dtype that it had in the example."""
    return node.target is torch.ops.aten._assert_tensor_metadata.default


@legality("pattern: inner values are used inside only")
def inner_values_stay_inside(match: Match, drops_assertions: bool) -> str | None:
    """What the pattern does not return goes; nobody else may need it."""
    for node in match.nodes:
        if node not in match.outputs:
            for user in node.users:
                if user not in match.nodes and not (drops_assertions and is_metadata_assertion(user)):
                    return f"{node} is also used by {user}, outside of the match"
    return None


@legality("pattern: inputs lie outside")
def inputs_lie_outside(match: Match) -> str | None:
    """What the replacement reads must not be what it replaces."""
    for node in match.inputs:
        if node in match.nodes:
            return f"{node} is an input and would be replaced"
    return None


@legality("pattern: a draw stays")
def draws_stay(match: Match, allowed: bool) -> str | None:
    """A random draw moves the random stream; and where a pattern is for draws, their order counts."""
    index = match.index
    drawing = [node for node in match.nodes if index.storages.effects(node).random]
    if not drawing:
        return None
    if not allowed:
        return f"{drawing[0]} draws from the random stream"
    between = index.between(index.draws, match)
    return f"{between} draws in between" if between is not None else None


@legality("pattern: what a node does stays")
def effects_stay(match: Match) -> str | None:
    """Assertions and mode switches stay, and so does what nothing is known of."""
    for node in match.nodes:
        effects = match.index.storages.effects(node)
        if effects.opaque or effects.checks or effects.context:
            return f"{node} does more than compute a value, or nothing is known of it"
    return None


@legality("pattern: a write stays")
def writes_stay(match: Match) -> str | None:
    """A match may write only what it made itself and does not return from before the write."""
    own, outputs = set(match.nodes), set(match.outputs)
    effects = match.index.storages.effects
    for node in match.nodes:
        for place in effects(node).writes:
            if not isinstance(place, fx.Node) or place not in own:
                return f"{node} writes {place}, which is not of the match"
            # Through views, up to where the storage was made.
            for root, _ in _roots(place, own, effects):
                if root not in own:
                    return f"{node} writes storage of {root}, which is not of the match"
            if place in outputs:
                return f"{node} writes {place}, which is returned"
    return None


@legality("pattern: nothing is written in between")
def unwritten_in_between(match: Match) -> str | None:
    """The replacement reads everything at one place, where it must be as it was."""
    index = match.index
    if index.storages.pure:
        return None
    first: dict[Storage, int] = {}
    for node in match.nodes:
        places: list[Storage] = [node, *node.all_input_nodes]
        if any(each.op in ("call_module", "get_attr") for each in (node, *node.all_input_nodes)):
            places.append(OUTSIDE)
        position = match.span[0] if _moves_up(match) else index.position[node]
        for place in map(index.storages.of, places):
            first[place] = min(first.get(place, position), position)
    for place, position in first.items():
        # What is written before the match reads it for the first time, the replacement reads as it is then, too.
        between = index.between(index.writes(place), match, position)
        if between is not None:
            return f"{between} may write in between what the match reads"
    return None


@legality("pattern: one mode")
def mode_is_unswitched(match: Match) -> str | None:
    """Gradient and autocast mode decide what a node computes."""
    between = match.index.between(match.index.switches, match)
    return None if between is None else f"{between} may switch a mode (gradients, autocast) in between"


@legality("pattern: there is a place")
def there_is_a_place(match: Match) -> str | None:
    """All inputs must be there before an output is used."""
    if not _moves_up(match):
        return None
    first = min(outside_users(match))
    late = [node for node in match.inputs if node >= first]
    return f"{first} uses an output before the input {late[0]} is there" if late else None


@legality("pattern: storage is shared as before")
def sharing_stays(match: Match, after: Sharing) -> str | None:
    """Who shares storage shows where it is written, and to the caller."""
    storages = match.index.storages
    before = sharing(match.outputs, match.nodes, storages.effects)
    for key in {**before, **after}:
        if before.get(key) and after.get(key):
            continue
        number, other = key
        output = match.outputs[number]
        partner = match.outputs[other] if isinstance(other, int) else other
        which = f"whether {output} and {partner} share storage may change"
        if storages.written(output) or storages.written(partner):
            return f"{which}, and one is written to"
        seen = partner in storages.returned if isinstance(other, int) else storages.escapes(partner)
        if output in storages.returned and seen:
            return f"{which}, and the caller may hold both"
    return None


def why_not(
    match: Match, claimed: ClaimedNodes, after: Sharing, *, draws: bool, same_sharing: bool, drops_assertions: bool
) -> str | None:
    """Why the match must not be replaced, in words; `None` if it may.

    Args:
        match: what was found.
        claimed: what accepted matches hold.
        after: with what the outputs of the replacement will share storage.
        draws: whether the rule draws the same random numbers in the same order.
        same_sharing: whether the rule vouches that sharing stays, though effects do not show it.
        drops_assertions: whether assertions about the dtype of inner values vanish with them.
    """
    reason = (
        one_match_for_each(match, claimed)
        or inner_values_stay_inside(match, drops_assertions)
        or inputs_lie_outside(match)
    )
    if reason is not None:
        return reason
    # Most matches are of one output and compute, and nothing else happens in most graphs: then nothing can be wrong.
    index = match.index
    effectful = index.storages.effectful
    plain = not effectful or effectful.keys().isdisjoint(match.nodes)
    if not plain:
        reason = draws_stay(match, draws) or effects_stay(match) or writes_stay(match)
    if not index.storages.pure or index.switches:
        reason = reason or unwritten_in_between(match) or mode_is_unswitched(match)
    if len(match.outputs) > 1:
        reason = reason or there_is_a_place(match)
    if not same_sharing and (after or not plain):
        reason = reason or sharing_stays(match, after)
    return reason
