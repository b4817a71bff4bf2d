"""Pairs of programs that only look the same, or only look different: traps for whoever compares them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from autograder.traps.trap import EVENTS, numbers

Function = Callable[..., Any]


@dataclass(frozen=True, eq=False)
class Pair:
    """Two programs and whether they do the same.

    Attributes:
        name: unique.
        about: what is special, in a sentence.
        programs: makes the original and the other, with equal weights.
        inputs: positional arguments.
        same: what a comparison has to say.
        options: for `check_equivalence`.
    """

    name: str
    about: str
    programs: Callable[[], tuple[Function, Function]]
    inputs: tuple[Any, ...]
    same: bool
    options: dict[str, Any] = field(default_factory=dict)


PAIRS: list[Pair] = []


def pair(same: bool, *inputs: Any, **options: Any) -> Callable[[Callable[[], tuple[Function, Function]]], None]:
    """Decorate a function that makes two programs."""

    def collect(programs: Callable[[], tuple[Function, Function]]) -> None:
        name = f"verification: {programs.__name__.replace('_', ' ')}"
        PAIRS.append(Pair(name, (programs.__doc__ or "").strip(), programs, inputs or (numbers(4),), same, options))

    return collect


class Model(nn.Module):
    """A function of a module with a weight and a counter."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.weight = nn.Parameter(numbers(4))
        self.register_buffer("count", torch.zeros(4))
        self.norm = nn.BatchNorm1d(4)
        self.drop = nn.Dropout(0.5)
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(self, x)


def models(one: Callable[..., Any], other: Callable[..., Any]) -> tuple[Model, Model]:
    """Two models with equal weights."""
    return Model(one), Model(other)


@pair(False)
def zeros_of_both_signs() -> tuple[Function, Function]:
    """`x * 0.0` is −0.0 for negative x; `==` does not see it."""
    return lambda x: x * 0.0, lambda x: torch.zeros_like(x)


@pair(False)
def nan_where_there_was_none() -> tuple[Function, Function]:
    """`x / x` is 1 except for 0 and infinity, which no example contains."""
    return lambda x: x / x, lambda x: torch.ones_like(x)


@pair(True)
def nan_in_both() -> tuple[Function, Function]:
    """NaN is not equal to itself, and yet the results are the same."""
    return lambda x: x * float("nan"), lambda x: torch.full_like(x, float("nan")) * x


@pair(False)
def absolute_value_of_a_negative_zero() -> tuple[Function, Function]:
    """`relu` keeps NaN, `where(x > 0, x, 0)` does not."""
    return torch.relu, lambda x: torch.where(x > 0, x, torch.zeros_like(x))


@pair(False)
def write_to_an_input() -> tuple[Function, Function]:
    """The results are equal; one changes its argument."""
    return lambda x: x.add_(1) * 1, lambda x: (x + 1) * 1


