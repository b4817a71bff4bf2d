"""Capture through Dynamo: follows Python's bytecode, and breaks the graph where it cannot."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from fxopt_core.capture.captured_graph import CapturedGraph
from fxopt_core.capture.dimensions import Dynamic, mark_dimensions, named_leaves
from fxopt_core.capture.dynamo_log import (
    GraphBreak,
    Guard,
    graph_breaks,
    guards,
    messages_of,
    without_repeated_warnings,
)
from fxopt_core.capture.errors import CaptureError
from fxopt_core.capture.extractor import GraphExtractor
from fxopt_core.capture.result import Captured
from fxopt_core.capture.running import ISOLATED, Replay, ReplayRunner, state_of
from fxopt_core.verification.isolation import Model
from fxopt_core.verification.state import State

_SYMBOL = re.compile(r"[a-z]+\d+")
"""A symbol in a size, as torch writes it."""


class CountedOperators(TorchDispatchMode):
    """Counts the operators that run inside.

    Attributes:
        operators: how many so far.
    """

    def __init__(self) -> None:
        super().__init__()
        self.operators = 0

    def __torch_dispatch__(
        self, operator: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run it and count it."""
        self.operators += 1
        return operator(*args, **(kwargs or {}))


def capture_with_dynamo(
    model: Model, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic: Dynamic, *, fullgraph: bool = False
) -> Captured:
    """Compile `model` with a `GraphExtractor` as the backend, call it once, and report what Dynamo did.

    With `fullgraph` a graph break is an error of Dynamo's.
    """
    state, held = State(model), state_of(model)

    def call(compile_: Callable[[Model], Model]) -> None:
        with mark_dimensions(dynamic, named_leaves(model, args, kwargs), "dynamo"):
            compile_(model)(*args, **kwargs)

    captured = run_dynamo(call, GraphExtractor(), dynamic, method="dynamo", level="torch", fullgraph=fullgraph)
    one_graph = len(captured.partitions) == 1 and not captured.graph_breaks
    caveats = captured.caveats + _written_by_python(model, state, held)
    state.put_back()
    runner = ReplayRunner(model, dynamic, Replay(captured.partitions, "dynamo"), fullgraph=one_graph)
    return replace(captured, runner=runner, caveats=caveats)


def _written_by_python(model: Model, before: State, held: dict[str, torch.Tensor]) -> tuple[str, ...]:
    """What the call changed other than in place: Dynamo leaves it to Python code around the graphs."""
    if not isinstance(model, torch.nn.Module):
        return ()
    state = state_of(model)
    outside = sorted(
        path
        for path in (f"self.{name}" for name in before.changes())
        if path not in held or state.get(path) is not held[path]
    )
    if not outside:
        return ()
    return (f"The call also changes {', '.join(outside)}: Python does, after the graphs, and no graph says so.",)


def run_dynamo(
    call: Callable[[Callable[[Model], Model]], None],
    extractor: GraphExtractor,
    dynamic: Dynamic,
    *,
    method: str,
    level: str,
    caveats: tuple[str, ...] = (),
    fullgraph: bool = False,
) -> Captured:
    """Hand `call` a way to compile with `extractor` as the backend, and report what Dynamo did.

    Dynamo's state is reset before (else code that it already knows would give no graph) and after: whatever
    the process has compiled so far compiles anew at its next call.
    """

    def compile_(model: Model) -> Model:
        return torch.compile(model, backend=extractor, dynamic=dynamic.choice, fullgraph=fullgraph, **ISOLATED)

    torch._dynamo.reset()
    try:
        with (
            messages_of("graph_breaks") as about_breaks,
            messages_of("guards") as about_guards,
            without_repeated_warnings(),
        ):
            call(compile_)
    finally:
        torch._dynamo.reset()
    partitions = tuple(extractor.partitions)
    breaks, conditions = graph_breaks(about_breaks), guards(about_guards)
    caveats = dynamo_caveats(partitions, breaks, conditions) + caveats
    _refuse_merged(partitions, dynamic, method)
    return Captured(partitions, method, level, breaks, conditions, caveats, dynamic=dynamic)


def _refuse_merged(graphs: tuple[CapturedGraph, ...], dynamic: Dynamic, method: str) -> None:
    """Dynamo makes one symbol of sizes that the model needs to be equal, also where `dynamic` tells them apart.

    Raises:
        CaptureError: two names share a symbol.
    """
    names = {place: one.name for one in dynamic.dimensions for place in one.places}
    known: dict[str, str] = {}
    sizes = [(one.source, *size) for graph in graphs for one in graph.inputs for size in enumerate(one.shape or ())]
    for source, axis, size in sizes:
        name = names.get((source, axis))
        for symbol in _SYMBOL.findall(str(size)) if name else ():
            if known.setdefault(symbol, name) != name:
                raise CaptureError(
                    method,
                    f"dimensions {known[symbol]!r} and {name!r} cannot vary apart: the model needs them to be equal.",
                    "give them one name.",
                )


def dynamo_caveats(
    partitions: tuple[CapturedGraph, ...], breaks: tuple[GraphBreak, ...], conditions: tuple[Guard, ...]
) -> tuple[str, ...]:
    """What the graphs of a Dynamo capture do not say about the model."""
    caveats = []
    forward = sum(partition.role == "forward" for partition in partitions)
    if forward == 0:
        caveats.append("No graph: the call had no tensor operation outside the functions that Dynamo left to Python.")
    if forward > 1:
        caveats.append(
            f"The call runs {forward} graphs. The Python code between them is in none of them, and of a "
            "branch on data only the side that this input took was captured."
        )
    caveats += [
        f"After {location} Dynamo left the function to Python: its other operations are in no graph, except those in "
        "functions that it calls."
        for location in dict.fromkeys(one.location for one in breaks if one.skips_function)
    ]
    if forward and not conditions:
        caveats.append(f"The guards could not be read from the log of torch {torch.__version__}.")
    if forward:
        caveats.append("The graphs hold only while their guards do: other shapes or types may be captured anew.")
    return tuple(caveats)
