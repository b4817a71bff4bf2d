"""One graph as Dynamo hands it to a backend: optimised, and compared at the values of its first call."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import SymBool, SymFloat, SymInt, fx, nn

from fxopt_core.capture.lowering import NotLowerableError, lower
from fxopt_core.optimizer.pipeline import run_passes
from fxopt_core.optimizer.report import OptimizedGraph
from fxopt_core.passes import OptimizationPass, Refusal
from fxopt_core.verification import Equivalence, Tolerance, check_equivalence


def optimize_graph(
    captured: fx.GraphModule,
    passes: Sequence[OptimizationPass],
    denied: frozenset[str] = frozenset(),
    most: float = math.inf,
) -> OptimizedGraph:
    """Run passes on a graph in the operators of `torch.export`, so that they find here what they find there.

    Where it cannot be written so, they see the graph as Dynamo wrote it, and a refusal of `lowering` says why.

    Args:
        captured: what Dynamo hands to a backend, while the backend runs. It is not changed.
        passes: in order.
        denied: keys of rewrites that are not to be made.
        most: how many rewrites are made.
    """
    graph_module, refusals = captured, []
    try:
        graph_module = lower(captured)
    except NotLowerableError as error:
        refusals = [Refusal("the whole graph", f"the passes see it as Dynamo wrote it: {error}")]
    result = run_passes(graph_module, passes, denied=denied, most=most)
    result.refusals["lowering"] = refusals
    return OptimizedGraph(graph_module, result)


def compare_graphs(
    captured: fx.GraphModule, changed: Any, values: Sequence[Any], tolerance: Tolerance, **how: Any
) -> Equivalence:
    """Compare a graph with the one that Dynamo captured.

    Args:
        captured: the graph as Dynamo wrote it.
        changed: what became of it, called with the same values.
        values: of the first call, weights among them. They stay as they are.
        tolerance: how far values may be off.
        how: whatever else `check_equivalence` takes by name.
    """
    given, own = plain_values(captured, values)
    inputs = tuple(value for value, mine in zip(given, own, strict=True) if not mine)
    with torch._guards.tracing(None):
        return check_equivalence(
            _Called(captured, given, own), _Called(changed, given, own), inputs, tolerance=tolerance, **how
        )


def plain_values(captured: fx.GraphModule, values: Sequence[Any]) -> tuple[list[Any], list[bool]]:
    """The values of a call with numbers for symbols, and which of them are no inputs of the model: weights, numbers."""
    nodes = captured.graph.find_nodes(op="placeholder")
    given = [one.node.hint if isinstance(one, (SymInt, SymFloat, SymBool)) else one for one in values]
    return given, [
        not isinstance(value, torch.Tensor)
        or "_dynamo_static_input_type" in node.meta.get("tensor_dict", {})
        # A number of Python's that came as a tensor: the graph holds for this one.
        or getattr(node.meta.get("grapharg"), "pass_arg_as_tensor", False)
        for value, node in zip(given, nodes, strict=True)
    ]


class _Called(nn.Module):
    """A graph with the model's weights, sizes and numbers put in: called with the other inputs."""

    def __init__(self, graph_module: Any, given: Sequence[Any], own: Sequence[bool]) -> None:
        super().__init__()
        self.run = graph_module.forward
        self.own = own
        self.plain = [value for value, mine in zip(given, own, strict=True) if mine]
        for number, value in enumerate(self.plain):
            if isinstance(value, nn.Parameter):
                self.register_parameter(f"weight_{number}", value)
            elif isinstance(value, torch.Tensor):
                self.register_buffer(f"tensor_{number}", value)

    def forward(self, *inputs: Any) -> Any:
        own, others = iter(self.plain), iter(inputs)
        return self.run(*(next(own if mine else others) for mine in self.own))
