"""A call that leads to another decision than the example is refused in words that a user knows."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fxopt_core import GraphOptimizer, capture
from fxopt_core.capture import RefusedInputError

X = torch.ones(3, 4)


@pytest.mark.parametrize(
    ("function", "other", "about"),
    [
        (lambda x: x * 2 if x.sum() > 0 else x * 3, -X, r"gt\(sum\(x\), 0\)"),
        (lambda x: x if bool(x.isnan().any()) else x + 1, X * float("nan"), r"any\(isnan\(x\)\)"),
        (lambda x: x * 2 if x.sum().item() > 0 else x * 3, -X, r"sum\(x\)"),
    ],
)
def test_a_decision_on_values_is_told_by_what_is_read(function: Any, other: torch.Tensor, about: str) -> None:
    run = capture(function, (X,), "auto").run
    torch.testing.assert_close(run(X), function(X))
    with pytest.raises(
        RefusedInputError, match=f"the value that the model reads from .*{about}.*torch.where"
    ) as caught:
        run(other)
    assert isinstance(caught.value, AssertionError)
    assert "on node" not in str(caught.value)


@pytest.mark.parametrize(
    ("function", "other", "about"),
    [
        (lambda x: x * 2 if x.shape[0] > 4 else x * 3, torch.ones(6, 4), r"expected x.*<= 4.*x of shape \[6, 4\]"),
        (lambda x: x * 2 if 12 % (x.shape[0] - 5) == 0 else x, torch.ones(5, 4), r"ZeroDivisionError.*shape \[5, 4\]"),
    ],
)
def test_a_decision_on_sizes_is_told_with_the_shapes(function: Any, other: torch.Tensor, about: str) -> None:
    module = GraphOptimizer(function, (X,), dynamic=True).optimize().module
    torch.testing.assert_close(module(X), function(X))
    with pytest.raises(RefusedInputError, match=f"the sizes of the inputs: .*{about}"):
        module(other)


def test_the_errors_of_the_model_itself_stay_what_they_are() -> None:
    def asserting(x: torch.Tensor) -> torch.Tensor:
        torch._assert(x.shape[0] < 5, "too many rows")
        return x * 2

    def indexing(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return x.index_select(0, index)

    run = capture(indexing, (X, torch.tensor([1])), "export").run
    with pytest.raises(IndexError if _raises(indexing) is IndexError else RuntimeError) as caught:
        run(X, torch.tensor([9]))
    assert not isinstance(caught.value, RefusedInputError)
    torch.testing.assert_close(capture(asserting, (X,), "export").run(X), X * 2)


def _raises(function: Any) -> type[BaseException]:
    with pytest.raises(Exception) as caught:  # noqa: PT011  which one it is, is asked
        function(X, torch.tensor([9]))
    return caught.type
