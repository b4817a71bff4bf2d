"""Each kind of difference is seen, and equal functions are equal."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from fxopt_core.verification import EXACT, Tolerance, bisect_rewrites, check_equivalence

X = torch.linspace(-2.0, 2.0, 6).reshape(2, 3)


class Stateful(nn.Module):
    """Has everything that a call can change."""

    def __init__(self, behaviour: Callable[[Any, torch.Tensor], Any]) -> None:
        super().__init__()
        self.behaviour = behaviour
        self.weight = nn.Parameter(torch.ones(3))
        self.register_buffer("count", torch.zeros(()))
        self.plain = torch.zeros(2)
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x: torch.Tensor) -> Any:
        return self.behaviour(self, x)


def count(module: Stateful, x: torch.Tensor) -> torch.Tensor:
    module.count += 1
    return x * module.weight


def no_training(module: Stateful, x: torch.Tensor) -> torch.Tensor:
    module.norm.eval()
    return x * module.weight


def plain(module: Stateful, x: torch.Tensor) -> torch.Tensor:
    module.plain.add_(1)
    return x * module.weight


def scaled(module: Stateful, x: torch.Tensor) -> torch.Tensor:
    return x * module.weight


def without_statistics(module: Stateful, x: torch.Tensor) -> torch.Tensor:
    return functional.batch_norm(x, None, None, module.norm.weight, module.norm.bias, True)


def raising(x: torch.Tensor) -> torch.Tensor:
    raise ValueError("no")


def changing(x: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    return x.sum()


DIFFERENT: dict[str, tuple[Any, Any]] = {
    "value": (lambda x: x * 2, lambda x: x * 2.0000002),
    "value of a negative zero": (lambda x: x * 0.0, lambda x: (x * 0.0).abs()),
    "value on special inputs": (lambda x: x + 0.0, lambda x: x.clone()),
    "value of a number": (lambda x: (x + 1, 1), lambda x: (x + 1, 1.0)),
    "value of NaN": (lambda x: x / x, lambda x: torch.ones_like(x)),
    "structure": (lambda x: [x + 1, x + 2], lambda x: (x + 1, x + 2)),
    "dtype": (lambda x: x + 1, lambda x: (x + 1).double()),
    "shape": (lambda x: x + 1, lambda x: (x + 1)[None]),
    "stride": (lambda x: x + 1, lambda x: (x + 1).t().contiguous().t()),
    "part in autograd": (lambda x: x * 2, lambda x: (x * 2).detach()),
    "aliasing of an input": (lambda x: x.clone(), lambda x: x),
    "aliasing of a view": (lambda x: x.view(-1).clone(), lambda x: x.view(-1)),
    "aliasing of outputs": (lambda x: (x + 1, x + 1), lambda x: (x + 1,) * 2),
    "mutation": (changing, lambda x: (x + 1).sum()),
    "mutation a buffer": (Stateful(count), Stateful(scaled)),
    "mutation a plain tensor": (Stateful(plain), Stateful(scaled)),
    "mutation statistics": (Stateful(lambda self, x: self.norm(x)), Stateful(without_statistics)),
    "training flag": (Stateful(no_training), Stateful(scaled)),
    "random state": (lambda x: x + 0 * torch.rand(3), lambda x: x + 0),
    "exception": (raising, lambda x: x),
    "gradient": (lambda x: x * x, lambda x: x * x.detach()),
    "gradient of a parameter": (Stateful(scaled), Stateful(lambda self, x: x * self.weight.detach())),
}  # fmt: skip


@pytest.mark.parametrize("name", DIFFERENT)
def test_a_difference_is_seen_and_named(name: str) -> None:
    original, transformed = DIFFERENT[name]
    x = X.clone().requires_grad_(name in ("gradient", "part in autograd"))
    found = check_equivalence(original, transformed, (x,))
    assert not found
    assert any(name.startswith(difference.what) for difference in found.differences), str(found)
    assert check_equivalence(original, original, (x,)) if name != "exception" else True


def test_the_kind_of_gradients_that_must_stay_can_be_chosen() -> None:
    original, transformed = DIFFERENT["gradient of a parameter"]
    assert check_equivalence(original, transformed, (X.clone().requires_grad_(),), gradients="inputs")
    assert not check_equivalence(original, transformed, (X.clone().requires_grad_(),), gradients="all")
    assert check_equivalence(*DIFFERENT["gradient"], (X.clone(),), gradients="none")


def test_a_tolerance_is_relative_to_the_largest_value() -> None:
    tolerance = Tolerance(relative=1e-3, absolute=1e-3)
    assert (
        check_equivalence(lambda x: x, lambda x: x + 1e-4, (X,), tolerance=tolerance, gradients="none")
        .differences[0]
        .what
        == "aliasing"
    )
    assert check_equivalence(lambda x: x * 2, lambda x: x * 2 + 9e-4 + x * 1e-3, (X,), tolerance=tolerance)
    found = check_equivalence(lambda x: x * 2, lambda x: x * 2 + 1e-2, (X,), tolerance=tolerance)
    assert found.differences[0].what == "value"
    assert 0.005 < found.largest_error < 0.02


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.view(-1),
        lambda x: torch.nn.functional.dropout(x),
        lambda x: {"a": [x + 1, None], "b": (x, 3, "text", float("nan"))},
        lambda x: x.expand(4, 2, 3),
        lambda x: x.unfold(1, 2, 1),
        lambda x: x[:, :0],
        lambda x: x.sum(),
        lambda x: x.to(torch.bfloat16),
        lambda x: torch.complex(x, x),
        lambda x: x > 0,
        changing,
    ],
)
def test_a_function_equals_itself(function: Callable[..., Any]) -> None:
    found = check_equivalence(function, function, (X.clone(),))
    assert found, str(found)
    assert found.cases == ("as given", "fresh values", "zeros of both signs", "special values")


def test_nothing_of_the_callers_changes() -> None:
    module, x = Stateful(count), X.clone().requires_grad_()
    loss = (x * module.weight).sum()
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    state = torch.get_rng_state()
    check_equivalence(module, Stateful(no_training), (x,))
    assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(x, X)
    assert x.grad is None
    assert module.norm.training
    loss.backward()


def test_overlapping_inputs_stay_overlapping() -> None:
    def original(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return y * 2

    x = torch.arange(6.0)
    assert check_equivalence(original, original, (x, x[:3]))
    found = check_equivalence(original, lambda x, y: (x.add(1), y * 2)[1], (x, x[:3]))
    assert {"value", "mutation"} <= {difference.what for difference in found.differences}


def test_integers_keep_the_range_that_they_have() -> None:
    table = torch.randn(5, 2)
    found = check_equivalence(lambda i: table[i] * 2, lambda i: 2 * table[i], (torch.tensor([4, 0, 3]),))
    assert found
    assert not found.raised


def test_if_the_original_always_raises_nothing_was_compared() -> None:
    with pytest.raises(ValueError, match="raises on all of these inputs"):
        check_equivalence(raising, raising, (X,))


def test_more_inputs_are_tried_as_they_are() -> None:
    found = check_equivalence(
        lambda x: x * 2, lambda x: x * 2 if len(x) < 5 else x * 3, (X,), more_inputs=[(torch.ones(5),)]
    )
    assert found.differences[0].case == "more inputs 0"


@pytest.mark.parametrize("guilty", range(7))
def test_the_guilty_rewrite_is_found_in_few_calls(guilty: int) -> None:
    calls = []

    def right(kept: frozenset[int]) -> bool:
        calls.append(kept)
        return guilty not in kept

    assert bisect_rewrites(7, right) == guilty
    assert len(calls) <= math.ceil(math.log2(7))


def test_where_two_are_wrong_together_the_later_is_blamed() -> None:
    assert bisect_rewrites(9, lambda kept: not {2, 5} <= kept) == 5


def test_there_must_be_a_rewrite_to_blame() -> None:
    with pytest.raises(ValueError, match="count is 0; expected at least one"):
        bisect_rewrites(0, lambda kept: True)


def test_the_result_reads_as_a_sentence() -> None:
    assert str(check_equivalence(torch.sin, torch.sin, (X,))) == "the same on 4 sets of inputs; largest error 0"
    assert str(EXACT) == "bitwise"
    text = str(check_equivalence(torch.sin, torch.cos, (X,)))
    assert text.startswith("value of output: 6 of 6 values differ, first at [0, 0]")
    assert text.endswith("(inputs: as given)")
