"""Pattern rewriting: matches that must be left alone, and matches that look as if they had to be."""

from __future__ import annotations

import operator
from functools import partial
from typing import Any

import torch
from torch import fx, nn

from autograder.traps.trap import EVENTS, Collector, Program, aten, exported, graph_of, numbers, recorded

trap = Collector("patterns", "pattern")


@fx.wrap
def doubled(x: torch.Tensor) -> torch.Tensor:
    """A function of which nothing is known."""
    EVENTS.append("doubled")
    return x * 2


def _plus_negative(x: Any, y: Any) -> Any:
    return torch.add(torch.neg(x), y)


def _minus(x: Any, y: Any) -> Any:
    return torch.sub(y, x)


MINUS = ((_plus_negative, _minus),)
"""−x + y = y − x, to the last bit."""

ATEN_MINUS = (
    (
        lambda x, y: aten.add.Tensor(aten.neg.default(x), y),
        lambda x, y: aten.sub.Tensor(y, x),
    ),
)

TWICE_NEGATIVE = ((lambda x: torch.neg(torch.neg(x)), lambda x: x),)
"""−(−x) = x."""

SINES = ((lambda x: (torch.sin(x), torch.sin(x)), lambda x: (lambda y: (y, y))(torch.sin(x))),)
"""Two sines of one value become one."""


def _scaled(x: Any, y: Any) -> Any:
    negative = torch.neg(x)
    return negative, torch.mul(negative, y)


def _scaled_by_number(x: Any, y: Any) -> Any:
    negative = torch.mul(x, -1)
    return negative, torch.mul(negative, y)


SCALED = ((_scaled, _scaled_by_number),)
"""Two results, the second of which needs one more input."""

refused = partial(trap, False)


def two(build: Any, **options: Any) -> Program:
    """A graph of two inputs, written node by node at torch level."""

    def whole(graph: fx.Graph) -> Any:
        x, y = graph.placeholder("x"), graph.placeholder("y")
        return build(lambda function, *args, **kwargs: graph.call_function(function, args, kwargs), x, y)

    return graph_of(whole), (numbers(3, 4), numbers(3, 4) * 3)


@trap(True, left=2, rules=MINUS)
def plain_match() -> Program:
    """The plain case."""
    return two(lambda call, x, y: call(torch.exp, call(torch.add, call(torch.neg, x), y)))


@trap(True, left=2, rules=ATEN_MINUS, keeps_metadata=True)
def metadata_of_what_is_new() -> Program:
    """New nodes know their value's shape and where in the model they come from."""
    inputs = (numbers(3, 4), numbers(3, 4) * 3)
    return recorded(lambda x, y: torch.exp(torch.neg(x) + y), *inputs), inputs


