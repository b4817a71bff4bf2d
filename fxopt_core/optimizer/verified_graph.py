"""The passes on one graph that Dynamo captured, compared with it at the values of its first call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import SymBool, SymFloat, SymInt, fx, nn

from fxopt_core.optimizer.graph_optimizer import VerificationError
from fxopt_core.optimizer.pipeline import PipelineResult, run_passes
from fxopt_core.passes import OptimizationPass, Refusal
from fxopt_core.verification import Equivalence, Tolerance, bisect_rewrites, check_equivalence


def run_verified_passes(
    captured: fx.GraphModule, lowered: fx.GraphModule, passes: Sequence[OptimizationPass], values: Sequence[Any]
) -> PipelineResult:
    """Run passes on `lowered`, and compare the result with `captured`; a rewrite that is to blame is not made.

    Args:
        captured: the graph as Dynamo wrote it.
        lowered: what the passes change a copy of, called with the same values.
        passes: in order.
        values: of the first call, weights among them. They stay as they are.

    Raises:
        VerificationError: the two graphs differ before any pass has changed one.
    """
    denied: list[str] = []
    while True:
        result = run_passes(lowered, passes, denied=frozenset(denied))
        tolerance = Tolerance(
            max((rewrite.tolerance.relative for rewrite in result.rewrites), default=0.0),
            max((rewrite.tolerance.absolute for rewrite in result.rewrites), default=0.0),
        )
        if _compare(captured, result.graph_module, values, tolerance):
            result.refusals["verification"] = [Refusal(key, "it changes what is computed") for key in denied]
            return result
        failed = {failure.name for failure in result.failures}
        acting = [pass_ for pass_ in passes if pass_.name not in failed]

        def right(
            made: int, acting: Sequence[OptimizationPass] = acting, tolerance: Tolerance = tolerance
        ) -> Equivalence:
            first = run_passes(lowered, acting, denied=frozenset(denied), most=made)
            return _compare(captured, first.graph_module, values, tolerance)

        if not (unchanged := right(0)):
            raise VerificationError(
                f"the graph of ATen operators differs from the one that Dynamo captured, before any pass: {unchanged}"
            )
        keys = [rewrite.key for rewrite in result.rewrites]
        denied.append(keys[bisect_rewrites(len(keys), lambda made: bool(right(made)))])


class _Called(nn.Module):
    """A graph with the model's weights, sizes and numbers put in: called with the other inputs."""

    def __init__(self, graph_module: fx.GraphModule, given: Sequence[Any], own: Sequence[bool]) -> None:
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


def _compare(
    captured: fx.GraphModule, changed: fx.GraphModule, values: Sequence[Any], tolerance: Tolerance
) -> Equivalence:
    nodes = captured.graph.find_nodes(op="placeholder")
    given = [one.node.hint if isinstance(one, (SymInt, SymFloat, SymBool)) else one for one in values]
    own = [
        not isinstance(value, torch.Tensor)
        or "_dynamo_static_input_type" in node.meta.get("tensor_dict", {})
        # A number of Python's that came as a tensor: the graph holds for this one.
        or getattr(node.meta.get("grapharg"), "pass_arg_as_tensor", False)
        for value, node in zip(given, nodes, strict=True)
    ]
    inputs = tuple(value for value, mine in zip(given, own, strict=True) if not mine)
    with torch._guards.tracing(None):
        return check_equivalence(
            _Called(captured, given, own), _Called(changed, given, own), inputs, tolerance=tolerance
        )
