"""The inputs on which functions are compared."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fxopt_core.verification.cases import Case, cases, further_draws, negative_integers


def made(*args: Any, largest: bool = True) -> dict[str, Case]:
    return {case.name: case for case in cases(args, {}, 0, largest=largest)}


FLOATING = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.complex64]


@pytest.mark.parametrize("dtype", FLOATING)
def test_fresh_values_keep_everything_but_the_values(dtype: torch.dtype) -> None:
    x = torch.zeros(4, 6).to(dtype).t()[::2].requires_grad_()
    (y,) = made(x)["fresh values"].args
    assert (y.dtype, y.shape, y.stride(), y.requires_grad, y.is_leaf) == (dtype, x.shape, x.stride(), True, True)
    values = y.detach().to(torch.complex64 if dtype.is_complex else torch.float32)
    assert len(set(values.flatten().tolist())) > 8
    assert not dtype.is_complex or (values.imag != 0).all()
    assert x.detach().to(torch.complex64).abs().sum() == 0


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.uint16, torch.int32, torch.int64])
def test_integers_are_those_that_were_given(dtype: torch.dtype) -> None:
    x = torch.tensor([1, 0, 0, 1, 1, 7, 9, 3]).to(dtype)
    for case in made(x).values():
        assert sorted(case.args[0].tolist()) == sorted(x.tolist())
    assert any(case.args[0].tolist() != x.tolist() for case in made(x).values())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("count", [8, 100])
def test_special_values_are_all_there(dtype: torch.dtype, count: int) -> None:
    (x,) = made(torch.ones(count, dtype=dtype))["special values"].args
    limits = torch.finfo(dtype)
    assert x.isnan().any()
    assert {torch.inf, -torch.inf, limits.max, limits.min} <= set(x.tolist())
    assert ((x != 0) & (x.abs() < limits.tiny)).any()
    assert {torch.signbit(zero).item() for zero in x[x == 0]} == {True, False}
    assert count == 8 or (x.isfinite() & (x.abs() < 10) & (x.abs() > 1e-3)).sum() > 30


def test_zeros_are_of_both_signs_and_the_largest_numbers_can_be_left_out() -> None:
    tried = made(torch.ones(50), largest=False)
    assert list(tried) == ["fresh values", "zeros of both signs", "special values"]
    (special,) = tried["special values"].args
    assert special.isnan().any()
    assert {torch.inf, -torch.inf} <= set(special.tolist())
    assert special[special.isfinite()].abs().max() < 10
    (x,) = tried["zeros of both signs"].args
    assert (x == 0).all()
    assert 5 < torch.signbit(x).sum() < 45


@pytest.mark.parametrize(
    "view",
    [
        lambda base: base.expand(3, 6),
        lambda base: base.unfold(0, 3, 1),
        lambda base: base[2:],
        lambda base: base[::2],
        lambda base: base[:0],
        lambda base: base[3],
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_elements_that_share_memory_still_do(view: Any, dtype: torch.dtype) -> None:
    base = torch.arange(6).to(dtype)
    x = view(base)
    for case in made(base, x).values():
        one, other = case.args
        assert (other.stride(), other.storage_offset()) == (x.stride(), x.storage_offset())
        assert torch.equal(view(one), other) or not torch.isfinite(one).all()
        assert one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()
    assert base.tolist() == list(range(6))


def test_what_lies_between_the_elements_stays() -> None:
    base = torch.arange(6.0)
    x = base[1:5:2]
    (y,) = made(x)["fresh values"].args
    whole = y.as_strided((6,), (1,), 0)
    assert whole[[0, 2, 4, 5]].tolist() == [0, 2, 4, 5]
    assert not set(y.tolist()) & {1.0, 3.0}


def test_copies_are_leaves_that_are_one_where_the_originals_are() -> None:
    x = torch.ones(3, requires_grad=True) * 2
    (one, other), kwargs = Case("", (x, x), {"view": x[1:]}).fresh_inputs()
    assert one is other
    assert one.is_leaf
    assert one.requires_grad
    assert kwargs["view"].untyped_storage().data_ptr() == one.untyped_storage().data_ptr()
    assert one.untyped_storage().data_ptr() != x.untyped_storage().data_ptr()


def test_the_same_seed_gives_the_same_inputs() -> None:
    x = torch.ones(20)
    first, again = made(x, x[:3]), made(x, x[:3])
    for name, case in first.items():
        for one, other in zip(case.args, again[name].args, strict=True):
            assert torch.equal(one.nan_to_num(), other.nan_to_num())
    (other,) = next(cases((x,), {}, 1, largest=True)).args
    assert not torch.equal(first["fresh values"].args[0], other)


def test_whole_numbers_are_tried_below_zero_odd_and_even() -> None:
    x = torch.tensor([2, 4, 6], dtype=torch.int32)
    found = [case.args[0].tolist() for case in negative_integers((x,), {}, seed=0)]
    assert [sorted(abs(number) % 2 for number in one) for one in found] == [[0, 0, 1], [0, 1, 1]]
    assert all(-7 <= number <= -2 for one in found for number in one)
    assert x.tolist() == [2, 4, 6]
    # A loop may count a single number down to zero, and the others have no numbers below.
    others = (torch.tensor([3]), torch.tensor([True, False]), torch.tensor([1, 2], dtype=torch.uint8), torch.ones(3))
    assert negative_integers(others, {}, seed=0) == []


def test_small_inputs_are_drawn_until_there_are_numbers_enough() -> None:
    def draws(*shape: int) -> int:
        return len(further_draws((torch.ones(shape),), {}, seed=0))

    assert [draws(3, 4), draws(60), draws(200), draws(0)] == [8, 2, 0, 0]
    (first, *_), (again, *_) = (further_draws((torch.ones(12),), {}, seed=0) for _ in range(2))
    assert torch.equal(first.args[0], again.args[0])
    sizes = first.args[0].abs().log2()
    assert sizes.max() - sizes.min() > 6
