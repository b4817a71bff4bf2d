"""What a capture gives: the graphs, and everything that a reader must know to trust them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from torch import fx

from fxopt_core.capture.agreement import Agreement
from fxopt_core.capture.breaks import GraphBreak
from fxopt_core.capture.errors import CaptureError
from fxopt_core.capture.guards import Guard
from fxopt_core.capture.partition import Partition
from fxopt_core.capture.running import Runner
from fxopt_core.capture.symbols import Symbol
from fxopt_workbench.tables import Sheet, Shown


@dataclass(frozen=True)
class Attempt:
    """One way that `auto` tried.

    Attributes:
        strategy: its name, such as `export`.
        adaptations: of the model, with which it was tried.
        failure: why it was not taken, or taken only because nothing better came; empty where all agreed.
        agreements: on which inputs the result was compared with the model, and how that went.
    """

    strategy: str
    adaptations: tuple[str, ...] = ()
    failure: str = ""
    agreements: tuple[Agreement, ...] = ()


FEW = 8
"""Guards, and kinds of operation, that a notebook shows."""


@dataclass(frozen=True)
class Captured(Shown):
    """The graphs of one call of a model.

    Attributes:
        partitions: the graphs with what their inputs stand for and the values of the example call.
        method: how they were captured: one of `METHODS`; after `auto`, the one that was taken, or `recorder`.
        level: the dialect: `torch` (functions and methods as the user writes them), `aten` (operator overloads) or
            `torchscript`.
        graph_breaks: where and why Dynamo had to end a graph.
        guards: under which conditions the graphs may be used again.
        caveats: what the graphs do not say about the model, in sentences.
        symbols: the sizes that the graphs leave open, with their ranges.
        attempts: what `auto` tried, in order, and what spoke against each.
        adaptations: what `auto` changed about its copy of the model, in words.
        agreements: on which inputs the captured graphs were compared with the model, and how that went.
        runner: calls the graphs as the model is called; `None` where the method gives nothing that can be called.
    """

    partitions: tuple[Partition, ...]
    method: str
    level: str
    graph_breaks: tuple[GraphBreak, ...] = ()
    guards: tuple[Guard, ...] = ()
    caveats: tuple[str, ...] = ()
    symbols: tuple[Symbol, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    adaptations: tuple[str, ...] = ()
    agreements: tuple[Agreement, ...] = ()
    runner: Runner | None = field(default=None, compare=False, repr=False)

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Call the captured graphs as the model is called. The weights are those of a copy made at capture.

        Raises:
            CaptureError: the method gives nothing to call, or these inputs need another graph.
            ValueError: a size is out of the range given to its dimension.
            AssertionError: a guard of `torch.export` does not hold.
        """
        if self.runner is None:
            raise CaptureError(self.method, "its graphs cannot be called as the model.", 'use method="export".')
        return self.runner(*args, **kwargs)

    @property
    def specialised(self) -> tuple[str, ...]:
        """The inputs, in words, on which the graphs refuse to run although the model does. Empty: none was found."""
        return tuple(one.on for one in self.agreements if one.refusal)

    @property
    def graphs(self) -> tuple[fx.GraphModule, ...]:
        """The captured graphs in the order of capture.

        Raises:
            CaptureError: they are TorchScript's, which are no FX graphs.
        """
        return tuple(partition.graph_module for partition in self.partitions)

    def operation_counts(self) -> Counter[str]:
        """How often each operation occurs over all partitions. Inputs, attributes and outputs do not count."""
        return sum(self.operation_counts_by_partition(), Counter())

    def operation_counts_by_partition(self) -> list[Counter[str]]:
        """How often each operation occurs, one counter a partition."""
        return [partition.operation_counts() for partition in self.partitions]

    def sheets(self) -> list[Sheet]:
        """What a notebook shows: the graphs, and what a reader must know to trust them.

        `fxopt_workbench.pictures.draw` and `fxopt_workbench.explorer.explore` show the nodes.
        """
        graphs = [
            (str(number), one.role, str(len(one.inputs)), str(counts.total()), _listed(counts.most_common()))
            for number, (one, counts) in enumerate(
                zip(self.partitions, self.operation_counts_by_partition(), strict=True), start=1
            )
        ]
        breaks = [(one.location, one.source, one.reason, str(one.times)) for one in self.graph_breaks]
        sizes = [
            (one.name, str(one.minimum), "any" if one.maximum is None else str(one.maximum), ", ".join(one.places))
            for one in self.symbols
        ]
        tried = [(one.strategy, ", ".join(one.adaptations), one.failure or "agrees") for one in self.attempts]
        compared = [
            (one.on, "refused" if one.refusal else "agrees" if one.agrees else "DIFFERS", _difference(one), one.refusal)
            for one in self.agreements
        ]
        guards = [(one.expression, one.source) for one in self.guards[:FEW]]
        first = f" (the first {FEW} of {len(self.guards)})" if len(self.guards) > FEW else ""
        found = (
            Sheet("Graph breaks", ("where", "line", "reason", "times"), breaks, words=("line", "reason")),
            Sheet("Sizes that may vary", ("size", "from", "to", "where"), sizes, words=("where",)),
            Sheet("Tried", ("method", "adapted, on a copy", "outcome"), tried, words=("adapted, on a copy", "outcome")),
            Sheet(
                "Compared with the model",
                ("inputs", "outcome", "largest difference", "what it said"),
                compared,
                words=("outcome", "what it said"),
            ),
            Sheet(f"Guards{first}", ("condition", "for the sake of"), guards, words=("for the sake of",)),
        )
        headings = ("graph", "role", "inputs", "operations", "most frequent")
        title = f"Captured with {self.method} at the level of {self.level}"
        caveats = [Sheet("What the graphs do not say", notes=self.caveats)] if self.caveats else []
        return [
            Sheet(title, headings, graphs, words=("role", "most frequent")),
            *(sheet for sheet in found if sheet.rows),
            *caveats,
        ]


def _listed(counts: list[tuple[str, int]]) -> str:
    more = len(counts) - FEW
    return ", ".join(f"{name} ×{count}" for name, count in counts[:FEW]) + (f" and {more} more" if more > 0 else "")


def _difference(agreement: Agreement) -> str:
    return "" if agreement.refusal else f"{agreement.difference:.3g}"
