"""What a rewrite gains: calls, kernels, bytes and FLOPs of a graph before and after, and its time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from fxopt_core.benchmark.measuring import measure_interleaved
from fxopt_core.costs import analyze_graph

COUNTED = ("nodes", "kernels", "bytes", "FLOPs")
"""The figures that do not depend on the machine; the ranking rests on them."""


def counted(graph_module: fx.GraphModule, inputs: Sequence[Any]) -> dict[str, int]:
    """The figures of `COUNTED` for one call.

    `nodes` are calls; `kernels` those that write bytes, which views do not; `bytes` are read and written.

    Raises:
        ValueError: a size depends on data.
    """
    placeholders = [node for node in graph_module.graph.nodes if node.op == "placeholder"]
    for node, value in zip(placeholders, inputs, strict=True):
        node.meta["val"] = value
    analysis = analyze_graph(graph_module)
    kernels = sum(node.cost.bytes_written > 0 for node in analysis.nodes)
    total = analysis.total
    return dict(zip(COUNTED, (len(analysis.nodes), kernels, total.bytes, total.flops), strict=True))


def gain(before: dict[str, int], after: dict[str, int]) -> float:
    """The mean over `COUNTED` of the share that is saved: 0.1 where a tenth is. Below 0 where more is done."""
    shares = ((before[name] - after[name]) / before[name] if before[name] else 0.0 for name in COUNTED)
    return sum(shares) / len(COUNTED)


def timed(before: fx.GraphModule, after: fx.GraphModule, inputs: Sequence[Any]) -> dict[str, list[float]]:
    """First quartile, median and third quartile in seconds of both, run in turn on this machine without gradients."""

    def run(graph_module: fx.GraphModule) -> object:
        with torch.no_grad():
            return graph_module(*inputs)

    both = measure_interleaved({"before": lambda: run(before), "after": lambda: run(after)}, warmup=3, repeats=15)
    return {name: [found.quartiles[0], found.median, found.quartiles[1]] for name, found in both.items()}
