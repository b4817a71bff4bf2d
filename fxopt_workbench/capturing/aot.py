"""Capture after AOTAutograd: the ATen graphs of forward and backward, as a compiler such as Inductor receives them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func
from torch.utils._pytree import tree_leaves

from fxopt_core.capture.captured_graph import CapturedGraph, GraphInput
from fxopt_core.capture.dimensions import Dynamic
from fxopt_core.capture.methods.dynamo import GraphExtractor, run_dynamo
from fxopt_core.capture.result import Captured
from fxopt_core.capture.sources import describe_inputs, dynamo_inputs
from fxopt_core.verification.isolation import Model
from fxopt_workbench.pictures.nodes import INPUT_KIND

CAVEAT = (
    "AOTAutograd made the graphs functional: what the model changes in place is returned as additional outputs, and "
    "what the backward graph needs is returned by the forward graph."
)


class AotGraphExtractor(GraphExtractor):
    """A backend that lets AOTAutograd work on Dynamo's graphs and records what comes out.

    A partition's `role` is `forward` or `backward`. There are backward graphs only where gradients are wanted.
    """

    def __call__(self, graph_module: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        """Hand Dynamo's graph to AOTAutograd, with compilers that record and change nothing."""
        before = dynamo_inputs(graph_module)
        primals: dict[str, GraphInput] = {}

        def forward(graph: fx.GraphModule, values: Sequence[Any]) -> Callable[..., Any]:
            # Where AOTAutograd has changed the number of inputs, the placeholders' own names are all that is known.
            same = len(graph.graph.find_nodes(op="placeholder")) == len(before)
            known = ([one.source for one in before], [one.kind for one in before]) if same else ()
            inputs = describe_inputs(graph, values, *known)
            primals.update((one.name, one) for one in inputs if same)
            return self._keep(graph, inputs, "forward")

        def backward(graph: fx.GraphModule, values: Sequence[Any]) -> Callable[..., Any]:
            # What the forward graph took and the backward graph needs again has the same name in both.
            named = [(node.name, primals.get(node.name)) for node in graph.graph.find_nodes(op="placeholder")]
            sources = [one.source if one else name for name, one in named]
            inputs = describe_inputs(graph, values, sources, [one.kind if one else None for _, one in named])
            return self._keep(graph, inputs, "backward")

        compiled: Callable[..., Any] = aot_autograd(fw_compiler=forward, bw_compiler=backward)(
            graph_module, example_inputs
        )
        return compiled

    def _keep(self, graph: fx.GraphModule, inputs: tuple[GraphInput, ...], role: str) -> Callable[..., Any]:
        for node, one in zip(graph.graph.find_nodes(op="placeholder"), inputs, strict=True):
            # `primals_3` alone would not tell whether it is a parameter.
            node.meta[INPUT_KIND] = one.kind
        partition = CapturedGraph(graph, inputs, role=role)
        self.partitions.append(partition)
        run: Callable[..., Any] = make_boxed_func(partition.run)
        return run


def capture_with_aot_autograd(
    model: Model, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic: Dynamic
) -> Captured:
    """Compile with an `AotGraphExtractor`; where a result wants gradients, run the backward pass from ones."""
    extractor = AotGraphExtractor()
    captured = run_dynamo(model, args, kwargs, dynamic, extractor, method="aot", level="aten", then=_differentiate)
    return replace(captured, caveats=(*captured.caveats, CAVEAT))


def _differentiate(outputs: Any) -> None:
    wanting = [value for value in tree_leaves(outputs) if isinstance(value, torch.Tensor) and value.requires_grad]
    if wanting:
        torch.autograd.backward(wanting, [torch.ones_like(value) for value in wanting])
