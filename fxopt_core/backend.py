"""`torch.compile(model, backend="fxopt")`: the passes inside Dynamo, then Inductor, AOTAutograd or nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from fxopt_core.optimizer.pipeline import PipelineResult, run_passes
from fxopt_core.passes import choose_passes

Compiled = Callable[..., Any]

THEN = ("inductor", "aot_eager", "eager")
"""What may take over after the passes; any other backend of `torch.compile` may be named too."""


def fxopt_backend(
    graph_module: fx.GraphModule,
    example_inputs: list[Any],
    *,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
) -> Compiled:
    """A Dynamo backend: run passes on a captured graph and hand the result on.

    Registered as `fxopt` through the entry-point group `torch_dynamo_backends`, so that no import is needed:

        torch.compile(model, backend="fxopt")
        torch.compile(model, backend="fxopt", options={"passes": "exact", "then": "eager"})

    Args:
        graph_module: what Dynamo captured; it is not changed.
        example_inputs: the first inputs of the graph.
        mode: `default` or nothing; other modes of `torch.compile` belong to Inductor.
        options: `passes` (a preset, a name or a list; by default `training` where gradients are recorded, else
            `inference`), `then` (a backend to hand on to, by default `inductor`) and `report` (a function that is
            called with the `PipelineResult` of each graph).

    Raises:
        ValueError: an unknown option, mode, backend, preset or pass.
    """
    given = dict(options or {})
    if mode not in (None, "default"):
        raise ValueError(f"mode is {mode!r}; the backend fxopt knows none but the default. Pass options=... instead.")
    passes = given.pop("passes", "training" if _records_gradients(example_inputs) else "inference")
    then = given.pop("then", "inductor")
    report: Callable[[PipelineResult], object] = given.pop("report", lambda result: None)
    if given:
        raise ValueError(f"unknown options {sorted(given)}; expected passes, then, report.")
    result = run_passes(graph_module, choose_passes(passes))
    report(result)
    return _hand_on(then, result.graph_module, example_inputs)


def _records_gradients(example_inputs: list[Any]) -> bool:
    return torch.is_grad_enabled() and any(
        isinstance(value, torch.Tensor) and value.requires_grad for value in example_inputs
    )


def _hand_on(then: str, graph_module: fx.GraphModule, example_inputs: list[Any]) -> Compiled:
    if then == "eager":
        return graph_module.forward
    known = torch._dynamo.list_backends(exclude_tags=())
    if then not in known or then == "fxopt":
        raise ValueError(
            f"cannot hand on to {then!r}; expected one of {', '.join(sorted({*known, *THEN} - {'fxopt'}))}."
        )
    compiled: Compiled = torch._dynamo.lookup_backend(then)(graph_module, example_inputs)
    return compiled