@pair(False)
def write_to_a_buffer() -> tuple[Function, Function]:
    """The results are equal; one counts its calls."""

    def counts(self: Model, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return x * 2

    return models(counts, lambda self, x: x * 2)


@pair(False, numbers(3, 4))
def statistics_of_a_batch_norm() -> tuple[Function, Function]:
    """The unused BatchNorm is left out, and its statistics no longer move."""

    def normalises(self: Model, x: torch.Tensor) -> torch.Tensor:
        self.norm(x)
        return x * 2

    return models(normalises, lambda self, x: x * 2)


@pair(False)
def one_draw_fewer() -> tuple[Function, Function]:
    """An unused draw is left out: the result is equal, whatever is drawn next is not."""

    def draws(x: torch.Tensor) -> torch.Tensor:
        torch.rand_like(x)
        return x * 2

    return draws, lambda x: x * 2


@pair(True)
def the_same_draws() -> tuple[Function, Function]:
    """Random results are the same from the same state of the generator."""
    return lambda x: functional.dropout(x) + 1, lambda x: 1 + functional.dropout(x, 0.5, True)


@pair(False)
def draws_in_another_order() -> tuple[Function, Function]:
    """As many draws, of two kinds, in another order."""

    def forwards(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.rand_like(x), torch.randn_like(x)

    def backwards(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        normal = torch.randn_like(x)
        return torch.rand_like(x), normal

    return forwards, backwards


@pair(False)
def a_view_becomes_a_copy() -> tuple[Function, Function]:
    """Who writes to the result wrote to the input."""
    return lambda x: x[1:], lambda x: x[1:].clone()


@pair(False)
def two_results_become_one() -> tuple[Function, Function]:
    """Two equal results of which the caller may write to either."""

    def twice(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x + 1, x + 1

    def once(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x + 1
        return y, y

    return twice, once


@pair(False)
def gradient_is_cut() -> tuple[Function, Function]:
    """The values are equal; no gradient flows."""
    return models(lambda self, x: x * self.weight, lambda self, x: x * self.weight.detach())


@pair(False, numbers(4).requires_grad_())
def another_gradient() -> tuple[Function, Function]:
    """The values are equal; half of the gradient is cut."""
    return lambda x: x * x, lambda x: x * x.detach()


@pair(False)
def another_dtype() -> tuple[Function, Function]:
    """A comparison by value promotes."""
    return lambda x: (x > 0).long(), lambda x: (x > 0).int()


@pair(False, numbers(3, 4))
def other_strides() -> tuple[Function, Function]:
    """`view` works on one result and raises on the other."""
    return lambda x: x + 1, lambda x: (x.t().contiguous() + 1).t()


@pair(False)
def tuple_instead_of_list() -> tuple[Function, Function]:
    """The structure of the result belongs to it."""
    return lambda x: [x + 1, {"a": x * 2}], lambda x: (x + 1, {"a": x * 2})


@pair(False)
def a_key_that_is_missing() -> tuple[Function, Function]:
    """A dictionary with one entry fewer."""
    return lambda x: {"a": x + 1, "b": x * 2}, lambda x: {"a": x + 1}


@pair(False)
def integer_instead_of_number() -> tuple[Function, Function]:
    """`1 == 1.0`, and yet they are two types."""
    return lambda x: (x + 1, 1), lambda x: (x + 1, 1.0)


@pair(False)
def right_on_the_example_only() -> tuple[Function, Function]:
    """The result for the example was folded into a constant."""
    folded = numbers(4).exp()
    return lambda x: x.exp(), lambda x: folded.clone()


@pair(False)
def one_row_is_wrong() -> tuple[Function, Function]:
    """A mean error hides a single wrong element."""
    return lambda x: x + 0.5, lambda x: torch.cat([x[:3] + 0.5, x[3:] + 0.5000001])


@pair(False, torch.zeros(0, 3))
def empty_tensors_of_two_dtypes() -> tuple[Function, Function]:
    """Nothing differs in value."""
    return lambda x: x * 2, lambda x: (x * 2).double()


@pair(False, torch.zeros(0, 3))
def empty_tensors_of_two_shapes() -> tuple[Function, Function]:
    """Neither holds anything."""
    return lambda x: x * 2, lambda x: (x * 2).reshape(3, 0)


@pair(False, torch.tensor(2.0))
def number_instead_of_zero_dimensional_tensor() -> tuple[Function, Function]:
    """`item()` gives the same number and no tensor."""
    return lambda x: x * 2, lambda x: (x * 2).item()


@pair(False, torch.arange(4))
def floor_division_of_negative_numbers() -> tuple[Function, Function]:
    """Towards zero and downwards agree on positive integers: those given are, their differences are not."""
    return (
        lambda x: torch.div(x - 2, 2, rounding_mode="trunc"),
        lambda x: torch.div(x - 2, 2, rounding_mode="floor"),
    )


@pair(False, (torch.tensor([0, 1]), numbers(4)))
def overlapping_inputs_inside_a_structure() -> tuple[Function, Function]:
    """One writes to a tensor deep inside its argument."""

    def writes(batch: Any) -> torch.Tensor:
        batch[1].mul_(1.5)
        return batch[1] * 2

    return writes, lambda batch: batch[1] * 3


@pair(False)
def one_raises() -> tuple[Function, Function]:
    """An assertion on the values was lost; the example does not trip it, other values do."""

    def asserts(x: torch.Tensor) -> torch.Tensor:
        torch._assert(bool(x.isfinite().all()), "infinite")
        return x * 2

    return asserts, lambda x: x * 2


@pair(False, numbers(4).requires_grad_())
def gradients_off_in_part() -> tuple[Function, Function]:
    """Part of the result is computed without gradients."""

    def partly(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.no_grad():
            constant = x.exp()
        return constant, x.sin()

    return partly, lambda x: (x.exp(), x.sin())


@pair(True, numbers(4), numbers(4))
def equal_although_written_differently() -> tuple[Function, Function]:
    """Addition commutes to the last bit."""
    return lambda x, y: x + y, lambda x, y: y + x


@pair(False, numbers(4), numbers(4), numbers(4))
def addition_is_not_associative() -> tuple[Function, Function]:
    """The last bits differ, and infinities cancel differently."""
    return lambda x, y, z: (x + y) + z, lambda x, y, z: x + (y + z)


@pair(False)
def training_flag_is_lost() -> tuple[Function, Function]:
    """The module switches itself to evaluation."""

    def switches(self: Model, x: torch.Tensor) -> torch.Tensor:
        self.drop.eval()
        return x * 2

    return models(lambda self, x: x * 2, switches)


def naive(original: Function, other: Function, inputs: tuple[Any, ...]) -> bool:
    """What one writes first: run both on the example and compare the results."""
    results = []
    for program in (original, other):
        EVENTS.clear()
        torch.manual_seed(0)
        results.append(program(*inputs))
    try:
        torch.testing.assert_close(results[1], results[0], rtol=0, atol=0)
    except (AssertionError, TypeError):
        return False
    return True
