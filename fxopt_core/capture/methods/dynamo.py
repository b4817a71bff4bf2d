"""Capture through Dynamo: follows Python's bytecode, and breaks the graph where it cannot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from fxopt_core.capture.breaks import GraphBreak, graph_breaks
from fxopt_core.capture.extractor import GraphExtractor
from fxopt_core.capture.guards import Guard, guards
from fxopt_core.capture.isolation import Model
from fxopt_core.capture.listening import listening, without_repeated_warnings
from fxopt_core.capture.partition import Partition
from fxopt_core.capture.result import Captured


def capture_with_dynamo(model: Model, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic: bool | None) -> Captured:
    """Compile `model` with a `GraphExtractor` as the backend, call it once, and report what Dynamo did."""

    def call(compiled: Model) -> None:
        compiled(*args, **kwargs)

    return run_dynamo(model, call, GraphExtractor(), dynamic, method="dynamo", level="torch")


def run_dynamo(
    model: Model,
    call: Callable[[Model], None],
    extractor: GraphExtractor,
    dynamic: bool | None,
    *,
    method: str,
    level: str,
    caveats: tuple[str, ...] = (),
) -> Captured:
    """Compile `model` with `extractor` as the backend, make the call, and report what Dynamo did.

    Dynamo's state is reset before (else code that it already knows would give no graph) and after: whatever
    the process has compiled so far compiles anew at its next call.
    """
    torch._dynamo.reset()
    try:
        with (
            listening("graph_breaks") as about_breaks,
            listening("guards") as about_guards,
            without_repeated_warnings(),
        ):
            call(torch.compile(model, backend=extractor, dynamic=dynamic))
    finally:
        torch._dynamo.reset()
    partitions = tuple(extractor.partitions)
    breaks = graph_breaks(about_breaks)
    conditions = guards(about_guards)
    caveats = dynamo_caveats(partitions, breaks, conditions) + caveats
    return Captured(partitions, method, level, breaks, conditions, caveats)


def dynamo_caveats(
    partitions: tuple[Partition, ...], breaks: tuple[GraphBreak, ...], conditions: tuple[Guard, ...]
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
    for graph_break in breaks:
        if graph_break.skips_function:
            caveats.append(
                f"After {graph_break.location} Dynamo left the function to Python: its other operations are "
                "in no graph, except those in functions that it calls."
            )
    if forward and not conditions:
        caveats.append(f"The guards could not be read from the log of torch {torch.__version__}.")
    if forward:
        caveats.append("The graphs hold only while their guards do: other shapes or types may be captured anew.")
    return tuple(caveats)
