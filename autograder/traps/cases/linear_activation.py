"""A linear layer and an activation: what must not become the fused operator although it looks so, and what must."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import fx, nn
from torch.nn import functional

from autograder.traps.trap import Collector, Program, aten, exported, graph_of, state, with_examples

trap = Collector("linear and activation", "linear_activation_fusion")


def _bare(activation: str, algorithm: str) -> Callable[..., Any]:
    def replacement(x: Any, w: Any, b: Any) -> Any:
        return torch.ops.mkldnn._linear_pointwise.default(x, w, b, activation, [], algorithm)

    return replacement


RULES = (
    (lambda x, w, b: aten.relu.default(aten.linear.default(x, w, b)), _bare("relu", "")),
    (lambda x, w, b: aten.gelu.default(aten.linear.default(x, w, b)), _bare("gelu", "none")),
    (
        lambda x, w, b: aten.gelu.default(aten.linear.default(x, w, b), approximate="tanh"),
        _bare("gelu", "tanh"),
    ),
)
"""The kernel as Inductor calls it where no gradients are wanted, for the peer."""

fused = partial(trap, True, tolerance=1e-5, peer_rules=RULES)
refused = partial(trap, False, tolerance=1e-5, peer_rules=RULES)


def layer(rows: int = 256) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """A module that holds a weight and a bias from 8 to 256 features, as buffers, and an input."""
    return state(weight=torch.randn(256, 8), bias=torch.randn(256)), (torch.randn(rows, 8),)


def written(build: Callable[[fx.Graph, fx.Node, fx.Node, fx.Node], Any], rows: int = 256) -> Program:
    """A graph of input, weight and bias, written node by node, with examples."""
    root, inputs = layer(rows)

    def whole(graph: fx.Graph) -> Any:
        return build(graph, graph.placeholder("x"), graph.get_attr("weight"), graph.get_attr("bias"))

    return with_examples(graph_of(whole, root), *inputs), inputs


TANH = {"approximate": "tanh"}


@fused()
def gelu_with_tanh() -> Program:
    """The plain case, with gradients for weights and inputs, which the kernel itself does not give."""
    model, inputs = nn.Sequential(nn.Linear(8, 256), nn.GELU("tanh")), (torch.randn(256, 8),)
    return exported(model, *inputs, decomposed=False), inputs


@fused()
def exact_gelu() -> Program:
    """The other gelu, which pays from larger results on."""
    return written(
        lambda graph, x, w, b: graph.call_function(
            aten.gelu.default, (graph.call_function(aten.linear.default, (x, w, b)),)
        ),
        rows=512,
    )


@fused()
def a_product_of_matrices() -> Program:
    """Decomposed, a linear layer is a product with the transposed weight."""
    model, inputs = nn.Sequential(nn.Linear(8, 256), nn.GELU("tanh")), (torch.randn(256, 8),)
    return exported(model, *inputs), inputs


@fused(tolerance=0)
def relu_of_nan() -> Program:
    """The kernel's relu makes 0 of NaN; in place it stays NaN, and every bit stays."""
    module, inputs = written(
        lambda graph, x, w, b: graph.call_function(
            aten.relu.default, (graph.call_function(aten.linear.default, (x, w, b)),)
        ),
        rows=512,
    )
    inputs[0][3, 4] = torch.nan
    return module, inputs


@fused(tolerance=0)
def small_relu() -> Program:
    """In place relu is worthwhile for the smallest layer, and gradients flow."""
    model, inputs = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2), nn.ReLU()), (torch.randn(3, 8),)
    return exported(model, *inputs, decomposed=False), inputs


@refused()
def relu_of_what_is_returned() -> Program:
    """In place relu would overwrite a result."""

    def build(graph: fx.Graph, x: fx.Node, w: fx.Node, b: fx.Node) -> Any:
        linear = graph.call_function(aten.linear.default, (x, w, b))
        return graph.call_function(aten.relu.default, (linear,)), linear

    return written(build)


@refused()
def relu_of_a_view_that_is_read() -> Program:
    """The result of the layer is read again through a view, after relu."""

    def build(graph: fx.Graph, x: fx.Node, w: fx.Node, b: fx.Node) -> Any:
        linear = graph.call_function(aten.linear.default, (x, w, b))
        row = graph.call_function(aten.select.int, (linear, 0, 1))
        relu = graph.call_function(aten.relu.default, (linear,))
        return relu, graph.call_function(aten.neg.default, (row,))

    return written(build)


@refused()
def what_is_between_is_returned() -> Program:
    """The result before the activation is a result too."""

    def build(graph: fx.Graph, x: fx.Node, w: fx.Node, b: fx.Node) -> Any:
        linear = graph.call_function(aten.linear.default, (x, w, b))
        return linear, graph.call_function(aten.gelu.default, (linear,), TANH)

    return written(build)


@refused()
def bias_written_in_between() -> Program:
    """The layer reads its bias before it is written."""

    def build(graph: fx.Graph, x: fx.Node, w: fx.Node, b: fx.Node) -> Any:
        linear = graph.call_function(aten.linear.default, (x, w, b))
        graph.call_function(aten.add_.Tensor, (b, 1.0))
        return graph.call_function(aten.gelu.default, (linear,), TANH)

    return written(build)


@refused()
def input_written_in_between() -> Program:
    """The layer reads its input before it is written, through a view."""

    def build(graph: fx.Graph, x: fx.Node, w: fx.Node, b: fx.Node) -> Any:
        x = graph.call_function(aten.clone.default, (x,))
        linear = graph.call_function(aten.linear.default, (x, w, b))
        row = graph.call_function(aten.select.int, (x, 0, 1))
        graph.call_function(aten.zero_.default, (row,))
        return graph.call_function(aten.gelu.default, (linear,), TANH), x

    return written(build)


@refused()
def gelu_under_autocast() -> Program:
    """The layer is computed in float32, and only what follows under autocast."""

    def build(graph: fx.Graph, x: fx.Node, w: fx.Node, b: fx.Node) -> Any:
        linear = graph.call_function(functional.linear, (x, w, b))
        given = ("cpu", torch.bfloat16, True, None)
        entered = graph.call_function(torch.amp.autocast_mode._enter_autocast, given)
        result = graph.call_function(functional.gelu, (linear,), TANH)
        graph.call_function(torch.amp.autocast_mode._exit_autocast, (entered,))
        return result

    return written(build)


@refused()
def no_gradients_for_the_layer() -> Program:
    """A layer computed without gradients, and the activation with them: fused they would flow into the layer."""

    def build(graph: fx.Graph, x: fx.Node, w: fx.Node, b: fx.Node) -> Any:
        graph.call_function(torch._C._set_grad_enabled, (False,))
        linear = graph.call_function(functional.linear, (x, w, b))
        graph.call_function(torch._C._set_grad_enabled, (True,))
        return graph.call_function(functional.gelu, (linear,), TANH)

    return written(build)


TRAPS = tuple(trap.traps)
