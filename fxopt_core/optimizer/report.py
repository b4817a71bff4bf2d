"""What an optimisation did and what it left alone, as data."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from torch import fx

from fxopt_core.capture import Attempt
from fxopt_core.costs import Analysis, Cost, analyze_graph
from fxopt_core.display import Displayable
from fxopt_core.graphs.editor import Rewrite
from fxopt_core.graphs.names import count_operations
from fxopt_core.optimizer.pipeline import PassFailure, PipelineResult
from fxopt_core.passes import Refusal
from fxopt_core.verification import Equivalence


@dataclass
class OptimizedGraph:
    """One graph of the model, before and after."""

    before: fx.GraphModule
    result: PipelineResult

    @cached_property
    def _by_name(self) -> tuple[dict[str, Cost], ...]:
        """What each node costs, before and after."""
        return tuple({node.name: node.cost for node in costs.nodes} for costs in self.costs or ())

    @cached_property
    def costs(self) -> tuple[Analysis, Analysis] | None:
        """What the graph costs before and after; `None` where the capture kept no shapes, or they depend on data."""
        try:
            return analyze_graph(self.before), analyze_graph(self.result.graph_module)
        except ValueError:
            return None

    def cost_of(self, rewrite: Rewrite) -> tuple[int, int] | None:
        """FLOPs and bytes that a rewrite adds (saves, if negative); `None` where costs are not known.

        A node that one rewrite makes and another one takes out again counts nowhere, so that the costs of all
        rewrites add up to the difference of the graphs.
        """
        if self.costs is None:
            return None
        before, after = self._by_name
        removed = [before[node.name] for node in rewrite.before if node.name in before]
        added = [after[node.name] for node in rewrite.after if node.name in after]
        flops = sum(cost.flops for cost in added) - sum(cost.flops for cost in removed)
        return flops, sum(cost.bytes for cost in added) - sum(cost.bytes for cost in removed)


@dataclass
class OptimizationReport(Displayable):
    """Everything that an optimisation did, and did not do, with reasons.

    Attributes:
        method: how the model was captured.
        attempts: the ways of capture that were tried, in order.
        caveats: what the captured graph does not say about the model.
        passes: the names of the passes that were asked for.
        graphs: each graph of the model before and after; more than one where Dynamo broke the graph.
        equivalence: what the comparison with the model found, on the last, accepted version; `None` when it was
            not asked for.
        denied: keys of rewrites that a comparison found wrong, and that were taken back.
        engine: which engine runs the graph and why; `None` where PyTorch does, and no other was asked for.
    """

    method: str
    attempts: tuple[Attempt, ...]
    caveats: tuple[str, ...]
    passes: tuple[str, ...]
    graphs: list[OptimizedGraph] = field(default_factory=list)
    equivalence: Equivalence | None = None
    denied: tuple[str, ...] = ()
    engine: Displayable | None = None

    @property
    def rewrites(self) -> list[Rewrite]:
        """Every rewrite, in order."""
        return [rewrite for graph in self.graphs for rewrite in graph.result.rewrites]

    @property
    def refusals(self) -> list[tuple[str, Refusal]]:
        """Every place that a pass left alone: the pass, and the node with the reason."""
        return [
            (name, refusal)
            for graph in self.graphs
            for name, refusals in graph.result.refusals.items()
            for refusal in refusals
        ]

    @property
    def failures(self) -> list[PassFailure]:
        """The passes that raised or broke a graph, and were taken out."""
        return list(dict.fromkeys(failure for graph in self.graphs for failure in graph.result.failures))

    @property
    def nodes_before(self) -> int:
        """How many nodes compute something, before."""
        return sum(count_operations(graph.before).total() for graph in self.graphs)

    @property
    def nodes_after(self) -> int:
        """How many nodes compute something, after."""
        return sum(count_operations(graph.result.graph_module).total() for graph in self.graphs)

    @property
    def before_and_after(self) -> dict[str, tuple[int, int] | None]:
        """Operations, FLOPs and bytes moved, before and after; `None` where a graph's costs are not known."""
        known = [graph.costs for graph in self.graphs if graph.costs is not None]
        totals: dict[str, tuple[int, int] | None] = {"nodes": (self.nodes_before, self.nodes_after)}
        for name in ("flops", "bytes"):
            sides = [[getattr(costs.total, name) for costs in both] for both in known]
            complete = len(known) == len(self.graphs)
            totals[name] = (sum(one[0] for one in sides), sum(one[1] for one in sides)) if complete else None
        return totals

    @property
    def refused(self) -> bool:
        """Whether a pass was taken out, or a comparison with the model had a rewrite taken back."""
        return bool(self.failures or self.denied)
