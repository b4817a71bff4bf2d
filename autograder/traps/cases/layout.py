"""Views, copies and casts that look redundant, and those that are."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import fx

from autograder.traps.trap import Collector, Program, aten, graph_of, numbers, recorded, traced, with_examples

trap = Collector("layout", "redundant_layout")


def law(before: Callable[..., Any], after: Callable[..., Any]) -> dict[str, Any]:
    """A law as a textbook has it, for the peer."""
    return {"peer_rules": ((before, after),)}


TRANSPOSED_TWICE = law(lambda x: aten.t.default(aten.t.default(x)), lambda x: x)
COPY = law(lambda x: aten.clone.default(x), lambda x: x)
DETACHED = law(lambda x: aten.detach.default(x), lambda x: x)


def cast_and_back(between: torch.dtype, first: torch.dtype) -> dict[str, Any]:
    return law(
        lambda x: aten._to_copy.default(aten._to_copy.default(x, dtype=between), dtype=first),
        lambda x: x,
    )


refused = partial(trap, False)


def one(function: Callable[..., Any], x: torch.Tensor | None = None) -> Program:
    """A function of one tensor, recorded at ATen level."""
    inputs = (numbers(3, 4) if x is None else x,)
    return recorded(function, *inputs), inputs


@trap(True, left=1, keeps_metadata=True, **TRANSPOSED_TWICE)
def transposed_twice() -> Program:
    """The plain case."""
    return one(lambda x: x.t().t().exp())


@trap(True, left=1)
def permutations_that_cancel() -> Program:
    """A rotation of three dimensions three times."""
    return one(lambda x: x.permute(1, 2, 0).permute(1, 2, 0).permute(1, 2, 0).exp(), numbers(2, 3, 4))


@trap(None, **law(lambda x: aten.permute.default(aten.permute.default(x, [1, 2, 0]), [1, 2, 0]), lambda x: x))
def permutations_that_do_not_cancel() -> Program:
    """The same rotation twice is another rotation, although no size tells."""
    return one(lambda x: x.permute(1, 2, 0).permute(1, 2, 0).contiguous(), numbers(3, 3, 3))


@trap(None)
def transpositions_of_other_dimensions() -> Program:
    """`transpose(0, 1)` and `transpose(1, 2)` do not cancel."""
    return one(lambda x: x.transpose(0, 1).transpose(1, 2) + 1, numbers(3, 3, 3))


@trap(None, **TRANSPOSED_TWICE)
def view_that_is_returned_beside_its_base() -> Program:
    """Two views of one storage are two objects."""

    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x.exp()
        return y, y.t().t()

    return one(function)


@refused(**COPY)
def copy_that_is_written() -> Program:
    """A write to the copy must not reach the original."""

    def function(x: torch.Tensor) -> torch.Tensor:
        own = x.clone()
        own.add_(1)
        return own * x

    return one(function)


@refused(**COPY)
def copy_of_what_is_written() -> Program:
    """A write to the original must not reach the copy."""

    def function(x: torch.Tensor) -> torch.Tensor:
        kept = x.clone()
        x.mul_(2)
        return kept * x

    return one(function)


@refused(**COPY)
def copy_of_what_is_written_through_a_view() -> Program:
    """The same, through a view of the original's base."""

    def function(x: torch.Tensor) -> torch.Tensor:
        base = x * 2
        kept = base[0].clone()
        base.view(-1).add_(1)
        return kept * base

    return one(function)


@refused(**COPY)
def copy_that_is_returned() -> Program:
    """The caller may write to the copy."""
    return one(lambda x: x.clone())


@trap(True, left=1, **COPY)
def copy_that_nobody_can_tell() -> Program:
    """Neither is written or returned."""
    return one(lambda x: x.clone().exp())


@refused(by_check=False, **law(lambda x: aten.clone.default(x, memory_format=torch.contiguous_format), lambda x: x))
def contiguous_copy_that_is_viewed() -> Program:
    """The flat view works on the contiguous copy only."""
    return one(lambda x: x.t().contiguous().view(-1).exp())


@refused(by_check=False, **law(lambda x: aten.clone.default(x, memory_format=torch.contiguous_format), lambda x: x))
def contiguous_copy_whose_strides_are_returned() -> Program:
    """The strides of a result are seen by the caller."""
    return one(lambda x: x.t().contiguous() * 2)


