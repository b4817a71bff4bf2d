"""What an optimisation did and what it left alone, as data."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import fx

from fxopt_core.capture import Attempt
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
    def refused(self) -> bool:
        """Whether a pass was taken out, or a comparison with the model had a rewrite taken back."""
        return bool(self.failures or self.denied)
