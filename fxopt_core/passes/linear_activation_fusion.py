"""A linear layer and the activation after it become one operator."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import fx, nn

from fxopt_core.graphs.arguments import arguments_of
from fxopt_core.graphs.editor import GraphEditor
from fxopt_core.graphs.examples import EXAMPLE_META, example_of
from fxopt_core.graphs.fused_operators import linear_activation
from fxopt_core.graphs.matching import GraphIndex, Match, Miss
from fxopt_core.graphs.patterns import function_key
from fxopt_core.passes.operations import Operations
from fxopt_core.passes.pattern_pass import PatternPass, RewriteRule, region
from fxopt_core.passes.registry import register_pass
from fxopt_core.verification import EXACT, Tolerance

aten = torch.ops.aten

WORTHWHILE = {"none": 2**17, "tanh": 2**16}
"""From how many elements of the result on fusing gelu was faster, by its algorithm: to get going takes 15 µs in the
kernel and 5 before it."""

_CALLS = Operations(("linear", "addmm", "mm", "gelu", "relu", "relu_"))
_MODULES: dict[Any, str] = {nn.Linear: "linear", nn.GELU: "gelu", nn.ReLU: "relu"}


class Call(NamedTuple):
    """A layer or an activation, however it is written.

    Attributes:
        name: of the operation.
        given: the arguments of the call by name.
        module: what is called, if it is a module.
    """

    name: str | None
    given: dict[Any, Any]
    module: nn.Module | None = None


def _call_at(node: Any) -> Call | None:
    if not isinstance(node, fx.Node) or not node.op.startswith("call"):
        return None
    owner = node.graph.owning_module
    if node.op == "call_module" and owner is None:
        return None
    key = function_key(node, owner)
    module = owner.get_submodule(str(node.target)) if node.op == "call_module" and owner is not None else None
    name = _CALLS.name_of(node) if module is None else _MODULES.get(key)
    return None if name is None else Call(name, arguments_of(key, node.args, node.kwargs), module)


class LinearActivation(NamedTuple):
    """What was found.

    Attributes:
        layer: the call of the layer.
        input: of the layer.
        weight: of the layer, as a node; `None` where a module holds it.
        bias: of the layer, likewise.
        transposed: whether the weight has its output features in the second dimension.
        activation: `relu` or `gelu`.
        algorithm: of gelu: `none` or `tanh`; of relu empty.
    """

    layer: fx.Node
    input: fx.Node
    weight: fx.Node | None
    bias: fx.Node | None
    transposed: bool
    activation: str
    algorithm: Any


def _find(activation: str) -> Any:
    """Looks for a linear layer before an activation."""

    def find(node: fx.Node, index: GraphIndex) -> Match | Miss | None:
        call = _call_at(node)
        if call is None or call.name is None or call.name.removesuffix("_") != activation:
            return None
        layer = next(iter(call.given.values()), None)
        linear = _call_at(layer)
        if linear is None or linear.name not in ("linear", "addmm", "mm"):
            return None
        given = linear.given
        if (given.get("beta", 1), given.get("alpha", 1)) != (1, 1) or "out_dtype" in given:
            return Miss(node, f"{activation}: {layer} has a factor or a dtype, which a linear layer has not")
        holder = call.module if call.module is not None else call.given
        algorithm = "" if activation == "relu" else _attribute(holder, "approximate")
        weight, bias, transposed = given.get("weight"), given.get("bias"), linear.name != "linear"
        if transposed:
            weight, bias = given.get("mat2"), given.get("self") if linear.name == "addmm" else None
        source = given.get("mat1" if linear.name == "addmm" else "self" if linear.name == "mm" else "input")
        shape = example_of(bias) if isinstance(bias, fx.Node) else None
        if linear.name == "addmm" and (shape is None or shape.dim() != 1):
            return Miss(node, f"{activation}: what {layer} adds is not known to be a bias, of one dimension")
        found = LinearActivation(layer, source, weight, bias, transposed, activation, algorithm)
        inputs = dict.fromkeys(each for each in (source, weight, bias) if isinstance(each, fx.Node))
        return region(index, (layer, node), inputs, found)

    return find


def _attribute(holder: Any, name: str) -> Any:
    return holder.get(name, "none") if isinstance(holder, dict) else getattr(holder, name)


def is_worthwhile(match: Match) -> str | None:
    """The operator is right everywhere, but faster only where the kernel takes over, and enough is to be done."""
    found: LinearActivation = match.data
    layer, weight, least = example_of(found.layer), _weight(match), WORTHWHILE.get(found.algorithm)
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


def _weight(match: Match) -> torch.Tensor | None:
    """The weight, or an example of it, with the output features in the first dimension."""
    found: LinearActivation = match.data
    if found.weight is None:
        owner = match.index.owner
        return None if owner is None else owner.get_submodule(str(found.layer.target)).weight  # type: ignore[return-value]
    weight = example_of(found.weight)
    return weight.t() if weight is not None and found.transposed else weight


def _build(editor: GraphEditor, match: Match) -> fx.Node:
    found: LinearActivation = match.data

    def insert(op: str, target: Any, *args: Any) -> fx.Node:
        return editor.insert(op, target, args, like=match.anchor, before=match.before)

    source, weight, bias = (match.values.get(each) for each in (found.input, found.weight, found.bias))
    if found.transposed:
        weight = insert("call_function", aten.t.default, weight)
    elif weight is None:
        held = editor.graph_module.get_submodule(str(found.layer.target))
        weight = insert("get_attr", f"{found.layer.target}.weight")
        bias = insert("get_attr", f"{found.layer.target}.bias") if held.bias is not None else None
    fused = insert("call_function", linear_activation, source, weight, bias, found.activation, found.algorithm)
    for name in EXAMPLE_META:
        if name in match.anchor.meta:
            fused.meta.setdefault(name, match.anchor.meta[name])
    return fused


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
        RewriteRule("linear and relu", find=_find("relu"), build=_build, tolerance=EXACT),
        RewriteRule("linear and gelu", find=_find("gelu"), build=_build, checks=(is_worthwhile,)),
    )
    tolerance = Tolerance(relative=1e-5)
