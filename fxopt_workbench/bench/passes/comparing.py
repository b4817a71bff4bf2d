"""Timing a pass and its peers in turn, on copies of the same graphs, in both states of the garbage collector."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import fx

from fxopt_core.benchmark.measuring import Measurement
from fxopt_core.graphs.match_legality import is_metadata_assertion
from fxopt_workbench.bench.passes.graphs import fresh_copy
from fxopt_workbench.bench.passes.peers import Peer

COLLECTOR_ON = "on"
COLLECTOR_PAUSED = "paused"
COLLECTOR_STATES = (COLLECTOR_ON, COLLECTOR_PAUSED)


@dataclass(frozen=True)
class Row:
    """A pass beside one peer.

    Attributes:
        name: what was timed.
        nodes: of the graph.
        collector: state of Python's cyclic garbage collector while either was timed.
        ours: CPU seconds of each run of ours, without generating code.
        removed: by how many ATen calls our graph is shorter.
        peer: name of the peer; `None` where there is none.
        theirs: seconds of each run of the peer.
        peer_removed: by how many ATen calls the peer's graph is shorter.
        recompiled: seconds of each run of ours with `recompile()` after it, where the peer generates code too.
    """

    name: str
    nodes: int
    collector: str
    ours: Measurement
    removed: int
    peer: str | None = None
    theirs: Measurement | None = None
    peer_removed: int | None = None
    recompiled: Measurement | None = None

    @property
    def ratio(self) -> float | None:
        """How many times as long the peer takes."""
        return None if self.theirs is None else self.theirs.median / self.ours.median

    @property
    def recompiled_ratio(self) -> float | None:
        """How many times as long the peer takes as ours with `recompile()` after it."""
        if self.theirs is None or self.recompiled is None:
            return None
        return self.theirs.median / self.recompiled.median

    def document(self) -> dict[str, Any]:
        """As a JSON object. Seconds are medians, spreads are interquartile ranges in seconds."""
        theirs, recompiled = self.theirs, self.recompiled
        return {
            "pass": self.name,
            "nodes": self.nodes,
            "seconds": self.ours.median,
            "peer": self.peer,
            "peer_seconds": None if theirs is None else theirs.median,
            "ratio": self.ratio,
            "collector": self.collector,
            "spread": self.ours.interquartile_range,
            "peer_spread": None if theirs is None else theirs.interquartile_range,
            "seconds_with_recompile": None if recompiled is None else recompiled.median,
            "removed": self.removed,
            "peer_removed": self.peer_removed,
            "repeats": self.ours.runs,
        }


class _Run(NamedTuple):
    """One timed run: seconds of the work, seconds with `recompile()` after it, ATen calls of the graph it leaves."""

    seconds: float
    whole: float
    calls: int


def compare(
    name: str,
    graph_modules: Sequence[fx.GraphModule],
    ours: Callable[[fx.GraphModule], fx.Graph],
    peers: Sequence[Peer],
    *,
    repeats: int,
) -> list[Row]:
    """Time ours and every peer in turn (A B C A B C ...), each on a copy of a graph whose making is not timed.

    Graphs and states of the collector take turns too, so that whatever disturbs the machine hits all alike. The
    clock counts the seconds that this process computes, and not those in which other processes have its core.

    Args:
        name: what is timed.
        graph_modules: never changed.
        ours: does the work on a graph module that it may change, generates no code, and returns the graph.
        peers: what stands beside it.
        repeats: timed runs of each on each graph in each state of the collector.

    Returns:
        For each graph and state a row a peer; one row without a peer if there is none.
    """
    recompiles = any(peer.recompiles for peer in peers)
    cases = [(graph_module, collector) for graph_module in graph_modules for collector in COLLECTOR_STATES]
    runs: list[list[list[_Run]]] = [[[] for _ in (ours, *peers)] for _ in cases]
    for _ in range(repeats):
        for (graph_module, collector), sides in zip(cases, runs, strict=True):
            sides[0].append(_run(graph_module, ours, collector, recompile=recompiles))
            for peer, side in zip(peers, sides[1:], strict=True):
                side.append(_run(graph_module, peer.run, collector))
    rows: list[Row] = []
    for (graph_module, collector), sides in zip(cases, runs, strict=True):
        before = _calls(graph_module.graph)
        seconds, whole, left = zip(*(zip(*side, strict=True) for side in sides), strict=True)
        row = Row(name, len(graph_module.graph.nodes), collector, Measurement(seconds[0]), removed=before - left[0][-1])
        rows += [
            replace(
                row,
                peer=peer.name,
                theirs=Measurement(seconds[number]),
                peer_removed=before - left[number][-1],
                recompiled=Measurement(whole[0]) if peer.recompiles else None,
            )
            for number, peer in enumerate(peers, start=1)
        ] or [row]
    return rows


def _run(
    graph_module: fx.GraphModule,
    work: Callable[[fx.GraphModule], fx.Graph],
    collector: str,
    *,
    recompile: bool = False,
) -> _Run:
    """Time the work on a copy; afterwards the collector is as it was.

    Everything is collected before, so that no run pays for the garbage of another.
    """
    copied = fresh_copy(graph_module)
    was_on = gc.isenabled()
    gc.collect()
    (gc.enable if collector == COLLECTOR_ON else gc.disable)()
    try:
        start = time.process_time()
        graph = work(copied)
        seconds = time.process_time() - start
        if recompile:
            copied.recompile()
        return _Run(seconds, time.process_time() - start, _calls(graph))
    finally:
        (gc.enable if was_on else gc.disable)()


def _calls(graph: fx.Graph) -> int:
    """Calls of ATen operators: what a graph computes, however its constants and tuples are handed around.

    What only asserts a dtype computes nothing: constant folding guards what it folded with one such call.
    """
    return sum(
        isinstance(node.target, torch._ops.OpOverload) and not is_metadata_assertion(node) for node in graph.nodes
    )
