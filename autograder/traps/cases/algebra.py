"""Algebraic simplification: laws of real numbers that machine numbers break, and those that hold to the last bit."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import fx, nn

from autograder.traps.trap import Collector, Program, aten, exported, graph_of, numbers, recorded, traced, with_examples

trap = Collector("algebra", "algebraic_simplification")


def law(before: Callable[..., Any], after: Callable[..., Any]) -> dict[str, Any]:
    """A law as a textbook has it, for the peer."""
    return {"peer_rules": ((before, after),)}


TIMES_ONE = law(lambda x: aten.mul.Tensor(x, 1), lambda x: x)
TIMES_ONE_POINT = law(lambda x: aten.mul.Tensor(x, 1.0), lambda x: x)
PLUS_ZERO = law(lambda x: aten.add.Tensor(x, 0.0), lambda x: x)
TIMES_ZERO = law(lambda x: aten.mul.Tensor(x, 0), lambda x: aten.zeros_like.default(x))
MINUS_ITSELF = law(lambda x: aten.sub.Tensor(x, x), lambda x: aten.zeros_like.default(x))
OVER_ITSELF = law(lambda x: aten.div.Tensor(x, x), lambda x: aten.ones_like.default(x))
TWICE_NEGATIVE = law(lambda x: aten.neg.default(aten.neg.default(x)), lambda x: x)
NEGATIVE_FACTORS = law(
    lambda x, y: aten.mul.Tensor(aten.neg.default(x), aten.neg.default(y)), lambda x, y: aten.mul.Tensor(x, y)
)
NOT_LESS = law(lambda x, y: aten.bitwise_not.default(aten.lt.Tensor(x, y)), lambda x, y: aten.ge.Tensor(x, y))

refused = partial(trap, False)


def one(function: Callable[..., Any], x: torch.Tensor | None = None) -> Program:
    """A function of one tensor, recorded at ATen level."""
    inputs = (numbers(3, 4) if x is None else x,)
    return recorded(function, *inputs), inputs


def two(function: Callable[..., Any], x: torch.Tensor, y: torch.Tensor) -> Program:
    return recorded(function, x, y), (x, y)


@trap(True, left=1, keeps_metadata=True, **TIMES_ONE)
def times_one() -> Program:
    """The plain case."""
    return one(lambda x: torch.exp(x * 1))


@trap(True, left=2, **TWICE_NEGATIVE)
def three_negations() -> Program:
    """Two of three overlapping negations cancel."""
    return one(lambda x: torch.exp(torch.neg(torch.neg(-x))))


@trap(True, left=3, **TWICE_NEGATIVE)
def inner_negation_used_twice() -> Program:
    """The inner negation stays for its other user."""

    def function(x: torch.Tensor) -> torch.Tensor:
        negative = -x
        return torch.exp(-negative) * negative

    return one(function)


@refused(**TIMES_ONE_POINT)
def integer_times_one_point_zero() -> Program:
    """The product of an integer tensor and 1.0 has a fraction."""
    return one(lambda x: torch.exp(x * 1.0) + x, torch.arange(4))


@refused(**TIMES_ONE)
def truth_value_times_one() -> Program:
    """The product of a boolean tensor and 1 is an integer."""
    return one(lambda x: (x * 1) - 5, torch.tensor([True, False, True]))


@refused(**TIMES_ONE_POINT)
def dtype_that_is_not_known() -> Program:
    """At torch level, without examples: called with integers, `x * 1.0` is no integer."""
    module = traced(lambda x: torch.bitwise_and(torch.ceil(x * 1.0).to(torch.int64), 3) + x.abs() / 2)
    return module, (torch.arange(4),)


@refused(**PLUS_ZERO)
def plus_zero() -> Program:
    """−0.0 + 0.0 is 0.0, which the division shows."""
    return one(lambda x: torch.reciprocal(x + 0.0))


@trap(True, left=1, **law(lambda x: aten.add.Tensor(x, -0.0), lambda x: x))
def plus_negative_zero() -> Program:
    """x + −0.0 is x, to the last bit."""
    return one(lambda x: torch.reciprocal(x + -0.0))


@trap(True, left=1, **PLUS_ZERO)
def integer_plus_zero() -> Program:
    """Integers have one zero."""
    return one(lambda x: (x + 0) * x, torch.arange(4) - 2)


@refused(**TIMES_ZERO)
def times_zero() -> Program:
    """NaN and infinity times 0 are NaN, and −1 · 0 is −0.0."""
    return one(lambda x: torch.exp(x) + x * 0)


@trap(True, **TIMES_ZERO)
def integer_times_zero() -> Program:
    """For integers it holds."""
    return one(lambda x: x * 0 + x, torch.arange(4) - 2)


@refused(**MINUS_ITSELF)
def minus_itself() -> Program:
    """Infinity minus infinity is NaN."""
    return one(lambda x: torch.exp(x - x))


@refused(by_check=False, **OVER_ITSELF)
def over_itself() -> Program:
    """0 / 0 is NaN."""
    return one(lambda x: torch.exp(x / x))


@refused(options={"fast_math": True}, **MINUS_ITSELF)
def gradient_through_a_constant() -> Program:
    """Even with `fast_math` a constant must not stand for what takes part in autograd."""
    return one(lambda x: torch.exp(x - x))


@refused(**TIMES_ONE)
def product_that_is_returned() -> Program:
    """What is returned would be the input itself."""
    return one(lambda x: x * 1)


@refused(**TIMES_ONE)
def returned_twice() -> Program:
    """A value and the same times one are two tensors of the caller."""

    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        total = torch.exp(x)
        return total, total * 1

    return one(function)


@refused(**TIMES_ONE)
def returned_through_a_view() -> Program:
    """The same, where a view of the product is returned."""
    return one(lambda x: (x * 1).view(-1))


@refused(**TIMES_ONE)
def product_that_is_written() -> Program:
    """`y = x * 1; y += 1`: the write must not reach x."""

    def function(x: torch.Tensor) -> torch.Tensor:
        product = x * 1
        product.add_(1)
        return product * x

    return one(function)


@refused(**TIMES_ONE)
def operand_that_is_written() -> Program:
    """`y = x * 1; x += 1`: y is what x was."""

    def function(x: torch.Tensor) -> torch.Tensor:
        product = x * 1
        x.add_(1)
        return product * x

    return one(function)


@refused(**TIMES_ONE)
def product_of_an_expanded_tensor() -> Program:
    """x · 1 of an expanded tensor has memory of its own, and can be viewed flat."""
    return one(lambda x: (x.expand(3, 4) * 1).view(-1).exp(), numbers(1, 4))


@refused(**TIMES_ONE)
def memory_seen_by_absolute_position() -> Program:
    """`as_strided` looks at the first element of the storage, which is another one."""
    return one(lambda x: (x[1:] * 1).as_strided((2,), (1,), 0).exp(), numbers(5))


@refused(**law(lambda m, x: aten.where.self(m, x, x), lambda m, x: x))
def condition_that_widens() -> Program:
    """`where(m, x, x)` has the shape of both."""
    return two(lambda m, x: torch.where(m, x, x).exp(), torch.tensor([[True], [False]]), numbers(3))


@refused(**TWICE_NEGATIVE)
def across_a_grad_mode_switch() -> Program:
    """The inner negation is a constant of autograd: its double negative must not become the input."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        graph.call_function(torch._C._set_grad_enabled, (False,))
        inner = graph.call_function(aten.neg.default, (x,))
        graph.call_function(torch._C._set_grad_enabled, (True,))
        outer = graph.call_function(aten.neg.default, (inner,))
        return graph.call_function(aten.mul.Tensor, (outer, x))

    return with_examples(graph_of(build), numbers(3)), (numbers(3),)


