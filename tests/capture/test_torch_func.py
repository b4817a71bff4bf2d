"""Models that differentiate or map inside: no call may leave a level of torch.func behind, whatever it raises."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fxopt_core import GraphOptimizer, capture
from fxopt_core.capture import CaptureError, RefusedInputError
from fxopt_core.verification import check_equivalence
from fxopt_core.verification.modes import unwound

X = torch.ones(3)


def forward_mode(x: torch.Tensor) -> torch.Tensor:
    return torch.func.jvp(torch.sin, (x,), (torch.ones_like(x),))[1]


def mapped(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return torch.vmap(lambda row: row.index_select(0, index))(x)


def levels() -> tuple[int, bool]:
    """How deep torch.func is, and whether forward mode has begun."""
    try:
        torch._C._exit_dual_level(level=torch._C._enter_dual_level())
    except RuntimeError:
        return torch._C._functorch.get_dynamic_layer_stack_depth(), True
    return torch._C._functorch.get_dynamic_layer_stack_depth(), False


def test_forward_mode_works_in_inference_mode_too() -> None:
    module = GraphOptimizer(forward_mode, (torch.randn(3),)).optimize().module
    for _ in range(2):
        with torch.inference_mode():
            torch.testing.assert_close(module(X).clone(), X.cos())
        torch.testing.assert_close(module(X), X.cos())
        torch.testing.assert_close(forward_mode(X), X.cos())
    with pytest.raises(CaptureError, match="differentiates in forward mode"):
        capture(forward_mode, (X,), "export")


@pytest.mark.parametrize("method", ["export", "dynamo"])
def test_a_call_that_raises_inside_leaves_no_level_behind(method: str) -> None:
    rows, index = torch.randn(2, 3), torch.tensor([1])
    run = capture(mapped, (rows, index), method).run
    torch.testing.assert_close(run(rows, index), rows[:, 1:2])
    with pytest.raises((IndexError, RuntimeError), match="out of"):
        run(rows, torch.tensor([7]))
    assert levels() == (0, False)
    torch.testing.assert_close(run(rows, index), rows[:, 1:2])


def test_a_graph_that_counts_levels_is_not_called_inside_another() -> None:
    rows, index = torch.randn(2, 3), torch.tensor([1])
    run = capture(mapped, (rows, index), "export").run
    with pytest.raises(RefusedInputError, match=r"the transforms of torch\.func"):
        torch.func.vmap(run, in_dims=(0, None))(rows.expand(4, 2, 3), index)


@pytest.mark.parametrize(
    "leave",
    [
        lambda: torch._C._functorch._vmap_increment_nesting(3, "same"),
        torch._C._functorch._jvp_increment_nesting,
        torch._C._enter_dual_level,
    ],
)
def test_levels_are_put_back(leave: Any) -> None:
    with unwound():
        leave()
    assert levels() == (0, False)

    def leaves_one(x: torch.Tensor) -> torch.Tensor:
        leave()
        raise ValueError("inside")

    with pytest.raises(ValueError, match="nothing to compare"):
        check_equivalence(leaves_one, leaves_one, (X,))
    assert levels() == (0, False)
