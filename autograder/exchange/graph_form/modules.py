"""Modules of `torch.nn` that a `call_module` node may call: rebuilt from constructor arguments and state."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import nn

from autograder.exchange.graph_form.format import GraphFormatError, shown, words

_NAMES = words(
    "Identity Linear Bilinear Flatten Unflatten Embedding EmbeddingBag "
    "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d Fold Unfold "
    "BatchNorm1d BatchNorm2d BatchNorm3d InstanceNorm1d InstanceNorm2d InstanceNorm3d GroupNorm LayerNorm RMSNorm "
    "LocalResponseNorm Dropout Dropout1d Dropout2d Dropout3d AlphaDropout FeatureAlphaDropout "
    "MaxPool1d MaxPool2d MaxPool3d AvgPool1d AvgPool2d AvgPool3d LPPool1d LPPool2d "
    "AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d AdaptiveMaxPool2d AdaptiveMaxPool3d "
    "ReflectionPad1d ReflectionPad2d ReflectionPad3d ReplicationPad1d ReplicationPad2d ReplicationPad3d "
    "ZeroPad1d ZeroPad2d ZeroPad3d ConstantPad1d ConstantPad2d ConstantPad3d "
    "CircularPad1d CircularPad2d CircularPad3d PixelShuffle PixelUnshuffle ChannelShuffle Upsample "
    "UpsamplingNearest2d UpsamplingBilinear2d CosineSimilarity PairwiseDistance "
    "ELU CELU GELU GLU Hardshrink Hardsigmoid Hardswish Hardtanh LeakyReLU LogSigmoid LogSoftmax Mish PReLU ReLU ReLU6 "
    "SELU SiLU Sigmoid Softmax Softmax2d Softmin Softplus Softshrink Softsign Tanh Tanhshrink Threshold "
    "L1Loss MSELoss CrossEntropyLoss NLLLoss BCELoss BCEWithLogitsLoss SmoothL1Loss HuberLoss KLDivLoss "
    "RNN LSTM GRU MultiheadAttention"
)

CLASSES: dict[str, type[nn.Module]] = {name: getattr(nn, name) for name in _NAMES if hasattr(nn, name)}
"""Classes by the name under which `torch.nn` has them."""

# Where a module keeps them is not where the constructor takes them, or its state replaces them anyway.
_NOT_RECOVERED = {"self", "device", "dtype", "args", "kwargs", "size_average", "reduce"}
_REPLACED_BY_STATE = {
    "Embedding": {"_weight", "_freeze"},
    "EmbeddingBag": {"_weight"},
    "PReLU": {"init"},
    "CrossEntropyLoss": {"weight"},
    "NLLLoss": {"weight"},
    "BCELoss": {"weight"},
    "BCEWithLogitsLoss": {"weight", "pos_weight"},
    "Hardtanh": {"min_value", "max_value"},
}
_RECURRENT = ("input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout", "bidirectional")
_ARGUMENTS = {
    "Identity": (),
    "RNN": (*_RECURRENT, "nonlinearity"),
    "LSTM": (*_RECURRENT, "proj_size"),
    "GRU": _RECURRENT,
    "MultiheadAttention": (
        "embed_dim", "num_heads", "dropout", "bias", "add_bias_kv", "add_zero_attn", "kdim", "vdim", "batch_first",
    ),
}  # fmt: skip
_HOOKS = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_backward_hooks",
    "_backward_pre_hooks",
)


def argument_names(name: str) -> tuple[str, ...]:
    """Constructor arguments that are encoded for the class `name`."""
    if name in _ARGUMENTS:
        return _ARGUMENTS[name]
    left_out = _NOT_RECOVERED | _REPLACED_BY_STATE.get(name, set())
    parameters = inspect.signature(CLASSES[name].__init__).parameters.values()
    return tuple(
        p.name for p in parameters if p.name not in left_out and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    )


def describe_module(module: nn.Module, where: str) -> tuple[str, dict[str, Any]]:
    """The class name and the constructor arguments from which `build_module` makes a module like `module`.

    Raises:
        GraphFormatError: the class is not on the allow-list, or the module carries Python code of its own.
    """
    name = type(module).__name__
    if CLASSES.get(name) is not type(module):
        raise GraphFormatError(
            f"{where}: a module of class {type(module).__module__}.{type(module).__qualname__} cannot be encoded; "
            "expected a basic module of torch.nn: trace into it, so that its operations are nodes of the graph"
        )
    for part in module.modules():
        if any(getattr(part, hooks, None) for hooks in _HOOKS):
            raise GraphFormatError(f"{where}: the module has hooks, which are code and cannot be encoded: remove them")
        if "forward" in vars(part):
            raise GraphFormatError(f"{where}: the module has a forward of its own, which is code and cannot be encoded")
    return name, {argument: _argument(module, argument) for argument in argument_names(name)}


def _argument(module: nn.Module, argument: str) -> Any:
    if isinstance(module, nn.MultiheadAttention):
        if argument == "bias":
            return module.in_proj_bias is not None
        if argument == "add_bias_kv":
            return module.bias_k is not None
    value = getattr(module, argument)
    # `bias` is asked for as a flag and kept as a parameter or None.
    return value is not None if argument == "bias" and type(value) is not bool else value


def build_module(name: Any, arguments: dict[str, Any], state_names: set[str], where: str) -> nn.Module:
    """A module of `torch.nn` whose parameters and buffers have no values yet (they are on the device `meta`).

    Args:
        name: the class.
        arguments: constructor arguments, decoded.
        state_names: the parameters and buffers that the document holds for it.
        where: what to name in messages.

    Raises:
        GraphFormatError: the class or an argument is not accepted, or its state is another one.
    """
    if type(name) is not str or name not in CLASSES:
        raise GraphFormatError(f"{where}: the module class {shown(name)} is not on the allow-list")
    if set(arguments) != set(argument_names(name)):
        raise GraphFormatError(
            f"{where}: {name} takes {', '.join(argument_names(name)) or 'no arguments'}, got {shown(sorted(arguments))}"
        )
    # Each layer of a recurrent module has parameters: without this a large number would loop for ever.
    layers = arguments.get("num_layers", 0)
    if type(layers) is not int or layers > len(state_names):
        raise GraphFormatError(f"{where}: {shown(layers)} layers but {len(state_names)} parameters")
    try:
        with torch.device("meta"):
            module = CLASSES[name](**arguments)
    except Exception as error:  # each class checks its arguments in its own way
        raise GraphFormatError(f"{where}: {name} does not accept its arguments: {error}") from error
    for key in ("weight", "pos_weight"):
        if key in state_names and getattr(module, key, 0) is None and isinstance(module, nn.modules.loss._Loss):
            module.register_buffer(key, torch.empty(0, device="meta"))
    expected = {key for key, _ in module.named_parameters(remove_duplicate=False)}
    expected |= {key for key, _ in module.named_buffers(remove_duplicate=False)}
    if expected != state_names:
        raise GraphFormatError(
            f"{where}: {name} with these arguments has {', '.join(sorted(expected)) or 'no state'}, "
            f"the document holds {shown(sorted(state_names))}"
        )
    return module