@refused(**law(lambda x: aten.div.Tensor(x, 3.0), lambda x: aten.mul.Tensor(x, 1 / 3.0)))
def division_by_three() -> Program:
    """1 / 3 is rounded."""
    return one(lambda x: x / 3.0)


@trap(True, **law(lambda x: aten.div.Tensor(x, 4.0), lambda x: aten.mul.Tensor(x, 0.25)))
def division_by_four() -> Program:
    """1 / 4 is exact."""
    return one(lambda x: x / 4.0)


@refused(**law(lambda x: aten.div.Tensor(x, 4), lambda x: aten.mul.Tensor(x, 0.25)))
def integer_division_by_one() -> Program:
    """The quotient of integers has a fraction, also by 1."""
    return one(lambda x: (x / 1).exp(), torch.arange(4))


@refused(**law(lambda x: aten.add.Tensor(aten.add.Tensor(x, 1e8), -1e8), lambda x: aten.add.Tensor(x, 0.0)))
def sums_are_rounded_twice() -> Program:
    """(x + 1e8) − 1e8 is not x."""
    return one(lambda x: (x + 1e8) + -1e8)


@trap(True, left=1)
def integer_sums() -> Program:
    """Integer sums wrap around, however they are grouped."""
    return one(lambda x: (x + 3) + 4, torch.arange(4, dtype=torch.int32))


