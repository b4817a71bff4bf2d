"""Of gradients that overflow: another order of a sum is the same, everything else is not."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from fxopt_core.verification import Tolerance, check_equivalence
from fxopt_core.verification.comparison import scale_against_overflow, with_overflow_forgiven

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
Backward = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class Repeated(nn.Module):
    """`f + f + f - f - f` with `f = relu(layer(x))`: computed five times, or once.

    Five gradients of the weight, each near the largest number, overflow before they cancel; the one of one `f` does
    not.
    """

    def __init__(self, dtype: torch.dtype, backward: Backward | None = None, *, once: bool = False) -> None:
        super().__init__()
        self.layer = nn.Linear(16, 16, dtype=dtype)
        with torch.no_grad():
            for seed, parameter in enumerate(self.parameters()):
                generator = torch.Generator().manual_seed(seed)
                parameter.copy_(torch.randn(parameter.shape, generator=generator) / 4)
        self.once, self.backward = once, backward

    def one(self, x: torch.Tensor) -> torch.Tensor:
        """What is repeated."""
        value = self.layer(x).relu()
        return value if self.backward is None else Changed.apply(value, self.backward)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`[batch, 16]` to `[batch, 16]`."""
        a, b, c, d, e = [self.one(x)] * 5 if self.once else [self.one(x) for _ in range(5)]
        return a + b + c - d - e


class Changed(torch.autograd.Function):
    """The identity, with a backward pass of its own."""

    @staticmethod
    def forward(context: Any, value: torch.Tensor, backward: Backward) -> torch.Tensor:
        context.save_for_backward(value)
        context.how = backward
        return value.clone()

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        return context.how(gradient, *context.saved_tensors), None


def inputs(dtype: torch.dtype) -> tuple[torch.Tensor]:
    return (torch.randn(16, 16, generator=torch.Generator().manual_seed(1)).to(dtype),)


def overflows(one: nn.Module, other: nn.Module, x: torch.Tensor) -> bool:
    """Whether the gradients are infinite or NaN in other places, for a large input."""
    places = []
    for module in (one, other):
        module(x / x.abs().max() * torch.finfo(x.dtype).max).sum().backward()
        places.append(module.layer.weight.grad.isfinite())
    return not torch.equal(*places)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_same_sum_in_another_order_is_the_same(dtype: torch.dtype) -> None:
    assert overflows(Repeated(dtype), Repeated(dtype, once=True), *inputs(dtype))
    found = check_equivalence(Repeated(dtype), Repeated(dtype, once=True), inputs(dtype))
    assert found.equal, str(found)
    assert "special values" in found.cases
    assert check_equivalence(Repeated(dtype, once=True), Repeated(dtype), inputs(dtype)).equal


def huge(value: torch.Tensor) -> torch.Tensor:
    return value > torch.finfo(value.dtype).max / 64


