"""The guilty rewrite is found, in few calls."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fxopt_core.verification import bisect_rewrites


@given(st.integers(1, 300), st.data())
def test_the_guilty_rewrite_is_found_in_few_calls(count: int, data: st.DataObject) -> None:
    guilty = data.draw(st.integers(0, count - 1))
    calls = []

    def right(made: int) -> bool:
        calls.append(made)
        return guilty >= made

    assert bisect_rewrites(count, right) == guilty
    assert len(calls) <= math.ceil(math.log2(count))


def test_where_two_are_wrong_together_the_later_is_blamed() -> None:
    assert bisect_rewrites(9, lambda made: not {2, 5} <= set(range(made))) == 5


@given(st.sets(st.integers(1, 29)))
def test_where_one_repairs_another_a_step_from_right_to_wrong_is_found(wrong: set[int]) -> None:
    def right(made: int) -> bool:
        return made not in wrong | {30}

    found = bisect_rewrites(30, right)
    assert right(found)
    assert not right(found + 1)


def test_there_must_be_a_rewrite_to_blame() -> None:
    with pytest.raises(ValueError, match="count is 0; expected at least one"):
        bisect_rewrites(0, lambda made: True)
