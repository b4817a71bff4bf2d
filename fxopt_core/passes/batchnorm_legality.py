"""When a batch normalisation may be folded into the layer before it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import torch
from torch import fx, nn
from torch._subclasses.fake_tensor import FakeTensor

from fxopt_core.graphs.editor import GraphEditor
from fxopt_core.graphs.examples import EXAMPLE_META
from fxopt_core.graphs.legality import legality
from fxopt_core.graphs.timeline import Timeline
from fxopt_core.passes.batchnorm_arithmetic import ahead, batch_norm_affine, fold
from fxopt_core.passes.batchnorm_nodes import BatchNorm, Layer

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


@dataclass
class Chain:
    """A layer and the normalisations that follow it, with what they become.

    Attributes:
        layer: the convolution or linear layer.
        norms: what is folded into it, in order.
        folded: weight and bias of the layer that does it all; nothing where they are computed at each call.
        made: where the folded layer or weights are, once they are part of the graph: shared by chains over the same
            weights.
    """

    layer: Layer
    norms: list[BatchNorm] = field(default_factory=list)
    folded: tuple[torch.Tensor, torch.Tensor] | None = None
    made: dict[str, Any] = field(default_factory=dict)

    @property
    def values(self) -> tuple[fx.Node, ...]:
        """The nodes that carry the result."""
        return self.norms[-1].values if self.norms else (self.layer.node,)

    @property
    def weights(self) -> list[list[Any]]:
        """Those of the layer and of each normalisation: all that the folded weights are computed from."""
        return [list(part.weights.values()) for part in (self.layer, *self.norms)]

    @property
    def at_each_call(self) -> bool:
        """Whether a weight is an input of the graph, so that only at a call it is known what to fold."""
        return any(isinstance(weight, FakeTensor) for weights in self.weights for weight in weights)

    @property
    def key(self) -> tuple[Hashable, ...]:
        """Equal for chains that compute the same from the same weights."""
        layer = self.layer
        kind = (id(layer.module), layer.transposed, layer.groups)
        weights = (id(weight) for weights in self.weights for weight in weights)
        return (*kind, *weights, *(norm.eps for norm in self.norms))

    def fold(
        self, widen: Callable[[torch.Tensor], torch.Tensor], weights: list[Any], *statistics: list[Any]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Weight and bias of the layer that does it all.

        Args:
            widen: gives each tensor the precision in which to compute.
            weights: of the layer.
            statistics: the weights of each normalisation.
        """
        affines = [
            batch_norm_affine(mean, variance, weight, bias, norm.eps, widen)
            for (mean, variance, weight, bias), norm in zip(statistics, self.norms, strict=True)
        ]
        affine = reduce(lambda first, then: then.after(first), affines)
        weight, bias = weights
        return fold(weight, bias, affine, transposed=self.layer.transposed, groups=self.layer.groups, widen=widen)

    def extend(self, norm: BatchNorm, editor: GraphEditor) -> str | None:
        """Take in one more normalisation, or say why not."""
        reason = (
            evaluation_only(norm)
            or has_running_statistics(norm)
            or nobody_else_uses_it(self, norm)
            or weights_are_constants(self.layer, norm)
            or weights_are_not_written(self.layer, norm, editor.storages.written_memory)
            or nothing_is_being_trained(self.layer)
            or same_mode(self.layer, norm, editor.timeline)
            or channels_in_dimension_one(self.layer, norm)
            or sizes_match(self.layer, norm)
            or one_dtype(self.layer, norm)
        )
        if reason is not None:
            return reason
        longer = Chain(self.layer, [*self.norms, norm])
        if not longer.at_each_call:
            folded = longer.fold(ahead, *longer.weights)
            if (reason := weights_stay_finite(folded)) is not None:
                return reason
            self.folded = folded
        self.norms.append(norm)
        return None


@legality("conv_batchnorm_folding: evaluation only")
def evaluation_only(norm: BatchNorm) -> str | None:
    """With the statistics of the batch, normalisation is no fixed scale and shift, and it may update the statistics."""
    if norm.training is True:
        return "it is in training mode and uses the statistics of each batch; call eval() on the model first"
    if norm.training is not False:
        return f"whether it is in training mode is only known when it runs ({norm.training})"
    return None


@legality("conv_batchnorm_folding: running statistics")
def has_running_statistics(norm: BatchNorm) -> str | None:
    """Without running statistics those of the batch are used, in evaluation too."""
    mean, variance, *_ = norm.weights.values()
    if mean is None or variance is None:
        return "it has no running statistics and uses those of each batch"
    return None


@legality("conv_batchnorm_folding: nobody else sees what is between")
def nobody_else_uses_it(chain: Chain, norm: BatchNorm) -> str | None:
    """What is folded into the layer changes its result for every user."""
    users = {user for value in chain.values for user in value.users}
    if users != {norm.node}:
        return f"what {chain.layer.node} computes is used elsewhere too"
    return "more than its first result is used" if norm.others else None


