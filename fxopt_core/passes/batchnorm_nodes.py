"""Convolutions, linear layers and batch normalisations, in whatever dialect of graphs they are written."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

import torch
from torch import fx, nn
from torch._subclasses.fake_tensor import FakeTensor

from fxopt_core.graphs.arguments import arguments_of
from fxopt_core.graphs.examples import HELD_BY_MODULE, attribute_of, example_of
from fxopt_core.graphs.operations import Operations

Weight = torch.Tensor | fx.Node | None
"""A tensor of the graph's module, which is without data where Dynamo made an input of it; or nothing; or, where it is
neither, the node that gives it."""


@dataclass(frozen=True, slots=True)
class Layer:
    """A convolution or a linear layer: linear in its input, with output channels.

    Attributes:
        node: the call.
        input: what it is applied to.
        module: what it calls, at module level.
        weight: of the layer.
        bias: of the layer.
        transposed: whether the output channels are in the second dimension of the weight.
        groups: of a convolution, else 1. At the functional level these two are whatever the call was given.
        given: the nodes of weight and bias, at the functional level.
    """

    node: fx.Node
    input: Any
    module: nn.Module | None
    weight: Weight
    bias: Weight
    transposed: Any = False
    groups: Any = 1
    given: Mapping[str, Any] = field(default_factory=dict)

    @property
    def weights(self) -> dict[str, Weight]:
        """All weights by name."""
        return {"weight": self.weight, "bias": self.bias}

    @property
    def linear(self) -> bool:
        """Whether it is a linear layer, and no convolution or subclass, which may compute something else."""
        return LAYERS.get(self.node.target) in ("linear", "mm", "addmm") or type(self.module) is nn.Linear


@dataclass(frozen=True, slots=True)
class BatchNorm:
    """A batch normalisation.

    Attributes:
        node: the call.
        input: what it normalises.
        values: the nodes that carry its result: itself, or what takes the first of its results.
        others: whether another of its results is used.
        mean: running mean.
        variance: running variance.
        weight: learnt factor.
        bias: learnt summand.
        training: whether it uses the statistics of the batch: what the call was given.
        eps: is added to the variance: what the call was given.
        dimensions: how many dimensions its input must have, where it insists.
        given: the nodes of statistics and weights, at the functional level.
    """

    node: fx.Node
    input: Any
    values: tuple[fx.Node, ...]
    others: bool
    mean: Weight
    variance: Weight
    weight: Weight
    bias: Weight
    training: Any
    eps: Any
    dimensions: int | None = None
    given: Mapping[str, Any] = field(default_factory=dict)

    @property
    def weights(self) -> dict[str, Weight]:
        """Statistics and weights by name."""
        return {
            "running mean": self.mean,
            "running variance": self.variance,
            "weight of the normalisation": self.weight,
            "bias of the normalisation": self.bias,
        }


_LAYERS = "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d convolution linear"
_NORMS = "batch_norm native_batch_norm _native_batch_norm_legit_no_training"
_LAYER_MODULES = (nn.modules.conv._ConvNd, nn.Linear)
_NORM_MODULES: Mapping[type[nn.Module], int | None] = {
    nn.BatchNorm1d: None,  # takes 2 or 3
    nn.BatchNorm2d: 4,
    nn.BatchNorm3d: 5,
}

_TRANSPOSES = (
    (torch.ops.aten.permute.default, [1, 0]),
    (torch.ops.aten.transpose.int, 0, 1),
    (torch.ops.aten.t.default,),
)


LAYERS = Operations((*_LAYERS.split(), "mm", "addmm")).functions
"""What computes a layer, with the name of the operator. Linear layers of core ATen are products of matrices."""

NORMS = Operations(_NORMS.split()).functions


def layer_at(node: fx.Node) -> Layer | None:
    """The convolution or linear layer that a node computes, if it does."""
    if node.op == "call_module":
        module = _module(node)
        if not isinstance(module, _LAYER_MODULES):
            return None
        transposed, groups = getattr(module, "transposed", False), getattr(module, "groups", 1)
        return Layer(node, _input(node), module, _own(module, "weight"), _own(module, "bias"), transposed, groups)
    name = LAYERS.get(node.target) if node.op == "call_function" else None
    if name is None:
        return None
    given = arguments_of(node.target, node.args, node.kwargs)
    source = given.get("input")
    if name in ("mm", "addmm"):
        # bias + input @ weight: the output channels are in the second dimension. With factors it is something else.
        if (given.get("beta", 1), given.get("alpha", 1)) != (1, 1) or "out_dtype" in given:
            return None
        source = given["mat1" if name == "addmm" else "self"]
        given = {"weight": given["mat2"], "bias": given["self"] if name == "addmm" else None, "transposed": True}
    weights = {role: given.get(role) for role in ("weight", "bias")}
    weight, bias = map(_weight, weights.values())
    transposed = given.get("transposed", name.startswith("conv_transpose"))
    return Layer(node, source, None, weight, bias, transposed, given.get("groups", 1), weights)


def batch_norm_at(node: fx.Node) -> BatchNorm | None:
    """The batch normalisation that a node computes, if it does."""
    if node.op == "call_module":
        module = _module(node)
        dimensions = [size for kind, size in _NORM_MODULES.items() if isinstance(module, kind)]
        if not isinstance(module, nn.modules.batchnorm._BatchNorm) or not dimensions:
            return None
        mean, variance = _own(module, "running_mean"), _own(module, "running_var")
        weight, bias = _own(module, "weight"), _own(module, "bias")
        own = (mean, variance, weight, bias, module.training, module.eps, dimensions[0])
        return BatchNorm(node, _input(node), (node,), False, *own)
    name = NORMS.get(node.target) if node.op == "call_function" else None
    if name is None:
        return None
    given = arguments_of(node.target, node.args, node.kwargs)
    weights = {role: given.get(role) for role in ("running_mean", "running_var", "weight", "bias")}
    values, others = ((node,), False) if name == "batch_norm" else _first_results(node)
    mean, variance, weight, bias = map(_weight, weights.values())
    training, eps = given.get("training", False), given.get("eps")
    return BatchNorm(
        node, given.get("input"), values, others, mean, variance, weight, bias, training, eps, given=weights
    )


def _first_results(node: fx.Node) -> tuple[tuple[fx.Node, ...], bool]:
    """The users that take the first of several results, and whether there are users of anything else."""
    parts = [user for user in node.users if user.target is operator.getitem]
    firsts = tuple(part for part in parts if part.args[1] == 0)
    return firsts, len(parts) < len(node.users) or any(part.users for part in parts if part not in firsts)


def call_with(layer: Layer, weight: fx.Node, bias: fx.Node) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """The call of a layer with other weights: target, positional and keyword arguments."""
    node = layer.node
    if LAYERS[node.target] in ("mm", "addmm"):
        return torch.ops.aten.addmm.default, (bias, layer.input, weight), {}
    args, kwargs = list(node.args), dict(node.kwargs)
    for place, (name, value) in enumerate((("weight", weight), ("bias", bias)), start=1):
        if place < len(args):
            args[place] = value
        elif place == len(args) and not kwargs:
            args.append(value)
        else:
            kwargs[name] = value
    return node.target, tuple(args), kwargs


def _module(node: fx.Node) -> nn.Module | None:
    owner = node.graph.owning_module
    return None if owner is None else owner.get_submodule(str(node.target))


def _input(node: fx.Node) -> Any:
    return node.args[0] if node.args else next(iter(node.kwargs.values()), None)


def _own(module: nn.Module, name: str) -> Any:
    """A tensor that a module holds. One that it computes when asked (a parametrisation) is no tensor, and not asked."""
    for held in (module._parameters, module._buffers, vars(module)):
        if name in held:
            return held[name]
    return NotImplemented


def _weight(argument: Any) -> Weight:
    """The tensor that an argument stands for, where it is known before any call. ATen transposes those of linear."""
    if isinstance(argument, fx.Node) and (argument.target, *argument.args[1:]) in _TRANSPOSES:
        weight = _weight(argument.args[0])
        return weight.t() if isinstance(weight, torch.Tensor) and weight.dim() == 2 else argument
    if isinstance(argument, fx.Node) and argument.op == "get_attr":
        value = attribute_of(argument.graph.owning_module, argument.target)
        return value if isinstance(value, torch.Tensor) and not isinstance(value, FakeTensor) else argument
    if isinstance(argument, fx.Node) and HELD_BY_MODULE in argument.meta:
        return example_of(argument)
    return argument


def storages_of(part: Layer | BatchNorm) -> Iterator[tuple[str, int]]:
    """The name and storage of each weight that is a tensor of the module."""
    for (name, weight), given in zip_longest(part.weights.items(), part.given.values()):
        if isinstance(weight, FakeTensor):
            source = given if given.op == "placeholder" else given.args[0]
            yield name, source.meta[HELD_BY_MODULE]
        elif isinstance(weight, torch.Tensor):
            yield name, weight.untyped_storage()._cdata
