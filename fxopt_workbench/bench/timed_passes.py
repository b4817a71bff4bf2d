"""What `fxopt bench passes` times of this package."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from torch import fx

from fxopt_core.graphs.editor import GraphEditor
from fxopt_core.optimizer.pipeline import PipelineResult, run_in_place
from fxopt_core.passes import choose_passes, make_pass, pass_names
from fxopt_core.passes.pattern_pass import PatternPass, RewriteRule
from fxopt_core.verification import Tolerance
from fxopt_workbench.bench.passes import butterflies, dense_chain, synthetic_aten_graph
from fxopt_workbench.bench.passes.peers import pattern, replacement, two_anchor_pattern, two_anchor_replacement

Work = Callable[[fx.GraphModule], fx.Graph]


class Timed(NamedTuple):
    """Something to time.

    Attributes:
        work: does it on a graph module that it may change, generates no code, and returns the graph.
        graph: makes a graph of a number of nodes to do it on.
    """

    work: Work
    graph: Callable[[int], fx.GraphModule] = synthetic_aten_graph


class OnePattern(PatternPass):
    """`x * sigmoid(x)` becomes `silu(x)`, as with the peers. Exactness: a few units in the last place."""

    name = "one_pattern_rewrite"
    tolerance = Tolerance(relative=1e-6)
    rules = (RewriteRule("silu", pattern, replacement),)


class TwoAnchors(PatternPass):
    """`x + y` and `x - y` become a difference and a sum with factor -1. Exactness: bitwise."""

    name = "two_anchor_rewrite"
    rules = (RewriteRule("swap", two_anchor_pattern, two_anchor_replacement),)


def timed_passes() -> dict[str, Timed]:
    """Everything that can be timed, by its name: each registered pass, rewrites by a pattern, the preset."""
    return {
        **{name: Timed(_registered(name)) for name in pass_names()},
        # The peer takes out what is dead, so ours has to do that too.
        "constant_folding": Timed(_registered("constant_folding", "dead_code")),
        "one_pattern_rewrite": Timed(_rules(OnePattern)),
        "dense_pattern_rewrite": Timed(_rules(OnePattern), dense_chain),
        "two_anchor_rewrite": Timed(_rules(TwoAnchors), butterflies),
        "inference_preset": Timed(_preset),
    }


def _registered(*names: str) -> Work:
    def work(graph_module: fx.GraphModule) -> fx.Graph:
        # No check of the structure after it: the peers make none. The preset is timed with one.
        editor = GraphEditor(graph_module)
        for name in names:
            make_pass(name).run(editor)
        return graph_module.graph

    return work


def _rules(class_: type[PatternPass]) -> Work:
    def work(graph_module: fx.GraphModule) -> fx.Graph:
        class_().run(GraphEditor(graph_module))
        return graph_module.graph

    return work


def _preset(graph_module: fx.GraphModule) -> fx.Graph:
    run_in_place(PipelineResult(graph_module), choose_passes("inference"), recompile=False)
    return graph_module.graph
