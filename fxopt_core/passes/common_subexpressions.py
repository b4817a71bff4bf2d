"""Common subexpressions: what was computed before need not be computed again."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from torch import fx

from fxopt_core.graphs.aliases import OUTSIDE, Storages
from fxopt_core.graphs.editor import GraphEditor
from fxopt_core.graphs.effects import PURE, Effects, Storage
from fxopt_core.graphs.legality import legality
from fxopt_core.graphs.literal_keys import UnknownLiteralError, literal_key
from fxopt_core.graphs.timeline import Timeline
from fxopt_core.graphs.walks import reached
from fxopt_core.passes.base import Analysis, Opportunity, OptimizationPass
from fxopt_core.passes.registry import register_pass


class Computed(NamedTuple):
    """A value that is there: its node, and the state of the world when it was computed."""

    node: fx.Node
    mode: int
    versions: tuple[int, ...]


@legality("common_subexpressions: a draw is unique")
def draw_is_unique(effects: Effects) -> str | None:
    """Two random draws are two values."""
    return "it draws from the random stream" if effects.random else None


@legality("common_subexpressions: same mode")
def same_mode(earlier: Computed, now: Computed) -> str | None:
    """Gradient and autocast mode decide what a node computes and whether gradients flow."""
    return None if earlier.mode == now.mode else "a mode (gradients, autocast) may have been switched in between"


@legality("common_subexpressions: inputs unchanged")
def inputs_unchanged(earlier: Computed, now: Computed) -> str | None:
    """The same expression over storage that was written in between is another value, and so is a second write."""
    return None if earlier.versions == now.versions else "an input was written in between"


@legality("common_subexpressions: the result is not written")
def result_is_not_written(earlier: Computed, now: Computed, storages: Storages) -> str | None:
    """A write to one of two copies must not reach the other. Two views of one storage are no copies."""
    if storages.effects(now.node).view:
        return None
    if storages.written(earlier.node) or storages.written(now.node):
        return "one of the two results is written to"
    return None


@legality("common_subexpressions: a view stays as it is")
def view_stays(earlier: Computed, now: Computed, storages: Storages) -> str | None:
    """Written, a view may become another one, by `unsqueeze_` or as an `out=` of another size; its twin must not."""
    if storages.pure or not storages.effects(now.node).view or now.node.op == "get_attr":
        return None
    # Not each value that shares its storage, but those that may be the very same tensor, as `contiguous` gives it back.
    for tensor in reached(
        (earlier.node, now.node), lambda one: (user for user in one.users if _may_return(user, one, storages))
    ):
        for user in tensor.users:
            effects = storages.effects(user)
            if effects.opaque or (effects.reshapes and tensor in effects.writes):
                return f"{user} may give {tensor} another shape"
    return None


def _may_return(user: fx.Node, given: fx.Node, storages: Storages) -> bool:
    effects = storages.effects(user)
    return given in effects.aliases and not effects.view


@legality("common_subexpressions: returned values stay apart")
def returned_stay_apart(earlier: Computed, now: Computed, storages: Storages, outputs: set[fx.Node]) -> str | None:
    """Two values that the caller gets must not become one: the caller may write to either."""
    effects = storages.effects(now.node)
    if now.node.op == "get_attr":
        return None
    visible = outputs if effects.view else storages.returned
    if earlier.node in visible and now.node in visible:
        return "both values are returned, and would become one tensor"
    return None


def _computed(node: fx.Node, storages: Storages, timeline: Timeline) -> Computed:
    """The node with the state of the world when it is computed."""
    mode = timeline.mode(node).switches
    if storages.pure:
        return Computed(node, mode, ())
    places: list[Storage] = [*node.all_input_nodes]
    if node.op in ("call_module", "get_attr"):
        places.append(OUTSIDE)
    return Computed(node, mode, tuple(timeline.version(place, node) for place in places))


@register_pass("common_subexpressions")
class CommonSubexpressions(OptimizationPass):
    """Compute the same thing once.

        m = f(x...); ...; n = f(x...)    becomes    m = f(x...); ...; (m for n)

    where both apply the same function to the same values (nodes by value number; literals by type and bits: 1, 1.0
    and True differ, and so do 0.0 and -0.0; keyword arguments in any order), nothing was written in between to what
    they read, the mode (gradients, autocast) is the same, neither draws random numbers nor writes, neither result
    is written to later (unless they are views of the same storage, which keep their shape), and not both are returned.
    Exactness: bitwise; a gradient that was the sum of two is accumulated in another order, which may change its last
    bits.

    Value numbering with a version for each storage class (Cocke 1970, "Global common subexpression elimination",
    extended by the memory versions of SSA-based compilers); one walk, linear in nodes and edges.
    """

    def analyze(self, editor: GraphEditor) -> Analysis:
        """Number the values and find those that are there already."""
        storages = editor.storages
        analysis = Analysis()
        canonical: dict[fx.Node, fx.Node] = {}
        table: dict[Hashable, Computed] = {}
        outputs = set(editor.graph.output_node().all_input_nodes)
        timeline = editor.timeline
        for node in editor.graph.nodes:
            effects = storages.effects(node)
            # What is opaque never equals another: each one counts as a switch of every mode.
            if node.op in ("placeholder", "output") or effects.opaque:
                continue
            if effects is not PURE and (reason := draw_is_unique(effects)) is not None:
                analysis.refuse(node, reason)
                continue
            try:
                key = _key(node, canonical)
            except UnknownLiteralError as error:
                analysis.refuse(node, f"it cannot be compared: {error}")
                continue
            now = _computed(node, storages, timeline)
            earlier = table.setdefault(key, now)
            if earlier is now:
                continue
            reason = (
                same_mode(earlier, now)
                or inputs_unchanged(earlier, now)
                or result_is_not_written(earlier, now, storages)
                or view_stays(earlier, now, storages)
                or returned_stay_apart(earlier, now, storages, outputs)
            )
            if reason is not None:
                analysis.refuse(node, f"same expression as {earlier.node}, but {reason}")
                table[key] = now
                continue
            canonical[node] = earlier.node
            if node in storages.returned:
                storages.returned.add(earlier.node)
            if node in outputs:
                outputs.add(earlier.node)
            analysis.opportunities.append(Opportunity(node, earlier.node))
        return analysis

    def transform(self, editor: GraphEditor, opportunity: Opportunity) -> None:
        """Use the value that is there."""
        editor.replace(opportunity.node, opportunity.data)


def _key(node: fx.Node, canonical: dict[fx.Node, fx.Node]) -> Hashable:
    """Equal for nodes that apply the same function to the same values."""
    target: Hashable = node.target
    owner = node.graph.owning_module
    if node.op == "call_module" and owner is not None:
        # One module may be reachable by two names.
        target = id(owner.get_submodule(str(target)))
    arguments = [literal_key(argument, canonical) for argument in node.args]
    if node.kwargs:
        # Keywords mean the same in any order; in a dictionary that is an argument, the order counts.
        return (node.op, target, *arguments, literal_key(dict(sorted(node.kwargs.items())), canonical))
    return (node.op, target, *arguments)