@trap(True, left=2, rules=ATEN_MINUS)
def signature_with_a_dictionary() -> Program:
    """A graph whose inputs and outputs are dictionaries keeps its signature."""

    class Structured(nn.Module):
        def forward(self, batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
            return {"result": torch.exp(torch.neg(batch["x"]) + batch["y"])}

    inputs = ({"x": numbers(3), "y": numbers(3) * 2},)
    return exported(Structured(), *inputs), inputs


@trap(True, left=2, rules=TWICE_NEGATIVE)
def overlapping_matches() -> Program:
    """Three negations in sequence are two matches that overlap: one may be rewritten."""
    return two(lambda call, x, y: call(torch.exp, call(torch.neg, call(torch.neg, call(torch.neg, x)))))


@trap(True, left=1, rules=TWICE_NEGATIVE)
def matches_that_appear_by_rewriting() -> Program:
    """Four negations are gone after all rounds."""
    return two(
        lambda call, x, y: call(torch.exp, call(torch.neg, call(torch.neg, call(torch.neg, call(torch.neg, x)))))
    )


@refused(rules=MINUS)
def inner_value_used_outside() -> Program:
    """The negation is needed once more."""

    def build(call: Any, x: Any, y: Any) -> Any:
        negative = call(torch.neg, x)
        return call(torch.mul, call(torch.add, negative, y), negative)

    return two(build)


@refused(rules=MINUS)
def inner_value_returned() -> Program:
    """The negation is a result."""

    def build(call: Any, x: Any, y: Any) -> Any:
        negative = call(torch.neg, x)
        return {"sum": call(torch.add, negative, y), "negative": negative}

    return two(build)


@refused(rules=MINUS)
def across_a_write() -> Program:
    """Between the two nodes of the match, what the first one read is written."""

    def build(call: Any, x: Any, y: Any) -> Any:
        own = call(torch.clone, x)
        negative = call(torch.neg, own)
        call(torch.Tensor.mul_, own, 2)
        return call(torch.add, negative, y), own

    return two(build)


@refused(rules=MINUS)
def across_an_in_place_method() -> Program:
    """The same with a method, through a view."""

    def whole(graph: fx.Graph) -> Any:
        x, y = graph.placeholder("x"), graph.placeholder("y")
        negative = graph.call_function(torch.neg, (x,))
        graph.call_method("zero_", (graph.call_method("select", (x, 0, 0)),))
        return graph.call_function(torch.add, (negative, y))

    return graph_of(whole), (numbers(3, 4), numbers(3, 4) * 3)


@refused(rules=MINUS)
def inner_value_written() -> Program:
    """The negation is clamped in place before it is added to."""

    def build(call: Any, x: Any, y: Any) -> Any:
        negative = call(torch.neg, x)
        call(torch.relu_, negative)
        return call(torch.add, negative, y)

    return two(build)


@trap(True, left=4, rules=MINUS)
def write_behind_the_match() -> Program:
    """What is written after the match does not matter."""

    def build(call: Any, x: Any, y: Any) -> Any:
        own = call(torch.clone, x)
        difference = call(torch.add, call(torch.neg, own), y)
        return call(torch.mul, difference, call(torch.relu_, own))

    return two(build)


@refused(rules=((lambda x: torch.mul(torch.rand_like(x), 0), lambda x: torch.zeros_like(x)),))
def draw_that_is_multiplied_by_zero() -> Program:
    """The value is zero, and yet the draw moves the random stream."""
    return two(
        lambda call, x, y: call(torch.add, call(torch.mul, call(torch.rand_like, x), 0), call(torch.rand_like, y))
    )


@refused(rules=((lambda x: torch.neg(doubled(x)), lambda x: torch.mul(x, -2)),))
def function_of_which_nothing_is_known() -> Program:
    """It has an effect besides its value."""
    return two(lambda call, x, y: call(torch.add, call(torch.neg, call(doubled, x)), y))


@refused(rules=((lambda x, y: torch.add(torch.relu_(x), y), lambda x, y: torch.add(torch.relu(x), y)),))
def write_inside_the_match() -> Program:
    """What the matched nodes write is read afterwards."""

    def build(call: Any, x: Any, y: Any) -> Any:
        own = call(torch.clone, x)
        return call(torch.mul, call(torch.add, call(torch.relu_, own), y), own)

    return two(build)


@refused(rules=MINUS)
def across_a_grad_mode_switch() -> Program:
    """The negation is a constant of autograd, the sum is not."""

    def build(call: Any, x: Any, y: Any) -> Any:
        call(torch._C._set_grad_enabled, False)
        negative = call(torch.neg, x)
        call(torch._C._set_grad_enabled, True)
        return call(torch.add, negative, y)

    return two(build)


TIMES_ONE = ((lambda x: torch.mul(x, 1.0), lambda x: x),)
"""x · 1 = x."""


@refused(rules=TIMES_ONE)
def passed_through_a_grad_mode_switch() -> Program:
    """The product is a constant of autograd; its factor is not."""

    def build(call: Any, x: Any, y: Any) -> Any:
        factor = call(torch.exp, x)
        call(torch._C._set_grad_enabled, False)
        product = call(torch.mul, factor, 1.0)
        call(torch._C._set_grad_enabled, True)
        return call(torch.add, product, y)

    return two(build)


@refused(rules=TIMES_ONE)
def passed_through_below_as_strided() -> Program:
    """The factor begins further back in its storage than the product, and `as_strided` counts from there."""

    def build(call: Any, x: Any, y: Any) -> Any:
        product = call(torch.mul, call(operator.getitem, x, slice(1, None)), 1.0)
        return call(torch.add, call(torch.exp, call(torch.as_strided, product, (2, 4), (4, 1), 0)), call(torch.sum, y))

    return two(build)


@refused(rules=((lambda x: aten.mul.Tensor(x, 1.0), lambda x: x),))
def passed_through_with_other_strides() -> Program:
    """An expanded factor cannot be viewed flat; the product can."""
    return recorded(lambda x: (x.expand(3, 4) * 1.0).view(-1).exp(), numbers(1, 4)), (numbers(1, 4),)


@refused(
    rules=((lambda x, y: torch.neg(torch.matmul(x, y)), lambda x, y: torch.matmul(torch.neg(x), y)),), tolerance=1e-6
)
def across_autocast() -> Program:
    """The product is made in bfloat16, its negative outside of autocast."""

    def whole(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        mode = graph.call_function(torch.amp.autocast_mode._enter_autocast, ("cpu", torch.bfloat16, True, None))
        product = graph.call_function(torch.matmul, (x, x))
        graph.call_function(torch.amp.autocast_mode._exit_autocast, (mode,))
        return graph.call_function(torch.neg, (product,))

    return graph_of(whole), (numbers(3, 3),)


@refused(rules=SCALED)
def second_input_that_comes_late() -> Program:
    """The second input is computed from the first output: there is no place where both inputs are there."""

    def build(call: Any, x: Any, y: Any) -> Any:
        negative = call(torch.neg, x)
        late = call(torch.sin, call(torch.cos, negative))
        return call(torch.sub, call(torch.mul, negative, late), y)

    return two(build)


@trap(True, rules=SCALED)
def first_output_used_early() -> Program:
    """The first output is used before the second one is computed, whose input is there already."""

    def build(call: Any, x: Any, y: Any) -> Any:
        negative = call(torch.neg, x)
        early = call(torch.exp, negative)
        return call(torch.sub, call(torch.mul, negative, y), early)

    return two(build)


@trap(True, left=3, rules=SINES)
def two_outputs_that_become_one() -> Program:
    """Both are used inside only."""
    return two(lambda call, x, y: call(torch.sub, call(torch.exp, call(torch.sin, x)), call(torch.sin, x)))


@refused(rules=SINES)
def two_returned_outputs_that_would_become_one() -> Program:
    """The caller may write to either."""
    return two(lambda call, x, y: (call(torch.sin, x), call(torch.sin, x)))


@refused(rules=SINES)
def two_outputs_of_which_one_is_written() -> Program:
    """A write to one must not reach the other."""

    def build(call: Any, x: Any, y: Any) -> Any:
        one, other = call(torch.sin, x), call(torch.sin, x)
        call(torch.relu_, one)
        return call(torch.sub, one, other)

    return two(build)


@refused(rules=TWICE_NEGATIVE)
def result_that_would_be_the_input() -> Program:
    """What is returned would share storage with the input."""
    return two(lambda call, x, y: call(torch.neg, call(torch.neg, x)))


@refused(rules=TWICE_NEGATIVE)
def result_that_is_written() -> Program:
    """A write to the result would reach the input."""

    def build(call: Any, x: Any, y: Any) -> Any:
        result = call(torch.neg, call(torch.neg, x))
        call(torch.relu_, result)
        return call(torch.add, result, x)

    return two(build)


@refused(rules=MINUS)
def wildcard_that_meets_the_match_itself() -> Program:
    """`n + n` with `n = −x`: the second operand is a node that the rewrite takes out."""

    def build(call: Any, x: Any, y: Any) -> Any:
        negative = call(torch.neg, x)
        return call(torch.exp, call(torch.add, negative, negative))

    return two(build)


@trap(True, left=2, rules=MINUS)
def two_wildcards_that_meet_one_value() -> Program:
    """`−x + x`: both wildcards stand for `x`."""
    return two(lambda call, x, y: call(torch.exp, call(torch.add, call(torch.neg, x), x)))


@refused(by_check=False, rules=((lambda x: torch.exp(torch.mul(x, x)), lambda x: torch.exp(torch.square(x))),))
def one_wildcard_twice() -> Program:
    """`x * y` is no square, although each operand could be `x`."""
    return two(lambda call, x, y: call(torch.exp, call(torch.mul, x, y)))


@refused(by_check=False, rules=((lambda x, y: torch.sub(torch.mul(x, 1), y), lambda x, y: torch.sub(x, y)),))
def literal_of_another_type() -> Program:
    """`1 == 1.0`, yet an integer times 1.0 is no integer."""
    program, _ = two(lambda call, x, y: call(torch.sub, call(torch.mul, x, 1.0), y))
    return program, (torch.arange(4), torch.arange(4) * 3)


@refused(by_check=False, rules=MINUS)
def argument_that_the_pattern_leaves_out() -> Program:
    """`add(−x, y, alpha=3)` is another sum."""
    return two(lambda call, x, y: call(torch.add, call(torch.neg, x), y, alpha=3))


@refused(rules=((lambda x: operator.neg(operator.neg(x)), lambda x: x),))
def wildcard_that_meets_a_literal() -> Program:
    """`−(−2.5)` in the graph: a literal cannot take the place of a node."""
    return two(lambda call, x, y: call(torch.mul, x, call(operator.neg, call(operator.neg, 2.5))))


TRAPS = trap.traps
