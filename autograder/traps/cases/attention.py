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


@refused(by_check=False)
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


@fused(peer_rules=_masked(1.0))
def mask_that_hides_a_whole_row() -> Program:
    """A row of −inf is NaN after a softmax, and zero after PyTorch's operator: it has to stay NaN."""
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


@refused(tolerance=1e-3, by_check=False)
def half_precision() -> Program:
    """In bfloat16 the fused operator rounds elsewhere."""
    inputs = [torch.randn(2, 3, 5, 4).bfloat16() for _ in range(3)]
    return attention(lambda q, k, v: torch.softmax(q @ k.transpose(-2, -1), -1) @ v, *inputs)


@refused()
def scale_that_is_a_tensor() -> Program:
    """The scale is an input, and gradients flow to it."""
    inputs = (torch.randn(2, 3, 5, 4), torch.randn(2, 3, 6, 4), torch.randn(2, 3, 6, 4), torch.tensor(0.5))
    return attention(lambda q, k, v, s: torch.softmax(q @ k.transpose(-2, -1) * s, -1) @ v, *inputs)


@fused()
def nan_in_one_query() -> Program:
    """PyTorch's operator gives 0 where a short row of scores is NaN."""
    inputs = (torch.randn(2, 3, 5, 4), torch.randn(2, 3, 6, 4), torch.randn(2, 3, 6, 4))
    inputs[0][0, 0, 1, 3] = torch.nan
    return attention(lambda q, k, v: torch.softmax(q @ k.transpose(-2, -1), -1) @ v, *inputs)


@fused()
def scores_that_overflow_before_they_are_scaled() -> Program:
    """Infinite scores give NaN; scaled first they would be finite."""
    inputs = (torch.randn(2, 3, 5, 4) * 1e20, torch.randn(2, 3, 6, 4) * 1e20, torch.randn(2, 3, 6, 4))
    return attention(lambda q, k, v: torch.softmax(q @ k.transpose(-2, -1) * 1e-5, -1) @ v, *inputs)


@fused()
def minus_infinity_filled_into_whole_rows() -> Program:
    """What is hidden comes from the caller, who may hide everything."""
    hidden = torch.rand(5, 6) > 0.5
    hidden[2] = True
    inputs = (torch.randn(2, 3, 5, 4), torch.randn(2, 3, 6, 4), torch.randn(2, 3, 6, 4), hidden)
    return attention(
        lambda q, k, v, m: torch.softmax((q @ k.transpose(-2, -1)).masked_fill(m, -float("inf")), -1) @ v, *inputs
    )


@fused()
def minus_a_million_filled_into_whole_rows() -> Program:
    """Where all is hidden by a finite number, all keys count alike."""
    hidden = torch.rand(5, 6) > 0.5
    hidden[2] = True
    inputs = (torch.randn(2, 3, 5, 4), torch.randn(2, 3, 6, 4), torch.randn(2, 3, 6, 4), hidden)
    return attention(lambda q, k, v, m: torch.softmax((q @ k.transpose(-2, -1)).masked_fill(m, -1e6), -1) @ v, *inputs)


@fused()
def causal_mask_of_minus_infinity() -> Program:
    """Each row of the constant leaves something."""
    inputs = [torch.randn(2, 3, 5, 4) for _ in range(3)]
    return attention(
        lambda q, k, v: (
            torch.softmax(q @ k.transpose(-2, -1) + torch.triu(torch.full((5, 5), -float("inf")), 1), -1) @ v
        ),
        *inputs,
    )


@fused()
def einsum_with_heads_behind() -> Program:
    """The result lies in memory as einsum lays it."""
    inputs = [torch.randn(2, 5, 3, 4) for _ in range(3)]

    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / 2
        return torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), v)

    return attention(function, *inputs)


@fused()
def where_with_a_causal_mask() -> Program:
    """What is kept stands in the condition."""
    inputs = [torch.randn(2, 3, 5, 4) for _ in range(3)]
    return attention(
        lambda q, k, v: (
            torch.softmax(torch.where(torch.tril(torch.ones(5, 5)) > 0, q @ k.transpose(-2, -1), -1e9), -1) @ v
        ),
        *inputs,
    )


@refused(by_check=False)
def einsum_that_sums_over_the_queries() -> Program:
    """With as many queries as keys only the letters tell."""
    inputs = [torch.randn(2, 3, 5, 4) for _ in range(3)]

    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.einsum("bhqk,bhqd->bhkd", torch.einsum("bhqd,bhkd->bhqk", q, k).softmax(-1), v)

    return attention(function, *inputs)


@refused()
def other_values_in_the_masked_places() -> Program:
    """What stands in the masked places is a whole tensor, and counts."""
    inputs = (torch.randn(2, 3, 5, 4), torch.randn(2, 3, 6, 4), torch.randn(2, 3, 6, 4), torch.randn(5, 6))
    return attention(lambda q, k, v, m: torch.softmax(torch.where(m > 0, q @ k.transpose(-2, -1), m), -1) @ v, *inputs)


@refused(by_check=False)
def where_the_scores_are_the_condition() -> Program:
    """The scores choose among others, and are not masked."""
    inputs = [torch.randn(2, 3, 5, 4) for _ in range(3)]

    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        scores = q @ k.transpose(-2, -1)
        return torch.softmax(torch.where(scores > 0, torch.ones(5, 5), -torch.ones(5, 5)), -1) @ v

    return attention(function, *inputs)


@refused(by_check=False)
def scores_that_are_capped() -> Program:
    """A tanh stands between, as in Gemma 2."""
    return attention(lambda q, k, v: torch.softmax((q @ k.transpose(-2, -1) / 5).tanh() * 5, -1) @ v)


@refused()
def scores_that_a_caller_writes() -> Program:
    """What is returned before the mask is written into it has the mask, too."""

    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        scores = q @ k.transpose(-2, -1)
        masked = scores.masked_fill_(torch.triu(torch.ones(5, 6), 1) > 0, -1e9)
        return torch.softmax(masked, -1) @ v, scores

    return attention(function)


@refused()
def values_written_in_between() -> Program:
    """The weights are computed before the mask is written, and the product after."""

    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
        weights = torch.softmax(q @ k.transpose(-2, -1) + m, -1)
        m.add_(1)
        q.mul_(2)
        return weights @ v

    inputs = (torch.randn(2, 3, 5, 4), torch.randn(2, 3, 6, 4), torch.randn(2, 3, 6, 4), torch.randn(5, 6))
    return attention(function, *inputs)


TRAPS = trap.traps
