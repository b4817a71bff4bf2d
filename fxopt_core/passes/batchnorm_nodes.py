"""Convolutions, linear layers and batch normalisations, in whatever dialect of graphs they are written."""

from __future__ import annotations

import operator
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import fx, nn
from torch._subclasses.fake_tensor import FakeTensor

from fxopt_core.graphs.aliases import memory_of
from fxopt_core.graphs.arguments import arguments_of
from fxopt_core.graphs.examples import HELD_BY_MODULE, attribute_of, example_of
from fxopt_core.graphs.operations import Operations


@dataclass(frozen=True)
class Call:
    """A call with weights, be it of a module or of a function.

    Attributes:
        node: the call.
        input: what it is applied to.
        module: what it calls, at module level.
        given: the weights by name, as the call is given them or as the module holds them.
    """

    node: fx.Node
    input: Any
    module: nn.Module | None
    given: Mapping[str, Any]

    @cached_property
    def weights(self) -> dict[str, Any]:
        """Each weight by its name: a tensor of the graph's module, which has no data where Dynamo made an input of it.

        `None` where there is none; where it is computed or given by the caller, the node that gives it.
        """
        return {name: _weight(given) for name, given in self.given.items()}

    def memory(self) -> Iterator[tuple[str, Hashable]]:
        """The name of each weight that is a tensor of the module, and what `memory_of` says of it."""
        for name, weight in self.weights.items():
            if isinstance(weight, torch.Tensor):
                source = self.given[name]
                while isinstance(source, fx.Node) and source.args:
                    source = source.args[0]
                held = isinstance(source, fx.Node) and source.op == "placeholder"
                yield name, source.meta[HELD_BY_MODULE] if held else memory_of(weight)


@dataclass(frozen=True)
class Layer(Call):
    """A convolution or a linear layer: linear in its input, with output channels.

    Attributes:
        transposed: whether the output channels are in the second dimension of the weight.
        groups: of a convolution, else 1. At the functional level these two are whatever the call was given.
    """

    transposed: Any
    groups: Any

    @property
    def weight(self) -> Any:
        """Of `weights`."""
        return self.weights["weight"]

    @property
    def bias(self) -> Any:
        """Of `weights`."""
        return self.weights["bias"]

    @property
    def linear(self) -> bool:
        """Whether it is a linear layer, and no convolution or subclass, which may compute something else."""
        return LAYERS.get(self.node.target) in ("linear", "mm", "addmm") or type(self.module) is nn.Linear


@dataclass(frozen=True)
class BatchNorm(Call):
    """A batch normalisation. Its weights are running mean, running variance, learnt factor and summand, in this order.

    Attributes:
        values: the nodes that carry its result: itself, or what takes the first of its results.
        others: whether another of its results is used.
        training: whether it uses the statistics of the batch: what the call was given.
        eps: is added to the variance: what the call was given.
        dimensions: how many dimensions its input must have, where it insists.
    """

    values: tuple[fx.Node, ...]
    others: bool
    training: Any
    eps: Any
    dimensions: int | None


_LAYERS = "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d convolution linear"
_NORMS = "batch_norm native_batch_norm _native_batch_norm_legit_no_training"
_LAYER_MODULES = (nn.modules.conv._ConvNd, nn.Linear)
_NORM_MODULES: Mapping[type[nn.Module], int | None] = {
    nn.BatchNorm1d: None,  # takes 2 or 3
    nn.BatchNorm2d: 4,
    nn.BatchNorm3d: 5,
}

_STATISTICS = {
    "running_mean": "running mean",
    "running_var": "running variance",
    "weight": "weight of the normalisation",
    "bias": "bias of the normalisation",
}
"""The weights of a normalisation: what the argument is called, and what messages call it."""

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
    name, module, given = _read(node, LAYERS, _LAYER_MODULES)
    if name is None:
        return None
    if name in ("mm", "addmm"):
        # bias + input @ weight: the output channels are in the second dimension. With factors it is something else.
        if (given.get("beta", 1), given.get("alpha", 1)) != (1, 1) or "out_dtype" in given:
            return None
        source, bias = (given["mat1"], given["self"]) if name == "addmm" else (given["self"], None)
        given = {"input": source, "weight": given["mat2"], "bias": bias, "transposed": True}
    weights = {role: given.get(role) for role in ("weight", "bias")}
    transposed = given.get("transposed", name.startswith("conv_transpose"))
    return Layer(node, given.get("input"), module, weights, transposed, given.get("groups", 1))


def batch_norm_at(node: fx.Node) -> BatchNorm | None:
    """The batch normalisation that a node computes, if it does."""
    name, module, given = _read(node, NORMS, tuple(_NORM_MODULES))
    if name is None:
        return None
    weights = {words: given.get(role) for role, words in _STATISTICS.items()}
    several = module is None and name != "batch_norm"
    values, others = _first_results(node) if several else ((node,), False)
    dimensions = next((size for kind, size in _NORM_MODULES.items() if isinstance(module, kind)), None)
    training, eps = given.get("training", False), given.get("eps")
    return BatchNorm(node, given.get("input"), module, weights, values, others, training, eps, dimensions)


def _read(
    node: fx.Node, functions: Mapping[Any, str], modules: tuple[type[nn.Module], ...]
) -> tuple[str | None, nn.Module | None, dict[Any, Any]]:
    """The operation that a node calls, if it is one of these; the module that it calls; arguments by name.

    What a module holds are arguments too. A weight that it computes when asked (a parametrisation) is not asked for.
    """
    if node.op == "call_function" and node.target in functions:
        return functions[node.target], None, arguments_of(node.target, node.args, node.kwargs)
    module = attribute_of(node.graph.owning_module, node.target) if node.op == "call_module" else None
    if not isinstance(module, modules):
        return None, None, {}
    held = dict.fromkeys(_STATISTICS, NotImplemented) | vars(module) | module._buffers | module._parameters
    source = node.args[0] if node.args else next(iter(node.kwargs.values()), None)
    return type(module).__name__, module, held | {"input": source}


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
    others = {name: value for name, value in node.kwargs.items() if name not in ("input", "weight", "bias")}
    return node.target, (layer.input, weight, bias, *node.args[3:]), others


def _weight(argument: Any) -> Any:
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
