"""When two values are the same."""

from __future__ import annotations

import math
import struct
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fxopt_core.verification import EXACT, Tolerance
from fxopt_core.verification.comparison import same_scalar, same_value, tensor_error

FLOATING = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2]
INTEGERS = [torch.bool, torch.int8, torch.int64, torch.uint8, torch.uint16, torch.uint32, torch.uint64]
SPECIAL = [0.0, -0.0, math.inf, -math.inf, math.nan, 5e-324, 1e-40, 1.0, -1.0]
numbers = st.floats(width=32) | st.sampled_from(SPECIAL)


@given(st.lists(st.tuples(numbers, numbers), max_size=5))
def test_every_bit_counts_except_those_of_nan(pairs: list[tuple[float, float]]) -> None:
    one, other = (torch.tensor([pair[side] for pair in pairs], dtype=torch.float64) for side in (0, 1))
    same = all((a != a and b != b) or struct.pack("d", a) == struct.pack("d", b) for a, b in pairs)
    assert (tensor_error(one, other, EXACT)[1] is None) == same
    assert same_value(one, other) == same


@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=5), st.sampled_from([1e-6, 1e-2, 1.0]))
def test_a_tolerance_is_a_share_of_the_largest_finite_value(pairs: list[tuple[float, float]], share: float) -> None:
    found, expected = (torch.tensor([pair[side] for pair in pairs], dtype=torch.float64) for side in (0, 1))
    bound = share * max((abs(b) for _, b in pairs if math.isfinite(b)), default=0.0)

    def near(a: float, b: float) -> bool:
        return a == b or (a != a and b != b) or (math.isfinite(a) and math.isfinite(b) and abs(a - b) <= bound)

    assert (tensor_error(found, expected, Tolerance(share))[1] is None) == all(near(a, b) for a, b in pairs)


@pytest.mark.parametrize("dtype", [*FLOATING, *INTEGERS, torch.complex64, torch.complex128])
def test_every_dtype_is_compared(dtype: torch.dtype) -> None:
    tensor = torch.tensor([0, 1, 1, 0]).to(dtype)
    assert tensor_error(tensor, tensor.clone(), EXACT) == (0.0, None)
    other = torch.tensor([0, 1, 0, 0]).to(dtype)
    words = tensor_error(other, tensor, EXACT)[1]
    assert words is not None
    assert words.startswith("1 of ")
    assert tensor_error(tensor[:0], other[:0], EXACT) == (0.0, None)
    assert tensor_error(tensor[0], other[0], EXACT) == (0.0, None)


@pytest.mark.parametrize("dtype", FLOATING)
def test_the_sign_of_zero_counts_in_every_dtype(dtype: torch.dtype) -> None:
    zero = torch.zeros(2).to(dtype)
    negative = (-torch.zeros(2)).to(dtype)
    error, words = tensor_error(negative, zero, EXACT)
    assert (error, words) == (0.0, "2 of 2 values differ, first at [0]: -0.0 instead of 0.0")
    assert tensor_error(negative, zero, Tolerance(absolute=1e-9))[1] is None


def test_errors_are_in_units_of_the_values() -> None:
    expected = torch.tensor([[1.0, 2.0], [3.0, -40.0]])
    found = torch.tensor([[1.0, 2.0], [3.5, -40.25]])
    assert tensor_error(found, expected, EXACT) == (
        0.5, "2 of 4 values differ, first at [1, 0]: 3.5 instead of 3.0")  # fmt: skip
    assert tensor_error(found, expected, Tolerance(relative=0.0125)) == (0.5, None)
    assert tensor_error(found, expected, Tolerance(relative=0.0124))[1] is not None
    assert tensor_error(found, expected, Tolerance(absolute=0.5))[1] is None


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (1, 1, True), (1, True, False), (1, 1.0, False), (0.0, -0.0, False), (math.nan, float("nan"), True),
        (complex(0.0, math.nan), complex(0.0, math.nan), True), (complex(0.0, 1), complex(-0.0, 1), False),
        ("a", "a", True), (None, None, True), (None, 0, False), (torch.float32, torch.float64, False),
        (torch.Size([2]), torch.Size([2]), True), (slice(1), slice(1), True),
    ],
)  # fmt: skip
def test_scalars_are_the_same_in_type_and_bits(one: Any, other: Any, same: bool) -> None:
    assert same_scalar(one, other) == same


def test_values_are_the_same_in_everything() -> None:
    tensor = torch.ones(2, 2)
    for other in (tensor.double(), tensor.reshape(4), tensor.t(), tensor.clone().requires_grad_(), 1.0):
        assert not same_value(tensor, other)
    assert same_value(tensor, tensor.clone())


def test_tolerances_say_what_they_allow() -> None:
    assert str(EXACT) == "bitwise"
    assert str(Tolerance(1e-5, 2.0)) == "within 1e-05 of the largest value + 2"


def test_of_values_that_hold_tensors_no_one_truth_can_be_told() -> None:
    pair = type("Pair", (tuple,), {})
    with pytest.raises(TypeError, match=r"two values of type Pair are the same is not known\. Take and return tensors"):
        same_scalar(pair((torch.ones(3),)), pair((torch.ones(3),)))
