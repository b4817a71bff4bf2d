"""How long each node of a graph really takes, beside the estimate."""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from fxopt_core.benchmark.measuring import Measurement, measure
from fxopt_core.devices import synchronize
from fxopt_workbench.hardware.roofline import Estimate
from fxopt_workbench.results.costs import groups
from fxopt_workbench.structure.groups import Group
from fxopt_workbench.tables import Table, format_seconds


@dataclass(frozen=True)
class Timing:
    """Measured times of a graph.

    Attributes:
        nodes: median seconds of each call by the node's name, each waited for before the next begins.
        whole: calls of the whole graph, waited for at the end only.
    """

    nodes: Mapping[str, float]
    whole: Measurement

    def table(self, estimate: Estimate, by: str = "operation") -> Table:
        """Estimated beside measured time, with a row for each group of nodes."""
        found = [*groups(estimate.analysis, by), Group("all nodes", estimate.analysis.nodes)]
        rows = []
        for group in found:
            expected = sum(estimate.by_name[node.name].seconds for node in group.nodes)
            rows.append((group.name, str(len(group.nodes)), *_beside(expected, self.seconds(group))))
        rows.append(("whole graph", "", *_beside(estimate.seconds, self.whole.median)))
        note = (
            f"Medians of {self.whole.runs} runs on {estimate.hardware.description}; the whole graph ± "
            f"{format_seconds(self.whole.interquartile_range)} (interquartile range). The estimate is a bound from "
            "memory and peak rate: it knows neither the cost of starting a kernel nor caches."
        )
        return Table("Estimated and measured", (by, "nodes", "estimated", "measured", "ratio"), rows, (note,))

    def seconds(self, group: Group) -> float:
        """Measured seconds of the nodes of a group together."""
        return sum(self.nodes[node.name] for node in group.nodes)


def _beside(expected: float, measured: float) -> tuple[str, str, str]:
    ratio = f"{measured / expected:.3g}×" if expected > 0 else "–"
    return format_seconds(expected), format_seconds(measured), ratio


def time_nodes(
    graph_module: fx.GraphModule, inputs: Sequence[Any], device: torch.device, repeats: int = 10, warmup: int = 2
) -> Timing:
    """Run a graph several times, timing each node and the whole.

    Args:
        graph_module: the graph.
        inputs: values of its placeholders, on the device.
        device: what to wait for.
        repeats: runs that are timed.
        warmup: runs before them.
    """
    interpreter = _Timed(graph_module, device)
    with torch.no_grad():
        for run in range(warmup + repeats):
            if run == warmup:
                interpreter.seconds.clear()
            interpreter.run(*inputs)
        whole = measure(
            lambda: graph_module(*inputs), synchronize=lambda: synchronize(device), warmup=warmup, repeats=repeats
        )
    return Timing({name: statistics.median(seconds) for name, seconds in interpreter.seconds.items()}, whole)


class _Timed(fx.Interpreter):
    """Notes how long each call takes, without the interpreter's own work."""

    def __init__(self, module: fx.GraphModule, device: torch.device) -> None:
        super().__init__(module)
        self.device = device
        self.seconds: dict[str, list[float]] = defaultdict(list)

    def run_node(self, node: fx.Node) -> Any:
        if not node.op.startswith("call_"):
            return super().run_node(node)
        args, kwargs = self.fetch_args_kwargs_from_env(node)
        call = getattr(self, node.op)
        synchronize(self.device)
        start = time.perf_counter()
        value = call(node.target, args, kwargs)
        synchronize(self.device)
        self.seconds[node.name].append(time.perf_counter() - start)
        return value
