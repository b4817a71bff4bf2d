"""Attention as one operator, which is the formula again wherever the fused kernel would do something else."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import fx, nn
from torch.nn import functional

from fxopt_core.graphs.fused_operators import is_plain, is_watched

PRECISIONS = (torch.float32, torch.float64)
"""In fewer bits the fused kernel rounds elsewhere, by more than a caller may be asked to accept."""

WORTHWHILE = 2**18
"""From how many scores on looking at the inputs and the kernel together take no longer than the formula."""

ROUNDED = 2.0**-16
"""By so much a score may be off because a mask was added to it, at most."""


class Operand(NamedTuple):
    """Query, keys or value.

    Attributes:
        input: which of the module's inputs it is.
        order: its dimensions in the order batch..., positions, features.
    """

    input: int
    order: tuple[int, ...]


class MaskStep(NamedTuple):
    """One thing that is done to the scores before the softmax.

    Attributes:
        input: which of the module's inputs is the mask.
        kind: `add` or `sub` it; or `fill` the scores where it is true; or `keep` them where it is true and fill the
            others.
        value: what is filled in: a number, or which of the module's inputs holds it.
        factor: by what the scores are multiplied after this step.
    """

    input: int
    kind: str
    value: float | Operand | None = None
    factor: float = 1.0


class FusedAttention(nn.Module):
    """Attention: by PyTorch's fused kernel where that gives what the formula gives, and else by the formula itself.

    The kernel of the CPU makes 0 of NaN in some rows, and of rows that are masked throughout; its gradients are wrong
    where all scores of a row are large (the logarithm of the sum gets lost in them), it cannot be differentiated
    twice, nor forwards. So each call looks at its inputs. The kernel takes over if no derivative, autocast or
    transform is at work, and if it is certain that all the numbers it meets are finite: with |q| and |k| the largest
    Euclidean norms of a query and of a key, no score and no part of the sum for one is above |q| |k| (Cauchy and
    Schwarz), and a norm of NaN or infinity is none itself. Of each row of the mask one score must be left to attend
    to, and what is filled in instead of -inf must be so far below it that its exponential is 0. For Dynamo,
    AOTAutograd and `torch.export` it is the formula, and for few scores, where the kernel is no faster.

    On devices with a queue of their own, looking at the inputs waits for the queue.

    Args:
        written: the formula: a graph of the module's inputs that gives the result.
        query: the queries, of 2 to 4 dimensions, in single or double precision.
        key: the keys.
        value: the values.
        scale: by what the scores are multiplied.
        mask: what else is done to the scores, in order.
        order: where each dimension of the result comes from, among batch..., positions, features.
        layout: the dimensions of the result from the outermost to the innermost, as they lie in memory.
    """

    def __init__(
        self,
        written: fx.GraphModule,
        query: Operand,
        key: Operand,
        value: Operand,
        scale: float,
        mask: Sequence[MaskStep],
        order: tuple[int, ...],
        layout: tuple[int, ...],
    ) -> None:
        super().__init__()
        self.written = written
        self.operands = (query, key, value)
        self.scale = scale
        self.mask = tuple(mask)
        self.order = order
        self.layout = layout

    def extra_repr(self) -> str:
        """What `print` shows."""
        return f"scale={self.scale}, mask={', '.join(step.kind for step in self.mask) or None}"

    def forward(self, *inputs: Any) -> torch.Tensor:
        """The result of the formula for these inputs."""
        tensors = tuple(value for value in inputs if not isinstance(value, (int, float)))
        plain = not torch.compiler.is_compiling() and all(map(is_plain, tensors)) and not is_watched(tensors)
        result = self._fused(inputs) if plain and len({tensor.device for tensor in tensors}) == 1 else None
        return self.written(*inputs) if result is None else result

    def _fused(self, inputs: Sequence[Any]) -> torch.Tensor | None:
        """The result by the kernel; `None` where it might not be that of the formula."""
        query, key, value = (inputs[each.input].permute(each.order) for each in self.operands)
        if query.dtype not in PRECISIONS or not query.dtype == key.dtype == value.dtype:
            return None
        if not query.shape[:-2] == key.shape[:-2] == value.shape[:-2]:
            return None
        scores = (*query.shape[:-1], key.shape[-2])
        if math.prod(scores) < WORTHWHILE or 0 in (*query.shape, *key.shape, *value.shape):
            return None
        if query.is_cuda and torch.cuda.is_current_stream_capturing():
            return None
        # Roots, so that the largest sums of products of such numbers are finite, however large the tensors are.
        limit = math.sqrt(torch.finfo(query.dtype).max)
        reach = float(_longest(query) * _longest(key)) * (1 + 1e-3)
        scaled = reach * abs(self.scale)
        if not (reach < limit and scaled < limit and float(torch.linalg.vector_norm(value)) < limit):
            return None
        mask = None
        if self.mask:
            mask = self._combined(inputs, query.dtype, scaled)
            if mask is None or torch.broadcast_shapes(mask.shape, scores) != scores:
                return None
            mask = mask.expand(torch.broadcast_shapes(mask.shape, scores[-2:]))[(None,) * (4 - max(2, mask.dim()))]
        # The kernel of the CPU takes a batch of heads.
        missing = (None,) * (4 - query.dim())
        attended = functional.scaled_dot_product_attention(
            query[missing], key[missing], value[missing], mask, scale=self.scale
        )
        result = attended[(0,) * len(missing)].permute(self.order)
        return torch.empty_permuted(result.shape, self.layout, dtype=result.dtype, device=result.device).copy_(result)

    def _combined(self, inputs: Sequence[Any], dtype: torch.dtype, reach: float) -> torch.Tensor | None:
        """One mask to add for all steps; `None` where a row has nothing left to attend to, or may have.

        Args:
            inputs: of the module.
            dtype: of the scores.
            reach: the scores are between this and its negative.
        """
        eps, least, most = torch.finfo(dtype).eps, torch.finfo(dtype).min, ROUNDED / torch.finfo(dtype).eps
        added: torch.Tensor | None = None
        blocked: torch.Tensor | None = None
        filled: list[float] = []
        for step in self.mask:
            mask = inputs[step.input]
            if step.kind in ("add", "sub"):
                mask = mask * (step.factor if step.kind == "add" else -step.factor)
                top = float(mask.amax())
                if mask.dtype != dtype or not top <= most:
                    return None
                added = mask if added is None else added + mask
                filled = [value + max(0.0, top) for value in filled]
            else:
                if mask.dtype != torch.bool:
                    return None
                mask = mask if step.kind == "fill" else ~mask
                blocked = mask if blocked is None else blocked | mask
                value: Any = inputs[step.value.input] if isinstance(step.value, Operand) else step.value
                filled.append(float(value) * step.factor)
        if blocked is not None:
            base = torch.zeros((), dtype=dtype, device=blocked.device) if added is None else added
            added = torch.where(blocked, -math.inf, base)
        assert added is not None
        best = added.amax(-1)
        # Where even the best of a row is far below zero, either the scores vanish in it, or it swallows their last
        # digits, in one version other than in the other.
        certain = (best >= least) & ((best.abs() <= most) | (best.abs() * eps / 4 > reach))
        # Below that the exponential is 0. Where one of the numbers is NaN, nothing holds.
        vanishing = float(best.amin()) - reach + math.log(torch.finfo(dtype).tiny * eps) - 1
        return added if bool(certain.all()) and all(value < vanishing for value in filled) else None


def _longest(vectors: torch.Tensor) -> torch.Tensor:
    """The largest Euclidean norm along the last dimension."""
    return torch.linalg.vector_norm(vectors, dim=-1).amax()
