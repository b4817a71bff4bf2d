"""A linear layer and the activation after it become one operator."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import fx, nn

from fxopt_core.graphs.arguments import arguments_of
from fxopt_core.graphs.editor import GraphEditor
from fxopt_core.graphs.examples import example_of, keep_example
from fxopt_core.graphs.fused_operators import linear_activation
from fxopt_core.graphs.matching import GraphIndex, Match, Miss
from fxopt_core.graphs.operations import Operations
from fxopt_core.graphs.patterns import function_key
from fxopt_core.passes.batchnorm_nodes import LAYERS, Layer, layer_at
from fxopt_core.passes.pattern_pass import PatternPass, RewriteRule, region
from fxopt_core.passes.registry import register_pass
from fxopt_core.verification import EXACT, Tolerance

aten = torch.ops.aten

WORTHWHILE = {"none": 2**17, "tanh": 2**16}
"""From how many elements of the result on fusing gelu was faster, by its algorithm: to get going takes 15 µs in the
kernel and 5 before it."""

_ACTIVATIONS = Operations(("gelu", "relu"), in_place=("relu",))
_MODULES: dict[Any, str] = {nn.GELU: "gelu", nn.ReLU: "relu"}


class LinearActivation(NamedTuple):
    """What was found.

    Attributes:
        layer: the linear layer.
        activation: `relu` or `gelu`.
        algorithm: of gelu: `none` or `tanh`; of relu empty.
    """

    layer: Layer
    activation: str
    algorithm: Any


def find(activation: str, node: fx.Node, index: GraphIndex) -> Match | Miss | None:
    """A linear layer and the activation that a node calls; why it is none, if it nearly is one."""
    if not node.op.startswith("call"):
        return None
    key = function_key(node, index.owner)
    name = _MODULES.get(key) if node.op == "call_module" else _ACTIVATIONS.name_of(node)
    given = arguments_of(key, node.args, node.kwargs)
    source = next(iter(given.values()), None)
    if name != activation or not isinstance(source, fx.Node):
        return None
    layer = layer_at(source)
    if layer is None and LAYERS.get(source.target) in ("mm", "addmm"):
        return Miss(node, f"{activation}: {source} has a factor or a dtype, which a linear layer has not")
    if layer is None or not layer.linear:
        return None
    weights = [each for each in layer.given.values() if isinstance(each, fx.Node)]
    dimensions = [None if each is None else each.dim() for each in map(example_of, weights)]
    if layer.transposed and dimensions != [2, 1][: len(weights)]:
        return Miss(node, f"{activation}: what {source} adds is not known to be a bias, of one dimension")
    algorithm = given.get("approximate", "none") if node.op != "call_module" else _module(index, node, "approximate")
    inputs = dict.fromkeys((layer.input, *weights))
    return region(index, (source, node), inputs, LinearActivation(layer, name, "" if name == "relu" else algorithm))


def _module(index: GraphIndex, node: fx.Node, name: str) -> Any:
    return getattr(index.owner.get_submodule(str(node.target)), name, None) if index.owner is not None else None


def is_worthwhile(match: Match) -> str | None:
    """The operator is right everywhere, but faster only where the kernel takes over, and enough is to be done."""
    found: LinearActivation = match.data
    layer, weight, least = example_of(found.layer.node), _weight(found.layer), WORTHWHILE.get(found.algorithm)
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


def _weight(layer: Layer) -> torch.Tensor | None:
    """The weight, or an example of it, with the output features in the first dimension."""
    if layer.module is not None:
        return layer.weight if isinstance(layer.weight, torch.Tensor) else None
    weight = example_of(layer.given["weight"])
    return weight.t() if weight is not None and layer.transposed else weight


def _build(editor: GraphEditor, match: Match) -> fx.Node:
    layer, *activation = match.data

    def insert(op: str, target: Any, *args: Any) -> fx.Node:
        return editor.insert(op, target, args, like=match.anchor, before=match.before)

    weight, bias = (match.values.get(layer.given.get(name)) for name in ("weight", "bias"))
    if layer.transposed:
        weight = insert("call_function", aten.t.default, weight)
    elif layer.module is not None:
        weight = insert("get_attr", f"{layer.node.target}.weight")
        bias = insert("get_attr", f"{layer.node.target}.bias") if layer.bias is not None else None
    fused = insert("call_function", linear_activation, match.values[layer.input], weight, bias, *activation)
    return keep_example(fused, match.anchor)


@register_pass("linear_activation_fusion")
class LinearActivationFusion(PatternPass):
    """A linear layer and the relu or gelu after it become one operator.

        relu(x @ wᵀ + b)    becomes    linear_activation(x, w, b, "relu", "")
        gelu(x @ wᵀ + b)    becomes    linear_activation(x, w, b, "gelu", "none" or "tanh")

    at module, functional and ATen level (`linear`, `addmm` and `mm`), where nobody else uses what is between, nothing
    is written and no mode is switched in between. The operator (`graphs.fused_operators`) applies relu in place,
    everywhere, and calls the kernel of oneDNN for gelu where no derivative, autocast or transform is at work; elsewhere
    it is the two operators: gradients flow as before, and training gains nothing from gelu. Where the kernel would not
    be faster gelu stays as it is: on CUDA (the epilogue of cuBLASLt, `aten._addmm_activation`, has no gelu but that
    with tanh, and has not been measured here), on MPS, in other dtypes than float32, for small results (`WORTHWHILE`)
    and for weights stored transposed, as those of GPT-2 are.

    Measured on a Xeon with AVX-512 and AMX, one and two threads, medians of 41 interleaved runs, against the two
    operators: gelu with tanh 1.1 to 2 times as fast, exact gelu 1 to 1.3 times, relu 1.02 to 1.15 times. Left out are
    silu, sigmoid and tanh (0.8 to 1 times). The kernel's relu makes 0 of NaN, and is not used. Behind `torch.compile`
    Inductor gets the two operators, and the pass gains nothing.

    Exactness: relu keeps every bit. The kernel may add up in another order; results of gelu in float32 differed by
    7e-7 of the largest one at most.
    """

    rules = (
        RewriteRule("linear and relu", find=partial(find, "relu"), build=_build, tolerance=EXACT),
        RewriteRule("linear and gelu", find=partial(find, "gelu"), build=_build, checks=(is_worthwhile,)),
    )
    tolerance = Tolerance(relative=1e-5)
