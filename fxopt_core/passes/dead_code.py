"""Dead code: nodes that nothing observes."""

from __future__ import annotations

import torch
from torch import fx

from fxopt_core.graphs.aliases import Storages
from fxopt_core.graphs.editor import GraphEditor
from fxopt_core.graphs.effects import Effects, Storage
from fxopt_core.graphs.examples import value_of
from fxopt_core.graphs.legality import legality
from fxopt_core.graphs.walks import reached
from fxopt_core.passes.base import Analysis, Opportunity, OptimizationPass, PassResult
from fxopt_core.passes.registry import register_pass


@legality("dead_code: a write is seen")
def write_is_seen(effects: Effects, storages: Storages, read_later: set[Storage]) -> str | None:
    """A write stays when its storage is visible from outside, or read by a node that stays."""
    for place in effects.writes:
        if storages.escapes(place) or storages.of(place) in read_later:
            return "it writes storage that is read later or seen from outside"
    return None


@legality("dead_code: a draw moves the random stream")
def draw_moves_the_random_stream(effects: Effects) -> str | None:
    """A random draw stays, since every later draw depends on it."""
    return "it draws from the random stream, on which later draws depend" if effects.random else None


@legality("dead_code: a mode switch stays")
def mode_switch_stays(effects: Effects) -> str | None:
    """A switch of the gradient or autocast mode stays."""
    return "it switches the mode in which later nodes run" if effects.context else None


@legality("dead_code: an assertion stays")
def assertion_stays(effects: Effects) -> str | None:
    """A node that may stop the program stays."""
    return "it is an assertion" if effects.checks else None


@legality("dead_code: what may fail stays")
def failure_stays(effects: Effects) -> str | None:
    """A node that raises for some values, such as an index out of range, stays: the caller sees whether it does."""
    return "it raises for some values, such as an index out of range" if effects.raises else None


@legality("dead_code: a number out of data stays")
def number_out_of_data_stays(node: fx.Node, numbers: set[fx.Node]) -> str | None:
    """A number of Python that was read out of a tensor may be one that a call refuses, such as a negative size."""
    taken = [source.name for source in node.all_input_nodes if source in numbers]
    return f"it may refuse {', '.join(taken)}, a number read out of data" if taken else None


@legality("dead_code: the unknown stays")
def unknown_stays(effects: Effects) -> str | None:
    """A node of which nothing is known stays."""
    return "nothing is known of what it does" if effects.opaque else None


@register_pass("dead_code")
class DeadCode(OptimizationPass):
    """Take out what nothing observes.

        n = f(x...)    becomes    nothing

    where no node that stays uses `n`, and `f` does nothing else that can be seen: it writes no storage that is read
    later or visible from outside (through whatever view, `out=`, in-place flag or statistics of a training
    BatchNorm), draws no random number, switches no mode, asserts nothing, and is known. A write to storage that
    only dead nodes read is dead too. Inputs stay: they are the signature. Exactness: bitwise, gradients too.

    To raise is something that a caller sees. So `f` stays if it may raise because of the *values* that it is given:
    an index (gathering, scattering, embeddings, targets of losses, `x[i]` of a tensor `i` of integers), a divisor of
    integers that may be zero, a matrix to be solved or decomposed, a number outside of a range that is asked for, a
    number of Python that was read out of a tensor. What can fail only because of shapes, dtypes and structure goes: for
    those of the example it did not, and others are for the guards of the capture to refuse.

    One walk backwards; linear in nodes and edges.
    """

    def analyze(self, editor: GraphEditor) -> Analysis:
        """Find dead nodes, last ones first."""
        storages = editor.storages
        analysis = Analysis()
        dead: set[fx.Node] = set()
        read_later: set[Storage] = set()
        pure = storages.pure
        numbers = _numbers_out_of_data(editor.graph)
        for node in reversed(editor.graph.nodes):
            used = node.op in ("placeholder", "output") or not dead.issuperset(node.users)
            reason = None if used else self._observed(storages, node, read_later, numbers)
            if not used and reason is None:
                dead.add(node)
                analysis.opportunities.append(Opportunity(node))
                continue
            if reason is not None:
                analysis.refuse(node, reason)
            if not pure:
                read_later.update(storages.of(source) for source in node.all_input_nodes)
        return analysis

    @staticmethod
    def _observed(storages: Storages, node: fx.Node, read_later: set[Storage], numbers: set[fx.Node]) -> str | None:
        """Why a node without users stays, if it does."""
        effects = storages.effects(node)
        return (
            unknown_stays(effects)
            or mode_switch_stays(effects)
            or assertion_stays(effects)
            or draw_moves_the_random_stream(effects)
            or write_is_seen(effects, storages, read_later)
            or failure_stays(effects)
            or (number_out_of_data_stays(node, numbers) if numbers else None)
        )

    def transform(self, editor: GraphEditor, opportunity: Opportunity) -> None:
        """Take one node out."""
        editor.erase(opportunity.node)

    def verify(self, editor: GraphEditor, result: PassResult) -> None:
        """Nothing that was taken out is still there."""
        self.require_gone(editor, result.rewrites)


_READS_OUT = (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.item.default, int, float, complex)


def _numbers_out_of_data(graph: fx.Graph) -> set[fx.Node]:
    """The nodes that read a number of Python out of a tensor, and those that compute numbers from such."""
    found = {node for target in _READS_OUT for node in graph.find_nodes(op="call_function", target=target)}
    found |= {node for name in ("item", "tolist") for node in graph.find_nodes(op="call_method", target=name)}
    return reached(
        found,
        lambda node: (
            user for user in node.users if user.op.startswith("call") and not isinstance(value_of(user), torch.Tensor)
        ),
    )