@refused(**COPY)
def copy_seen_by_absolute_position() -> Program:
    """`as_strided` looks at the first element of the storage, which is another one."""
    return one(lambda x: x[1:].clone().as_strided((2,), (1,), 0).exp(), numbers(5))


@refused(**cast_and_back(torch.float16, torch.float32))
def cast_through_half() -> Program:
    """16 bits do not hold what 32 do."""
    return one(lambda x: x.to(torch.float16).to(torch.float32).exp())


@refused(**cast_and_back(torch.int64, torch.float32))
def cast_through_integers() -> Program:
    """Integers have no fraction."""
    return one(lambda x: x.to(torch.int64).to(torch.float32) * x)


@refused(**cast_and_back(torch.float32, torch.int64))
def cast_of_large_integers() -> Program:
    """2^24 + 1 is no number of 32 bits."""
    return one(lambda x: x.to(torch.float32).to(torch.int64) - x, torch.tensor([1, 2**24 + 1, -(2**30) - 1]))


@refused(**cast_and_back(torch.bool, torch.float32))
def cast_through_truth_values() -> Program:
    """What is not zero becomes one."""
    return one(lambda x: x.to(torch.bool).to(torch.float32) * x)


@trap(True, left=1, **cast_and_back(torch.float64, torch.float32))
def cast_through_double() -> Program:
    """64 bits hold what 32 do."""
    return one(lambda x: x.to(torch.float64).to(torch.float32).exp())


@trap(None, **cast_and_back(torch.float64, torch.float32))
def cast_through_double_that_is_returned() -> Program:
    """What comes back is another tensor, and the caller may write to it."""
    return one(lambda x: x.to(torch.float64).to(torch.float32))


@refused(by_check=False)
def cast_to_integers_by_way_of_floats() -> Program:
    """What becomes of infinity and of large numbers in 32 bits depends on the dtype before."""
    return one(lambda x: x.to(torch.float64).to(torch.int16) + 1)


@refused(**law(lambda x: aten.view.default(x, [3, 4]), lambda x: x))
def view_that_is_returned_as_another_object() -> Program:
    """A view of the same shape is another object; the caller may reshape it in place."""

    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x.exp()
        return y, y.view(3, 4)

    return one(function)


@refused(**law(lambda x: x.float(), lambda x: x))
def cast_of_an_unknown_dtype() -> Program:
    """At torch level, without examples: called with integers, `float()` does something."""
    return traced(lambda x: x.float() * x), (torch.arange(4),)


@refused(**DETACHED)
def detached() -> Program:
    """`detach` stops gradients, whatever its value."""
    return one(lambda x: x.detach() * x)


@refused(**law(lambda x: aten.to.dtype(x, torch.float32, False, True), lambda x: x))
def copy_that_is_asked_for() -> Program:
    """A cast to the same dtype with `copy=True` is a new tensor, which is written."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        own = graph.call_function(aten.to.dtype, (x, torch.float32, False, True))
        graph.call_function(aten.add_.Tensor, (own, 1))
        return graph.call_function(aten.mul.Tensor, (own, x))

    return with_examples(graph_of(build), numbers(3)), (numbers(3),)


@refused(**TRANSPOSED_TWICE)
def across_a_grad_mode_switch() -> Program:
    """The inner transposition is a constant of autograd."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        graph.call_function(torch._C._set_grad_enabled, (False,))
        inner = graph.call_function(aten.t.default, (x,))
        graph.call_function(torch._C._set_grad_enabled, (True,))
        outer = graph.call_function(aten.t.default, (inner,))
        return graph.call_function(aten.mul.Tensor, (outer, x))

    return with_examples(graph_of(build), numbers(3, 4)), (numbers(3, 4),)


@refused(by_check=False, **law(lambda x: aten.squeeze.default(aten.unsqueeze.default(x, 0)), lambda x: x))
def squeeze_that_takes_more() -> Program:
    """`squeeze()` without a dimension takes out every dimension of size 1."""
    return one(lambda x: x.unsqueeze(0).squeeze() + torch.ones(4, 3), numbers(3, 1))


@trap(True, left=1)
def unsqueezed_and_squeezed() -> Program:
    """The same dimension comes and goes."""
    return one(lambda x: x.unsqueeze(0).squeeze(0).exp(), numbers(3, 1))


@refused(by_check=False)
def shape_that_is_not_known() -> Program:
    """At torch level, without examples: whether `reshape` copies depends on the strides."""
    return traced(lambda x: torch.exp(x.reshape(-1).reshape(3, 4))), (numbers(3, 4).t().contiguous().t(),)


