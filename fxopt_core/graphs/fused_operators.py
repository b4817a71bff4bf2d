"""Operators that passes put into graphs in place of several."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd import forward_ad
from torch.nn import Parameter, functional
from torch.overrides import handle_torch_function, has_torch_function

ACTIVATIONS: dict[tuple[str, str], Callable[[torch.Tensor], torch.Tensor]] = {
    ("relu", ""): functional.relu,
    ("gelu", "none"): functional.gelu,
    ("gelu", "tanh"): lambda value: functional.gelu(value, approximate="tanh"),
}
"""What may follow a linear layer, by its name and algorithm in oneDNN."""


def linear_activation(
    input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, activation: str, algorithm: str
) -> torch.Tensor:
    """A linear layer and the activation after it: gelu in one kernel of oneDNN where it fits, relu in place.

    The kernel has no derivative, does not follow autocast or the transforms of `torch.func`, and takes plain float32
    tensors on the CPU, of shapes that broadcast nothing. So each call decides anew, as
    `torch.nn.TransformerEncoderLayer` does for its fast path. The kernel's relu would make 0 of NaN; in place, where
    the layer has just written its result, relu keeps every bit and saves a second tensor, and derivatives of every
    order stay. For Dynamo, AOTAutograd and `torch.export` it is the two operators again.

    Args:
        input: (..., in_features).
        weight: (out_features, in_features).
        bias: (out_features,), or nothing.
        activation: `relu` or `gelu`.
        algorithm: of gelu: `none` or `tanh`; of relu empty.

    Returns:
        (..., out_features), contiguous, with storage of its own.
    """
    tensors = (input, weight) if bias is None else (input, weight, bias)
    if has_torch_function(tensors):  # such as what torch.fx traces with, when a saved graph is loaded
        told: torch.Tensor = handle_torch_function(
            linear_activation, tensors, input, weight, bias, activation, algorithm
        )
        return told
    # A compiler fuses the two in its own way, and sees through none of what follows.
    compiled = torch.compiler.is_compiling()
    if not compiled and all(map(is_plain, tensors)):
        if activation == "relu":
            return functional.linear(input, weight, bias).relu_()
        if _fits(input, weight, bias) and not is_watched(tensors):
            fused: torch.Tensor = torch.ops.mkldnn._linear_pointwise(input, weight, bias, activation, [], algorithm)
            return fused
    return ACTIVATIONS[activation, algorithm](functional.linear(input, weight, bias))


def is_plain(tensor: Any) -> bool:
    """Whether a value is a dense tensor with data, and of no subclass that sees what is called."""
    return type(tensor) in (torch.Tensor, Parameter) and tensor.layout == torch.strided and tensor.device.type != "meta"


def _fits(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> bool:
    """Whether oneDNN, where it is there and switched on, takes the tensors. It takes no sums of nothing."""
    return (
        torch.backends.mkldnn.is_available()
        and torch._C._get_mkldnn_enabled()
        and all(
            tensor is None or (tensor.device.type, tensor.dtype) == ("cpu", torch.float32)
            for tensor in (input, weight, bias)
        )
        and input.dim() > 0
        and weight.dim() == 2
        and input.numel() > 0
        and input.shape[-1] == weight.shape[1]
        and (bias is None or bias.shape == weight.shape[:1])
    )


def is_watched(tensors: tuple[torch.Tensor, ...]) -> bool:
    """Whether derivatives, autocast or a transform need to see the operators one by one."""
    return (
        (torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors))
        or any(torch.is_autocast_enabled(kind) for kind in {tensor.device.type for tensor in tensors})
        or torch._C._are_functorch_transforms_active()
        or forward_ad._current_level >= 0
    )
