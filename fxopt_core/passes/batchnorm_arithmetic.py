"""Batch normalisation in evaluation as a scale and a shift of each channel, and what they make of weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch


class ChannelAffine(NamedTuple):
    """`y[:, c] = scale[c] * x[:, c] + shift[c]`.

    Attributes:
        scale: one for each channel.
        shift: likewise.
    """

    scale: torch.Tensor
    shift: torch.Tensor

    def after(self, first: ChannelAffine) -> ChannelAffine:
        """First `first`, then this."""
        return ChannelAffine(self.scale * first.scale, self.scale * first.shift + self.shift)


def ahead(tensor: torch.Tensor) -> torch.Tensor:
    """For what is computed once, ahead: in float64 on the CPU (not every device has float64), without gradients."""
    return tensor.detach().to("cpu", torch.float64)


def at_each_call(tensor: torch.Tensor) -> torch.Tensor:
    """For what is computed at each call: where the tensor is, at least in float32, with gradients."""
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def batch_norm_affine(
    mean: torch.Tensor,
    variance: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    eps: float,
    widen: Callable[[torch.Tensor], torch.Tensor] = ahead,
) -> ChannelAffine:
    """What batch normalisation with fixed statistics does.

    `(x - mean) / sqrt(variance + eps) * weight + bias` is `scale * x + shift` with
    `scale = weight / sqrt(variance + eps)` and `shift = bias - mean * scale` (Ioffe and Szegedy 2015,
    arXiv:1502.03167, algorithm 2). No weight means 1, no bias means 0.

    Args:
        mean: of shape (channels,), as all of these are.
        variance: the running variance.
        weight: the learnt factor, if there is one.
        bias: the learnt summand, if there is one.
        eps: is added to the variance.
        widen: gives each tensor the precision in which to compute.
    """
    scale = torch.rsqrt(widen(variance) + eps)
    if weight is not None:
        scale = scale * widen(weight)
    shift = -widen(mean) * scale
    return ChannelAffine(scale, shift if bias is None else shift + widen(bias))


def fold(
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    affine: ChannelAffine,
    *,
    transposed: bool,
    groups: int,
    widen: Callable[[torch.Tensor], torch.Tensor] = ahead,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Weight and bias of the layer that computes the given layer and then `affine`.

    The result is rounded once to the dtype of `weight`; its weight has the strides of the given one if that is dense.

    Args:
        weight: of shape (output channels, input channels / groups, ...); for a transposed layer of shape
            (input channels, output channels / groups, ...).
        bias: of shape (output channels,), or `None` for 0.
        affine: what follows, for each output channel.
        transposed: whether output channels are in the second dimension of the weight, for each group anew.
        groups: into how many parts that know nothing of each other the channels are divided.
        widen: gives each tensor the precision in which to compute.
    """
    scale = affine.scale
    ones = [1] * (weight.dim() - 2)
    if transposed:
        # Row i of the weight belongs to group i // (rows / groups), and reaches that group's output channels only.
        rows = weight.shape[0]
        scale = scale.reshape(groups, 1, -1).expand(-1, rows // groups, -1).reshape(rows, -1, *ones)
    else:
        scale = scale.reshape(-1, 1, *ones)
    folded = widen(weight) * scale
    shift = affine.shift if bias is None else affine.scale * widen(bias) + affine.shift
    return folded.to(weight), shift.to(weight)
