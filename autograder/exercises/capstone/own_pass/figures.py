"""What a rewrite gains: calls, kernels, bytes and FLOPs of a graph before and after, and its time.

All four are counted on core ATen, after decomposition: a linear layer is the same product of matrices whether it is
written as a module, a function or an operator, so that spelling it in another way gains nothing.
"""

from __future__ import annotations

import copy
import io
import warnings
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr
from functools import cache
from typing import Any

import torch
from torch import fx
from torch._decomp import core_aten_decompositions
from torch.fx.experimental.proxy_tensor import make_fx

from autograder.traps.trap import with_examples
from fxopt_core.benchmark.measuring import measure_interleaved
from fxopt_core.costs import analyze_graph
from fxopt_core.passes import run_pass
from fxopt_core.passes.registry import PRESETS

COUNTED = ("nodes", "kernels", "bytes", "FLOPs")
"""The figures that do not depend on the machine; the ranking rests on them."""

Figures = dict[str, int]
"""A number for each of `COUNTED`."""

_decompositions: Callable[[], Any] = cache(core_aten_decompositions)


def in_core_aten(graph_module: fx.GraphModule, inputs: Sequence[Any]) -> fx.GraphModule:
    """The operators of core ATen that one call of the graph comes to, without gradients; nothing is computed."""
    with torch.no_grad(), warnings.catch_warnings(), redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        traced = make_fx(
            copy.deepcopy(graph_module),
            decomposition_table=_decompositions(),
            tracing_mode="fake",
            _allow_non_fake_inputs=True,
        )(*copy.deepcopy(tuple(inputs)))
    torch.set_autocast_enabled("cpu", False)  # the graph may switch it on
    return traced


def counted(graph_module: fx.GraphModule, inputs: Sequence[Any]) -> Figures:
    """The figures of `COUNTED` for one call, on core ATen.

    `nodes` are calls; `kernels` those that write bytes, which views do not; `bytes` are read and written.

    Raises:
        ValueError: a size depends on data.
    """
    return _of(in_core_aten(graph_module, inputs), inputs)


def left_over(graph_module: fx.GraphModule, inputs: Sequence[Any]) -> Figures:
    """The figures after every pass of the course that an inference would run, on the graph and on its core ATen.

    What is still saved here, no preset saves.
    """
    # A graph that travelled has no example values, without which most passes refuse.
    optimised = with_examples(copy.deepcopy(graph_module), *inputs)
    for name in PRESETS["inference"]:
        run_pass(name, optimised)
    flat = in_core_aten(optimised, inputs)
    for name in PRESETS["exact"]:
        run_pass(name, flat)
    return _of(flat, inputs)


def _of(flat: fx.GraphModule, inputs: Sequence[Any]) -> Figures:
    placeholders = [node for node in flat.graph.nodes if node.op == "placeholder"]
    for node, value in zip(placeholders, inputs, strict=True):
        node.meta["val"] = value
    analysis = analyze_graph(flat)
    kernels = sum(node.cost.bytes_written > 0 for node in analysis.nodes)
    total = analysis.total
    return dict(zip(COUNTED, (len(analysis.nodes), kernels, total.bytes, total.flops), strict=True))


def gain(before: Figures, after: Figures) -> float:
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
