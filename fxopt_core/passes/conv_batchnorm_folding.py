"""Folding of batch normalisation into the convolution or linear layer before it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import torch
from torch import fx, nn

from fxopt_core.graphs.editor import GraphEditor, Rewrite
from fxopt_core.graphs.examples import EXAMPLE_META
from fxopt_core.passes.base import Analysis, Opportunity, OptimizationPass, PassResult
from fxopt_core.passes.batchnorm_arithmetic import at_each_call, batch_norm_affine, fold
from fxopt_core.passes.batchnorm_legality import (
    Chain,
    channels_in_dimension_one,
    evaluation_only,
    has_running_statistics,
    nobody_else_uses_it,
    nothing_is_being_trained,
    one_dtype,
    same_mode,
    sizes_match,
    weights_are_constants,
    weights_are_not_written,
    weights_stay_finite,
    written_tensors,
)
from fxopt_core.passes.batchnorm_nodes import BatchNorm, batch_norm_at, call_with, layer_at
from fxopt_core.passes.registry import register_pass
from fxopt_core.verification import Tolerance

SINGLE = Tolerance(relative=1e-5)
"""Of results in float32: three times what 49 convolutions in sequence differed by (3e-6)."""

HALF = {torch.float16: Tolerance(relative=2e-2), torch.bfloat16: Tolerance(relative=1e-1)}
"""Of results in 16 bits, where the same 49 convolutions differed by 6e-3 and 4e-2; both versions were as far from
the result in float64 as from each other."""


def expected_tolerance(dtype: torch.dtype, device: torch.device) -> Tolerance:
    """How far results may be off, whose weights are of this dtype on this device.

    On CUDA, `torch.backends` says whether what float32 multiplies is rounded to TF32 (11 significant bits, as float16
    has); for convolutions it is, unless switched off.
    """
    if device.type == "cuda" and dtype == torch.float32:
        convolutions = torch.backends.cudnn.conv.fp32_precision  # type: ignore[attr-defined]
        products = torch.backends.cuda.matmul.fp32_precision
        return HALF[torch.float16] if "tf32" in (convolutions, products) else SINGLE
    return HALF.get(dtype, SINGLE)


@register_pass("conv_batchnorm_folding")
class ConvBatchNormFolding(OptimizationPass):
    """Compute a batch normalisation in evaluation as part of the layer before it.

        n = batch_norm(layer(x, w, b))    becomes    n = layer(x, w', b')
        w' = w * s for each output channel,  b' = (b - mean) * s + beta,  s = gamma / sqrt(variance + eps)

    for convolutions of one to three dimensions, transposed or not, and linear layers, as modules, functions of torch
    and operators of ATen; a chain of several normalisations becomes one layer. It is legal where the normalisation is
    known to use running statistics; nobody else uses what is between; all weights are tensors of the module that the
    graph does not write, of one real dtype, of the right sizes, with a finite result; the layer's channels are
    dimension 1 of its result (a linear layer: 2 dimensions; a convolution: with a batch); and no mode is switched in
    between. Stands where the layer stood, so that it reads what the layer read.

    Exactness: with u the unit roundoff of the dtype (2^-24 for float32) and k the products that one output sums, both
    versions are within (k + 8) * u * (|s| * (sum |w x| + |b| + |mean|) + |beta|) of the exact result if nothing
    overflows (Higham 2002, "Accuracy and Stability of Numerical Algorithms", section 3.1). Of the largest absolute
    result that is below 1e-5 in float32 (`SINGLE`; `HALF` for 16 bits), unless sums or the mean cancel, which makes
    both inexact. Weights are folded in float64 and rounded once.

    Where the weights are inputs of the graph, as under `torch.compile`, operators are inserted that fold them at each
    call, in float32 or wider. Then whatever happens to the weights counts from the next call on, gradients reach
    them, and the bound above has k + 12 for k + 8. What folding costs then is a pass over the weights at each call:
    ResNet-50 behind `aot_eager` on one core of a busy machine took 489 ms without folding and 636 with it for one
    image, 2,858 and 2,684 for eight.

    Folded ahead, the pass is for inference: what is learnt, loaded or set later in the old weights is not seen,
    `train()` does not bring the normalisation back, and gradients flow to the inputs and into the new weights, not
    the old ones. New weights are parameters that require gradients if an old one did, so that results require
    gradients as before, and a checkpoint of the model does not load without an error. Old ones stay as they are, for
    whoever shares them; what is folded from the same weights is shared again. `statistics["bytes added"]` is what the
    new ones take.
    """

    tolerance = SINGLE
    keeps_gradients = False

    def analyze(self, editor: GraphEditor) -> Analysis:
        """Find layers with normalisations behind them, and compute their folded weights."""
        analysis = Analysis()
        nodes = [node for node in editor.graph.nodes if node.op in ("call_function", "call_module")]
        norms = {node: norm for node in nodes if (norm := batch_norm_at(node)) is not None}
        if not norms:
            return analysis
        storages = editor.storages
        written = written_tensors(editor.graph, storages)
        chains: dict[fx.Node, Chain] = {}
        layers: list[Chain] = []
        for node in nodes:
            if (norm := norms.get(node)) is not None:
                if norm.values and (chain := chains.get(norm.input)) is not None:
                    reason = self._extend(chain, norm, editor.timeline.mode(node).switches, written)
                    if reason is None:
                        chains.update(dict.fromkeys(norm.values, chain))
                    else:
                        analysis.refuse(node, reason)
            elif (layer := layer_at(node)) is not None:
                chains[node] = chain = Chain(layer, editor.timeline.mode(node).switches)
                layers.append(chain)
        shared: dict[tuple[Any, ...], dict[str, Any]] = {}
        for chain in layers:
            if chain.norms:
                chain.made = shared.setdefault(chain.key, chain.made)
                weight: torch.Tensor = chain.layer.weight  # type: ignore[assignment]
                expected = expected_tolerance(weight.dtype, weight.device)
                analysis.opportunities.append(Opportunity(chain.norms[0].node, chain, tolerance=expected))
        return analysis

    @staticmethod
    def _extend(chain: Chain, norm: BatchNorm, mode: int, written: frozenset[int] | None) -> str | None:
        """Take one more normalisation into the chain, or say why not."""
        layer = chain.layer
        reason = (
            evaluation_only(norm)
            or has_running_statistics(norm)
            or nobody_else_uses_it(chain, norm)
            or weights_are_constants(layer, norm)
            or weights_are_not_written(layer, norm, written)
            or nothing_is_being_trained(layer)
            or same_mode(chain, mode)
            or channels_in_dimension_one(layer, norm)
            or sizes_match(layer, norm)
            or one_dtype(layer, norm)
        )
        if reason is not None:
            return reason
        if Chain(layer, mode, [*chain.norms, norm]).at_each_call:
            chain.norms.append(norm)
            return None
        given: dict[str, Any] = {"mean": norm.mean, "variance": norm.variance, "weight": norm.weight, "bias": norm.bias}
        affine = batch_norm_affine(**given, eps=norm.eps)
        affine = affine if chain.affine is None else affine.after(chain.affine)
        given = {"weight": layer.weight, "bias": layer.bias, "transposed": layer.transposed, "groups": layer.groups}
        folded = fold(**given, affine=affine)
        reason = weights_stay_finite(folded)
        if reason is None:
            chain.norms.append(norm)
            chain.affine, chain.folded = affine, folded
        return reason

    def transform(self, editor: GraphEditor, opportunity: Opportunity) -> None:
        """Put the folded layer in the place of the old one, and take out what it makes superfluous."""
        chain: Chain = opportunity.data
        new = (
            _folded_call(editor, chain)
            if chain.layer.module is None
            else _folded_module(editor, chain, chain.layer.module)
        )
        nodes = [chain.layer.node, *(node for norm in chain.norms for node in (norm.node, *norm.values))]
        sources = dict.fromkeys(source for node in nodes for source in node.all_input_nodes if source not in nodes)
        for value in chain.values:
            for name in (*EXAMPLE_META, "tensor_meta"):
                if name in value.meta:
                    new.meta.setdefault(name, value.meta[name])
            editor.replace(value, new)
        for norm in reversed(chain.norms):
            if norm.node not in chain.values:
                for part in list(norm.node.users):
                    editor.erase(part)
                editor.erase(norm.node)
        editor.erase(chain.layer.node)
        unused = [source for source in sources if not source.users]
        while unused:
            source = unused.pop()
            above = source.all_input_nodes
            editor.erase(source)
            unused += [source for source in above if not source.users]

    def verify(self, editor: GraphEditor, result: PassResult) -> None:
        """No normalisation that was folded is left."""
        self.require_gone(editor, result.rewrites)

    def statistics(self, editor: GraphEditor, rewrites: Sequence[Rewrite]) -> dict[str, int]:
        """How much memory the folded weights take."""
        made = [new for rewrite in rewrites for new in rewrite.after if new.op in ("get_attr", "call_module")]
        tensors: list[torch.Tensor] = []
        for name in {str(new.target) for new in made}:
            value = getattr(editor.graph_module, name)
            tensors += value.parameters() if isinstance(value, nn.Module) else [value]
        return {"bytes added": sum(tensor.nbytes for tensor in tensors)} if tensors else {}


def _folded_call(editor: GraphEditor, chain: Chain) -> fx.Node:
    """A call of the same function with the folded weights, before the old one."""
    old = chain.layer.node
    if not chain.made and chain.at_each_call:
        chain.made["weight"], chain.made["bias"] = _computed_at_each_call(editor, chain)
    elif not chain.made:
        for name, tensor in _parameters(chain).items():
            chain.made[name] = editor.constant(tensor, f"_folded_{old.name}_{name}", like=old)
    target, args, kwargs = call_with(chain.layer, **chain.made)
    return editor.insert("call_function", target, args, kwargs, like=old)


def _computed_at_each_call(editor: GraphEditor, chain: Chain) -> tuple[fx.Node, ...]:
    """The operators that fold the weights, before the layer."""
    layer, old = chain.layer, chain.layer.node
    given = [layer.given, *(norm.given for norm in chain.norms)]
    # What the module holds is there from the start, but its node may stand behind the layer.
    nodes = [
        [editor.insert("get_attr", one.target, like=old) if isinstance(one, fx.Node) and one.op == "get_attr" else one
         for one in each.values()]
        for each in given
    ]  # fmt: skip

    def folded(weights: list[Any], *statistics: list[Any]) -> tuple[torch.Tensor, torch.Tensor]:
        affines = [
            batch_norm_affine(mean, variance, weight, bias, norm.eps, at_each_call)
            for (mean, variance, weight, bias), norm in zip(statistics, chain.norms, strict=True)
        ]
        affine = reduce(lambda first, then: then.after(first), affines)
        weight, bias = weights
        return fold(weight, bias, affine, transposed=layer.transposed, groups=layer.groups, widen=at_each_call)

    return editor.compute(folded, *nodes, like=old)


def _folded_module(editor: GraphEditor, chain: Chain, module: nn.Module) -> fx.Node:
    """A call of a copy of the layer's module with the folded weights, before the old one."""
    old = chain.layer.node
    if "module" not in chain.made:
        copied: nn.Module = type(module).__new__(type(module))
        for name, value in vars(module).items():
            vars(copied)[name] = value.copy() if isinstance(value, (dict, set)) else value
        for name, parameter in _parameters(chain).items():
            delattr(copied, name)
            copied.register_parameter(name, parameter)
        chain.made["module"] = editor.module(copied, f"_folded_{old.name}")
    return editor.insert("call_module", chain.made["module"], old.args, old.kwargs, like=old)


def _parameters(chain: Chain) -> dict[str, nn.Parameter]:
    assert chain.folded is not None
    required = any(isinstance(weight, torch.Tensor) and weight.requires_grad for weight in chain.weights)
    return {name: nn.Parameter(tensor, required) for name, tensor in zip(("weight", "bias"), chain.folded, strict=True)}