WRONG: dict[str, Backward] = {
    "NaN for ordinary values": lambda gradient, value: torch.where(value > 1, math.nan, gradient),
    "infinite for ordinary values": lambda gradient, value: torch.where(value > 1, math.inf, gradient),
    "NaN where the value is huge": lambda gradient, value: torch.where(huge(value), math.nan, gradient),
    "infinite where the value is huge": lambda gradient, value: torch.where(huge(value), math.inf, gradient),
    "0 where the value is huge": lambda gradient, value: torch.where(huge(value), 0.0, gradient),
    "too large where the value is huge": lambda gradient, value: torch.where(huge(value), 1.5 * gradient, gradient),
    "another sign where the value is huge": lambda gradient, value: torch.where(huge(value), -gradient, gradient),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_wrong_gradient_is_seen_where_others_overflow(dtype: torch.dtype, wrong: str) -> None:
    found = check_equivalence(Repeated(dtype), Repeated(dtype, WRONG[wrong], once=True), inputs(dtype))
    assert {one.what for one in found.differences} == {"gradient"}, str(found)
    assert found.cases[-1] == ("as given" if "ordinary" in wrong else "special values")


class Hidden(torch.autograd.Function):
    """`f * g` of two numbers, whose gradient says 0 where it is not finite."""

    @staticmethod
    def forward(context: Any, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        context.save_for_backward(one, other)
        return one * other

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        one, other = context.saved_tensors
        return (gradient * other).nan_to_num(0, 0, 0), (gradient * one).nan_to_num(0, 0, 0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_infinities_and_overflows_that_are_hidden_are_seen(dtype: torch.dtype) -> None:
    given = tuple(tensor.requires_grad_() for tensor in (*inputs(dtype), inputs(dtype)[0].flip(0)))
    found = check_equivalence(torch.mul, Hidden.apply, given)
    assert {one.what for one in found.differences} == {"gradient"}, str(found)


@pytest.mark.parametrize("dtype", DTYPES)
def test_overflow_in_the_inputs_that_are_given_counts(dtype: torch.dtype) -> None:
    large = (inputs(dtype)[0] / 4 * torch.finfo(dtype).max,)
    found = check_equivalence(Repeated(dtype), Repeated(dtype, once=True), large, adversarial=False)
    assert not found.equal


@pytest.mark.parametrize("dtype", DTYPES)
def test_only_what_an_overflow_explains_is_forgiven(dtype: torch.dtype) -> None:
    scale = scale_against_overflow(
        [torch.ones(1, dtype=dtype), torch.ones(1, dtype=torch.float64), torch.ones(1).int()]
    )
    top = torch.finfo(dtype).max
    table = [  # got, wanted, both in small numbers, forgiven
        (math.inf, 0.5 * top, 0.5 * top * scale, 0.5 * top * scale, True),
        (0.5 * top, math.nan, 0.5 * top * scale, 0.5 * top * scale, True),
        (math.inf, math.nan, 2 * top * scale, 2 * top * scale, True),
        (math.inf, math.nan, math.inf, math.nan, True),
        (math.inf, 0.5 * top, math.inf, 0.5 * top * scale, False),
        (math.nan, 0.5 * top, math.nan, 0.5 * top * scale, False),
        (0.5 * top, math.inf, 0.5 * top * scale, math.inf, False),
        (math.inf, -math.inf, math.inf, -math.inf, False),
        (math.inf, 0.5 * top, 2 * top * scale, 0.5 * top * scale, False),
        (0.0, math.inf, 2 * top * scale, 2 * top * scale, False),  # finite, and not what it should be
        (top, math.inf, 2 * top * scale, 2 * top * scale, False),
        (1.0, 2.0, 1.0 * scale, 1.0 * scale, False),  # both finite: nothing to forgive
    ]
    for got, want, small_got, small_want, forgiven in table:
        values = [torch.tensor([value], dtype=dtype) for value in (got, want, small_got, small_want)]
        kept = with_overflow_forgiven(values[0], values[1], (values[2], values[3]), scale, None)
        assert (repr(kept), kept.dtype) == (repr(values[1] if forgiven else values[0]), dtype), (got, want)


def test_the_scale_follows_the_narrowest_dtype_and_is_a_power_of_two() -> None:
    assert [scale_against_overflow([torch.ones(1, dtype=one)]) for one in DTYPES] == [2**-8, 2**-64, 2**-64, 2**-512]
    assert scale_against_overflow([torch.ones(1), torch.ones(1).half(), torch.ones(1).long()]) == 2**-8
    assert scale_against_overflow([]) == 1


def test_a_tolerance_that_is_given_counts_for_small_numbers_too() -> None:
    given = [torch.tensor([value]) for value in (math.inf, 1.0, 1.01, 1.0)]
    strict, wide = (
        with_overflow_forgiven(given[0], given[1], (given[2], given[3]), 1.0, Tolerance(relative=share)).item()
        for share in (1e-3, 1e-1)
    )
    assert (strict, wide) == (math.inf, 1.0)
