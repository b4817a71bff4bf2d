"""What a capture gives: the graphs, and everything that a reader must know to trust them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import fx

from fxopt_core.capture.agreement import Agreement
from fxopt_core.capture.captured_graph import CapturedGraph
from fxopt_core.capture.dimensions import NOTHING_DYNAMIC, Dynamic
from fxopt_core.capture.dynamo_log import GraphBreak, Guard
from fxopt_core.capture.errors import CaptureError
from fxopt_core.capture.module import CapturedModule
from fxopt_core.capture.new_values import ONE
from fxopt_core.capture.running import Runner
from fxopt_core.display import Displayable


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


@dataclass(frozen=True)
class Symbol:
    """A size that is open in a captured graph.

    Attributes:
        name: the name given to it in `dynamic`, else torch's own, such as `s17`; `u0` for one that depends on data.
        in_graph: torch's name for it, as the graph prints it.
        minimum: the smallest value for which the graph holds, `None` where there is no limit.
        maximum: the largest, `None` where there is no limit.
        places: where it stands: `dimension 0 of x`, or `result of item` where an operation gives it.
    """

    name: str
    in_graph: str
    minimum: int | None
    maximum: int | None
    places: tuple[str, ...]


@dataclass(frozen=True)
class Captured(Displayable):
    """The graphs of one call of a model.

    Attributes:
        partitions: the graphs with what their inputs stand for and the values of the example call.
        method: how they were captured: one of `capture_methods()`; after `auto`, the one that was taken, or `recorder`.
        level: the dialect: `torch` (functions and methods as the user writes them), `aten` (operator overloads) or
            `torchscript`.
        graph_breaks: where and why Dynamo had to end a graph.
        guards: under which conditions the graphs may be used again.
        caveats: what the graphs do not say about the model, in sentences.
        symbols: the sizes that the graphs leave open, with their ranges; the workbench lists them.
        attempts: what `auto` tried, in order, and what spoke against each.
        adaptations: what `auto` changed about its copy of the model, in words.
        agreements: on which inputs the captured graphs were compared with the model, and how that went.
        dynamic: which sizes were to vary.
        ranges: the smallest and largest value of each symbol, where torch's own bookkeeping is not the last word.
        runner: calls the graphs as the model is called; `None` where the method gives nothing that can be called.
    """

    partitions: tuple[CapturedGraph, ...]
    method: str
    level: str
    graph_breaks: tuple[GraphBreak, ...] = ()
    guards: tuple[Guard, ...] = ()
    caveats: tuple[str, ...] = ()
    symbols: tuple[Symbol, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    adaptations: tuple[str, ...] = ()
    agreements: tuple[Agreement, ...] = ()
    dynamic: Dynamic = NOTHING_DYNAMIC
    ranges: Mapping[Any, Any] = field(default_factory=dict, compare=False, repr=False)
    runner: Runner | None = field(default=None, compare=False, repr=False)

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Call the captured graphs as the model is called. The weights are those of a copy made at capture.

        Raises:
            CaptureError: the method gives nothing to call, or these inputs need another graph.
            ValueError: a size is out of the range given to its dimension.
            RefusedInputError: the graph does not hold for these inputs.
        """
        if self.runner is None:
            raise CaptureError(self.method, "its graphs cannot be called as the model.", 'use method="export".')
        return self.runner(*args, **kwargs)

    @property
    def module(self) -> CapturedModule | None:
        """The graph as a module with the model's signature and state; `None` where the method gives no such graph."""
        module = self.runner.module if self.runner is not None else None
        return module if isinstance(module, CapturedModule) else None

    @property
    def specialised(self) -> tuple[str, ...]:
        """The inputs, in words, on which the graphs refuse to run although the model does. Empty: none was found.

        Sizes of 1 are not among them, which most graphs of open sizes treat apart: `caveats` name those.
        """
        return tuple(one.on for one in self.agreements if one.refusal and not one.on.startswith(ONE))

    @property
    def has_gradients(self) -> bool:
        """Whether the gradients were the model's on every trial, wherever it has some."""
        return not any(one.gradients for one in self.agreements)

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