@trap(True, left=1, **TRANSPOSED_TWICE)
def views_of_written_storage() -> Program:
    """The plain case beside a write to something else."""

    def function(x: torch.Tensor) -> torch.Tensor:
        x.t().t()
        return x.t().t().exp()

    return one(function)


@trap(True, left=1)
def empty_tensor_reshaped() -> Program:
    """Nothing, in other shapes."""
    return one(lambda x: x.view(3, 0).view(0, 3).exp(), torch.zeros(0, 3))


@refused()
def contiguous_that_copies() -> Program:
    """`contiguous()` of a transposed tensor does something, which the strides of the result show."""

    def build(graph: fx.Graph) -> Any:
        turned = graph.call_method("t", (graph.placeholder("x"),))
        return graph.call_function(torch.exp, (graph.call_method("contiguous", (turned,)),))

    return with_examples(graph_of(build), numbers(3, 4)), (numbers(3, 4),)


def bits_there_and_back(between: torch.dtype, first: torch.dtype) -> dict[str, Any]:
    return law(lambda x: aten.view.dtype(aten.view.dtype(x, between), first), lambda x: x)


def of_bits(*dtypes: torch.dtype, x: torch.Tensor, copied: bool = False) -> Program:
    """The bits of x seen as one dtype after the other, times x. (What records a run would detach each view.)"""

    def build(graph: fx.Graph) -> Any:
        bits = source = graph.placeholder("x")
        for number, dtype in enumerate(dtypes):
            bits = graph.call_function(aten.view.dtype, (bits, dtype))
            if copied and not number:
                bits = graph.call_function(aten.clone.default, (bits,))
        return graph.call_function(aten.mul.Tensor, (bits, source))

    return with_examples(graph_of(build), x), (x,)


def see_bits_as(between: torch.dtype, first: torch.dtype = torch.float32) -> None:
    """A trap: a view of the bits as another dtype and back has every bit of x, and lets no gradient through."""

    def build() -> Program:
        return of_bits(between, first, x=numbers(2, 4).to(first))

    build.__name__ = f"bits of {first} seen as {between}"
    build.__doc__ = f"`x.view({between}).view({first})` has the bits of x, and no gradient of x."
    refused(**bits_there_and_back(between, first))(build)


for dtype in (torch.int32, torch.int16, torch.uint8, torch.int64, torch.float64, torch.bfloat16, torch.complex64):
    see_bits_as(dtype)
see_bits_as(torch.int16, torch.float16)
see_bits_as(torch.float16, torch.bfloat16)
see_bits_as(torch.int64, torch.float64)
see_bits_as(torch.float32, torch.complex64)


@refused(**law(lambda x: aten.view.dtype(x, torch.float32), lambda x: x))
def bits_seen_as_what_they_are() -> Program:
    """`x.view(x.dtype)` changes neither dtype nor bits, and yet no gradient flows through it."""
    return of_bits(torch.float32, x=numbers(3))


@refused()
def bits_seen_by_keyword() -> Program:
    """The method at torch level, with `dtype=`."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        bits = graph.call_method("view", (x,), {"dtype": torch.int32})
        return graph.call_function(torch.mul, (graph.call_method("view", (bits,), {"dtype": torch.float32}), x))

    return with_examples(graph_of(build), numbers(3)), (numbers(3),)


@trap(True, left=3)
def bits_seen_by_way_of_a_copy() -> Program:
    """The copy between the two views of the bits can go, and does not bring the gradient back."""
    return of_bits(torch.int32, torch.float32, x=numbers(3), copied=True)


@refused(by_check=False)
def bits_seen_and_cast() -> Program:
    """A cast of the bits is no cast of the numbers, though the dtype in between would hold every one of them."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        bits = graph.call_method("view", (x,), {"dtype": torch.float32})
        return graph.call_method("to", (bits,), {"dtype": torch.float64})

    x = torch.tensor([1, -2, 1078530011], dtype=torch.int32)
    return with_examples(graph_of(build), x), (x,)


@trap(True, left=1)
def bits_of_integers_seen_as_floats() -> Program:
    """Integers have no gradient that could be lost."""
    return of_bits(torch.float32, torch.int32, x=torch.arange(4, dtype=torch.int32))


@trap(True, left=2)
def bits_seen_again() -> Program:
    """What reads the bits of a view of the bits reads those of x: nothing flows through either."""
    return of_bits(torch.int32, torch.float32, torch.int32, x=numbers(3))


TRAPS = trap.traps
