"""Folding of batch normalisation into the convolution or linear layer before it."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import fx, nn

from fxopt_core.graphs.cloning import shallow_copy
from fxopt_core.graphs.editor import GraphEditor
from fxopt_core.graphs.examples import keep_example
from fxopt_core.passes.base import Analysis, Opportunity, OptimizationPass, PassResult
from fxopt_core.passes.batchnorm_arithmetic import at_each_call
from fxopt_core.passes.batchnorm_legality import Chain
from fxopt_core.passes.batchnorm_nodes import batch_norm_at, call_with, layer_at
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
        chains: dict[fx.Node, Chain] = {}
        layers: list[Chain] = []
        for node in editor.graph.nodes:
            if (layer := layer_at(node)) is not None:
                chains[node] = chain = Chain(layer)
                layers.append(chain)
            elif chains and (norm := batch_norm_at(node)) is not None and norm.values and norm.input in chains:
                chain = chains[norm.input]
                if (reason := chain.extend(norm, editor)) is None:
                    chains.update(dict.fromkeys(norm.values, chain))
                else:
                    analysis.refuse(node, reason)
        shared: dict[Any, dict[str, Any]] = {}
        for chain in layers:
            if chain.norms:
                chain.made = shared.setdefault(chain.key, chain.made)
                expected = expected_tolerance(chain.layer.weight.dtype, chain.layer.weight.device)
                analysis.opportunities.append(Opportunity(chain.norms[0].node, chain, tolerance=expected))
        return analysis

    def transform(self, editor: GraphEditor, opportunity: Opportunity) -> None:
        """Put the folded layer in the place of the old one, and take out what it makes superfluous."""
        chain: Chain = opportunity.data
        new = (
            _folded_call(editor, chain)
            if chain.layer.module is None
            else _folded_module(editor, chain, chain.layer.module)
        )
        norms = [norm.node for norm in reversed(chain.norms)]
        parts = [part for norm in chain.norms if norm.node not in norm.values for part in norm.node.users]
        sources = [source for node in norms for source in node.all_input_nodes]
        for value in chain.values:
            editor.replace(value, keep_example(new, value))
        editor.erase_unused(node for node in (*parts, *norms, *sources) if node not in chain.values)

    def verify(self, editor: GraphEditor, result: PassResult) -> None:
        """No normalisation that was folded is left."""
        self.require_gone(editor, result.rewrites)


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
    old = chain.layer.node
    # What the module holds is there from the start, but its node may stand behind the layer.
    given = [
        [editor.insert("get_attr", one.target, like=old) if isinstance(one, fx.Node) and one.op == "get_attr" else one
         for one in part.given.values()]
        for part in (chain.layer, *chain.norms)
    ]  # fmt: skip
    return editor.compute(partial(chain.fold, at_each_call), *given, like=old)


def _folded_module(editor: GraphEditor, chain: Chain, module: nn.Module) -> fx.Node:
    """A call of a copy of the layer's module with the folded weights, before the old one."""
    old = chain.layer.node
    if "module" not in chain.made:
        copied = shallow_copy(module)
        for name, parameter in _parameters(chain).items():
            delattr(copied, name)
            copied.register_parameter(name, parameter)
        chain.made["module"] = editor.module(copied, f"_folded_{old.name}")
    return editor.insert("call_module", chain.made["module"], old.args, old.kwargs, like=old)


def _parameters(chain: Chain) -> dict[str, nn.Parameter]:
    assert chain.folded is not None
    tensors = [one for weights in chain.weights for one in weights if isinstance(one, torch.Tensor)]
    required = any(tensor.requires_grad for tensor in tensors)
    return {name: nn.Parameter(tensor, required) for name, tensor in zip(("weight", "bias"), chain.folded, strict=True)}