@refused()
def numbers_that_leave_the_dtype() -> Program:
    """(x · 65536) · 65536 is 0 in 32 bits; 2^32 is no number of these."""
    return one(lambda x: (x * 65536) * 65536, torch.arange(4, dtype=torch.int32))


@refused(**NOT_LESS)
def negated_comparison() -> Program:
    """Of NaN neither x < y nor x ≥ y is true."""
    x = torch.tensor([1.0, float("nan"), 2.0])
    return two(lambda x, y: (~(x < y)).float(), x, numbers(3))


@refused(**law(lambda x: aten.logical_not.default(aten.logical_not.default(x)), lambda x: x))
def twice_not_of_numbers() -> Program:
    """The double negation of a number is a truth value."""
    return one(lambda x: torch.logical_not(torch.logical_not(x)).float() * x)


@refused(**NEGATIVE_FACTORS)
def negative_of_the_smallest_integer() -> Program:
    """In 8 bits −(−128) is −128; promoted to 64 bits before, it is 128."""
    x = torch.tensor([-128, 1, 5], dtype=torch.int8)
    return two(lambda x, y: (-x) * (-y), x, torch.tensor([3, 4, 7]))


@refused(**TIMES_ONE)
def complex_times_one() -> Program:
    """Infinity times 1 + 0j has a NaN in it."""
    x = torch.tensor([1 + 2j, complex(float("inf"), 1.0), -1j])
    return one(lambda x: (x * 1) * 2, x)


@trap(True, left=1, **TIMES_ONE)
def zero_dimensional_and_empty() -> Program:
    """A number and nothing."""
    return two(lambda x, y: (x * 1) * (y * 1), torch.tensor(-0.0), torch.zeros(0, 3))


@trap(True, left=1, **TIMES_ONE)
def signature_with_a_dictionary() -> Program:
    """A graph whose inputs and outputs are dictionaries keeps its signature."""

    class Structured(nn.Module):
        def forward(self, batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
            return {"result": torch.exp(batch["x"] * 1)}

    inputs = ({"x": numbers(3)},)
    return exported(Structured(), *inputs), inputs


OPPOSITES: tuple[tuple[str, str], ...] = (("lt", "ge"), ("le", "gt"), ("gt", "le"), ("ge", "lt"))
"""Comparisons, each with the one that is true where it is false; with NaN both are false."""


def compare_with_nan(comparison: str, opposite: str, dtype: torch.dtype) -> None:
    """A trap: no number of any dtype is less than NaN, and none is greater or equal."""
    before, after = (getattr(aten, name).Scalar for name in (comparison, opposite))
    nan = float("nan")

    def build() -> Program:
        x = torch.tensor([3, 0, 1, 1]).to(dtype)
        return one(lambda x: torch.bitwise_not(getattr(torch, comparison)(x, nan)).float(), x)

    build.__name__ = f"no {dtype} is {comparison} NaN"
    build.__doc__ = f"`~(x {comparison} nan)` is true, and `x {opposite} nan` is false, for integers too."
    refused(**law(lambda x: aten.bitwise_not.default(before(x, nan)), lambda x: after(x, nan)))(build)


for comparison, opposite in OPPOSITES:
    for dtype in (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float32):
        compare_with_nan(comparison, opposite, dtype)


@trap(None)
def nan_in_a_tensor_beside_integers() -> Program:
    """The NaN that integers are compared with may come in a tensor of its own dtype."""
    return two(lambda x, y: (~(x < y)).float(), torch.arange(3), torch.tensor([1.0, float("nan"), 2.0]))


@trap(True, left=2)
def comparison_of_integers_with_infinity() -> Program:
    """With infinity, as with every number that is not NaN, one comparison is the opposite of the other."""
    return one(lambda x: (~(x < float("inf"))).float(), torch.arange(4))


@trap(True, left=2)
def unequal_to_nan() -> Program:
    """`~(x == nan)` and `x != nan` are true, both."""
    return one(lambda x: (~(x == float("nan"))).float(), torch.arange(4))


TRAPS = trap.traps
