"""Attention written out: what is not the fused operator although it looks so, and what is."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from autograder.traps.trap import Collector, Program, aten, exported

trap = Collector("attention", "attention_fusion")

SDPA = (
    (
        lambda q, k, v: aten.matmul.default(aten.softmax.int(aten.matmul.default(q, k), -1), v),
        lambda q, k, v: aten.scaled_dot_product_attention.default(q, aten.transpose.int(k, -2, -1), v, scale=1.0),
    ),
)
"""Attention as a textbook has it, for the peer."""

fused = partial(trap, True, tolerance=1e-4, peer_rules=SDPA)
refused = partial(trap, False, tolerance=1e-4, peer_rules=SDPA)


class Attention(nn.Module):
    """A function of query, keys and values, as a model."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*inputs)


def attention(function: Callable[..., Any], *inputs: torch.Tensor) -> Program:
    """An exported model, with matmul and softmax as they are."""
    inputs = inputs or (torch.randn(2, 3, 5, 4), torch.randn(2, 3, 6, 4), torch.randn(2, 3, 6, 4))
    return exported(Attention(function), *inputs, decomposed=False), inputs


@fused()
def plain_attention() -> Program:
    """The plain case, without a scale."""
    return attention(lambda q, k, v: torch.softmax(q @ k.transpose(-2, -1), -1) @ v)


@fused()
def scaled_attention() -> Program:
    """With a scale, as a division."""
    return attention(lambda q, k, v: torch.softmax(q @ k.transpose(-2, -1) / 2.0, dim=-1) @ v)


@fused()
def dropout_that_is_off() -> Program:
    """In evaluation there is no dropout."""
    return attention(
        lambda q, k, v: functional.dropout(torch.softmax(q @ k.transpose(-2, -1), -1), 0.5, training=False) @ v
    )


@refused()
def dropout_that_is_on() -> Program:
    """In training the random stream moves otherwise."""
    return attention(lambda q, k, v: functional.dropout(torch.softmax(q @ k.transpose(-2, -1), -1), 0.5) @ v)


@refused()
def weights_that_are_returned() -> Program:
    """The attention weights are a result as well."""

    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        weights = torch.softmax(q @ k.transpose(-2, -1), -1)
        return weights @ v, weights

    return attention(function)


@refused(
    peer_rules=(
        (
            lambda q, k, v: aten.matmul.default(aten.softmax.int(aten.matmul.default(q, k), -2), v),
            lambda q, k, v: aten.scaled_dot_product_attention.default(q, aten.transpose.int(k, -2, -1), v, scale=1.0),
        ),
    )
)
def softmax_over_the_queries() -> Program:
    """With as many keys as queries no shape tells."""
    inputs = [torch.randn(2, 3, 5, 4) for _ in range(3)]
    return attention(lambda q, k, v: torch.softmax(q @ k.transpose(-2, -1), -2) @ v, *inputs)


@refused()
def heads_that_are_broadcast() -> Program:
    """One head of keys for three of queries: `matmul` broadcasts."""
    inputs = (torch.randn(2, 3, 5, 4), torch.randn(1, 1, 6, 4), torch.randn(2, 3, 6, 4))
    return attention(lambda q, k, v: torch.softmax(q @ k.transpose(-2, -1), -1) @ v, *inputs)


def _masked(scale: float) -> Any:
    return (
        (
            lambda q, k, v, m: aten.matmul.default(
                aten.softmax.int(aten.add.Tensor(aten.matmul.default(q, k), m), -1), v
            ),
            lambda q, k, v, m: aten.scaled_dot_product_attention.default(
                q, aten.transpose.int(k, -2, -1), v, m, scale=scale
            ),
        ),
    )


@refused(peer_rules=_masked(1.0))
def mask_that_hides_a_whole_row() -> Program:
    """A row of −inf is NaN after a softmax, and zero after the fused operator."""
    mask = torch.zeros(5, 6)
    mask[1] = -float("inf")
    inputs = (torch.randn(2, 3, 5, 4), torch.randn(2, 3, 6, 4), torch.randn(2, 3, 6, 4), mask)
    return attention(lambda q, k, v, m: torch.softmax(q @ k.transpose(-2, -1) + m, -1) @ v, *inputs)


@fused(peer_rules=_masked(1.0))
def mask_that_is_finite() -> Program:
    """A mask made in the graph of 0 and −10000."""
    inputs = (torch.randn(2, 3, 5, 4), torch.randn(2, 3, 6, 4), torch.randn(2, 3, 6, 4), torch.rand(5, 6) > 0.3)
    return attention(
        lambda q, k, v, keep: torch.softmax(q @ k.transpose(-2, -1) + torch.where(keep, 0.0, -1e4), -1) @ v,
        *inputs,
    )


@refused(tolerance=1e-3)
def half_precision() -> Program:
    """In bfloat16 the fused operator rounds elsewhere."""
    inputs = [torch.randn(2, 3, 5, 4).bfloat16() for _ in range(3)]
    return attention(lambda q, k, v: torch.softmax(q @ k.transpose(-2, -1), -1) @ v, *inputs)


@refused()
def scale_that_is_a_tensor() -> Program:
    """The scale is an input, and gradients flow to it."""
    inputs = (torch.randn(2, 3, 5, 4), torch.randn(2, 3, 6, 4), torch.randn(2, 3, 6, 4), torch.tensor(0.5))
    return attention(lambda q, k, v, s: torch.softmax(q @ k.transpose(-2, -1) * s, -1) @ v, *inputs)


TRAPS = trap.traps
