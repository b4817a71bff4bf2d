"""A linear layer and the activation after it become one operator."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

import torch
from torch import fx, nn
from torch.nn import functional

from fxopt_core.graphs.editor import GraphEditor
from fxopt_core.graphs.examples import EXAMPLE_META
from fxopt_core.graphs.fused_operators import linear_activation
from fxopt_core.graphs.legality import legality
from fxopt_core.graphs.matching import Match
from fxopt_core.graphs.patterns import module, named
from fxopt_core.passes.pattern_pass import PatternPass, RewriteRule
from fxopt_core.passes.registry import register_pass
from fxopt_core.verification import Tolerance

aten = torch.ops.aten

WORTHWHILE = {("gelu", "none"): 2**17, ("gelu", "tanh"): 2**16, ("relu", ""): 2**17}
"""From how many elements of the result on fusing was faster: to get going takes 15 µs in the kernel and 5 before it."""


@legality("linear_activation_fusion: NaN stays NaN")
def nan_stays(match: Match) -> str | None:
    """The relu in oneDNN's kernel gives 0 for NaN, which would hide that something went wrong."""
    if _activation(match)[0] == "relu":
        return "the fused relu of oneDNN makes 0 of NaN, where relu keeps it"
    return None


def is_worthwhile(match: Match) -> str | None:
    """The operator is right everywhere, but faster only where the kernel takes over, and enough is to be done."""
    layer, weight = match.example("layer"), _weight(match)
    least = WORTHWHILE.get(_activation(match))
    if layer is None or weight is None or least is None:
        return "the shapes, or which activation it is, are not known"
    if layer.device.type != "cpu" or layer.dtype != torch.float32:
        return f"it is computed in {layer.dtype} on {layer.device.type}; the faster kernel is for float32 on the CPU"
    if not torch.backends.mkldnn.is_available():
        return "this PyTorch is built without oneDNN, whose kernel it would become"
    # A size that varies may be as small as one.
    elements = math.prod(size for size in layer.shape if isinstance(size, int))
    if elements < least:
        return f"its result has {elements} elements, and below {least} the fused kernel is no faster"
    if not weight.is_contiguous():
        return "its weight does not lie in memory row by row, and the fused kernel would copy it each time"
    return None


def _activation(match: Match) -> tuple[Any, Any]:
    """The name and the algorithm of the activation."""
    names = match.pattern.names
    if "approximate" in names:
        return "gelu", match["approximate"]
    found = match.module("activation") if match["activation"].op == "call_module" else None
    return ("gelu", found.approximate) if isinstance(found, nn.GELU) else ("relu", "")


def _weight(match: Match) -> torch.Tensor | None:
    """The weight, or an example of it, with the output features in the first dimension."""
    if "weight" in match.pattern.names:
        return match.example("weight")
    if "transposed" in match.pattern.names:
        transposed = match.example("transposed")
        return None if transposed is None else transposed.t()
    return match.module("layer").weight  # type: ignore[return-value]


class Call(NamedTuple):
    """One way to write a layer or an activation.

    Attributes:
        function: what is called.
        parameters: the names of its arguments.
    """

    function: Callable[..., Any]
    parameters: tuple[str, ...] = ()


ATEN = (
    (
        Call(aten.linear.default, ("input", "weight", "bias")),
        Call(aten.addmm.default, ("bias", "input", "transposed")),
        Call(aten.mm.default, ("input", "transposed")),
    ),
    (Call(aten.gelu.default, ("approximate",)), Call(aten.relu.default)),
)
TORCH = (
    (Call(functional.linear, ("input", "weight", "bias")), Call(module(nn.Linear), ("input",))),
    (
        Call(functional.gelu, ("approximate",)),
        Call(module(nn.GELU)),
        Call(functional.relu),
        Call(module(nn.ReLU)),
    ),
)
"""Layers and activations of a dialect, each of which goes with each."""


def _pattern(layer: Call, activation: Call) -> Callable[..., Any]:
    def activated(given: tuple[Any, ...], more: dict[str, Any]) -> Any:
        return named(activation.function(named(layer.function(*given), "layer"), **more), "activation")

    given, more = ", ".join(layer.parameters), ", ".join(f"{name!r}: {name}" for name in activation.parameters)
    # The parameters differ from layer to layer, which only a function made from text can have.
    spelled: Callable[..., Any] = eval(
        f"lambda {', '.join((*layer.parameters, *activation.parameters))}: activated(({given},), {{{more}}})",
        {"activated": activated},
    )
    return spelled


def _build(editor: GraphEditor, match: Match) -> fx.Node:
    def insert(op: str, target: Any, *args: Any) -> fx.Node:
        return editor.insert(op, target, args, like=match.anchor, before=match.before)

    names, layer = match.pattern.names, match["layer"]
    if "weight" in names:
        weight, bias = match["weight"], match["bias"]
    elif "transposed" in names:
        weight = insert("call_function", aten.t.default, match["transposed"])
        bias = match["bias"] if "bias" in names else None
    else:
        weight = insert("get_attr", f"{layer.target}.weight")
        bias = insert("get_attr", f"{layer.target}.bias") if match.module("layer").bias is not None else None
    fused = insert("call_function", linear_activation, match["input"], weight, bias, *_activation(match))
    for name in EXAMPLE_META:
        if name in match.anchor.meta:
            fused.meta.setdefault(name, match.anchor.meta[name])
    return fused


def _rule(layer: Call, activation: Call) -> RewriteRule:
    name = " and ".join(getattr(call.function, "__name__", str(call.function)) for call in (layer, activation))
    return RewriteRule(name, _pattern(layer, activation), build=_build, checks=(nan_stays, is_worthwhile))


@register_pass("linear_activation_fusion")
class LinearActivationFusion(PatternPass):
    """A linear layer and the gelu after it become one operator.

        gelu(x @ wᵀ + b)    becomes    linear_activation(x, w, b, "gelu", "none" or "tanh")

    at module, functional and ATen level (`linear`, `addmm` and `mm`), where nobody else uses what is between, nothing
    is written and no mode is switched in between. The operator (`graphs.fused_operators`) calls the kernel of oneDNN
    where no derivative, autocast or transform is at work, and is the two operators elsewhere: gradients flow as
    before, and training gains nothing. Where the kernel would not be faster the graph stays as it is: on CUDA (the
    epilogue of cuBLASLt, `aten._addmm_activation`, has no gelu but that with tanh, and has not been measured here),
    on MPS, in other dtypes than float32, for small results (`WORTHWHILE`) and for weights stored transposed, as those
    of GPT-2 are.

    Measured on a Xeon with AVX-512 and AMX, one and two threads, medians of 41 interleaved runs, against the two
    operators: gelu with tanh 1.1 to 2 times as fast, exact gelu 1 to 1.3 times. Left out are silu, sigmoid and tanh
    (0.8 to 1 times) and relu: the kernel's makes 0 of NaN, and `aten._addmm_activation` is 0.94 to 1.19 times as fast.
    Behind `torch.compile` Inductor gets the two operators, and the pass gains nothing.

    Exactness: the kernel may add up in another order; results in float32 differed by 7e-7 of the largest one at most.
    """

    rules = tuple(_rule(layer, activation) for dialect in (ATEN, TORCH) for layer, activation in product(*dialect))
    tolerance = Tolerance(relative=1e-5)