@legality("conv_batchnorm_folding: weights are constants")
def weights_are_constants(layer: Layer, norm: BatchNorm) -> str | None:
    """Only tensors of the module, with plain data, can be folded, and inputs that Dynamo made of such tensors."""
    for name, weight in (*layer.weights.items(), *norm.weights.items()):
        if isinstance(weight, fx.Node) and weight.op == "placeholder":
            return f"its {name} is an input of this graph ({weight}), not a tensor of the module"
        if isinstance(weight, fx.Node):
            return f"its {name} is computed in the graph ({weight}); constant_folding with freeze=True may change that"
        held = type(weight) in (torch.Tensor, nn.Parameter) and not weight.is_meta
        # One without data is an input that Dynamo made of a tensor of the module.
        known = held or (type(weight) is FakeTensor and isinstance({**layer.given, **norm.given}[name], fx.Node))
        if not (known and weight.layout == torch.strided) and (weight is not None or name == "weight"):
            return f"its {name} is no dense tensor with data, but {type(weight).__name__}"
    return None


@legality("conv_batchnorm_folding: weights are not written")
def weights_are_not_written(layer: Layer, norm: BatchNorm, written: frozenset[Hashable] | None) -> str | None:
    """A tensor that the graph may write has another value at each call."""
    if written is None:
        return "the graph writes its inputs or calls something unknown, which may write the weights"
    names = [name for name, memory in (*layer.memory(), *norm.memory()) if memory in written]
    return f"the graph writes its {names[0]}" if names else None


@legality("conv_batchnorm_folding: nothing is being trained")
def nothing_is_being_trained(layer: Layer) -> str | None:
    """A layer in training mode beside a frozen normalisation is fine-tuned: its own weights must get the gradients."""
    trained = any(isinstance(weight, torch.Tensor) and weight.requires_grad for weight in layer.weights.values())
    if layer.module is not None and layer.module.training and trained:
        return f"{layer.node.target} is in training mode; call eval() on the model first"
    return None


@legality("conv_batchnorm_folding: channels in dimension 1")
def channels_in_dimension_one(layer: Layer, norm: BatchNorm) -> str | None:
    """Normalisation is over dimension 1. The layer's channels are there if its result has a batch and nothing more.

    A linear layer has its channels in the last dimension; a convolution without a batch dimension, in the first.
    """
    expected = layer.weight.dim()
    found = norm.dimensions if norm.dimensions is not None else _dimensions(layer.node)
    if expected < 2 or found is None:
        return (
            f"how many dimensions {layer.node} has is unknown: only with {expected} are its channels what is "
            "normalised; capture with shapes (torch.export, or torch.fx.passes.shape_prop.ShapeProp)"
        )
    if found != expected:
        return f"{layer.node} has {found} dimensions and not {expected}: its channels are not what is normalised"
    return None


@legality("conv_batchnorm_folding: sizes are as they must be")
def sizes_match(layer: Layer, norm: BatchNorm) -> str | None:
    """What raises has to go on raising, and must not be broadcast."""
    if type(layer.groups) is not int or type(layer.transposed) is not bool or type(norm.eps) not in (int, float):
        return "its groups or eps are only known when it runs"
    shape = layer.weight.shape
    channels = shape[1] * layer.groups if layer.transposed else shape[0]
    for name, weight in (("bias", layer.bias), *norm.weights.items()):
        if isinstance(weight, torch.Tensor) and tuple(weight.shape) != (channels,):
            return f"its {name} has the shape {tuple(weight.shape)} for {channels} channels"
    return None


@legality("conv_batchnorm_folding: one dtype")
def one_dtype(layer: Layer, norm: BatchNorm) -> str | None:
    """Folded weights have the dtype of the layer: what was normalised in a wider one would lose precision."""
    weights = [w for w in (*layer.weights.values(), *norm.weights.values()) if isinstance(w, torch.Tensor)]
    dtypes, devices = {weight.dtype for weight in weights}, {weight.device for weight in weights}
    if len(dtypes) > 1 or not dtypes <= set(FLOATS):
        return f"its weights are of {', '.join(sorted(map(str, dtypes)))}; only one real floating dtype is folded"
    return None if len(devices) == 1 else "its weights are on several devices"


@legality("conv_batchnorm_folding: same mode")
def same_mode(layer: Layer, norm: BatchNorm, timeline: Timeline) -> str | None:
    """The gradient and autocast modes decide what is computed, in which dtype, and whether gradients flow."""
    if timeline.mode(layer.node) == timeline.mode(norm.node):
        return None
    return "a mode (gradients, autocast) is switched between the two"


@legality("conv_batchnorm_folding: the weights stay finite")
def weights_stay_finite(folded: tuple[torch.Tensor, torch.Tensor]) -> str | None:
    """Where the scale overflows, or a statistic is NaN, zero inputs would become NaN."""
    if all(bool(tensor.isfinite().all()) for tensor in folded):
        return None
    return f"the folded weights are not finite in {folded[0].dtype}"


def _dimensions(node: fx.Node) -> int | None:
    """How many dimensions the capture says that a node's value has."""
    shapes = [node.meta[name].shape for name in (*EXAMPLE_META, "tensor_meta") if hasattr(node.meta.get(name), "shape")]
    return len(shapes[0]) if shapes else None
