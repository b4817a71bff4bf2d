"""One test that it captures, and one that it refuses: write both for each refusal of yours."""

import pytest
import torch

from my_capstone.with_known_shapes import capture


class Steps(torch.nn.Module):
    def forward(self, x):
        total = x[:, 0]
        for place in range(1, x.shape[1]):
            total = torch.sin(total) + x[:, place]
        return total


class Choice(torch.nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x


def test_a_loop_over_a_size_is_captured() -> None:
    graph_module = capture(Steps(), (torch.randn(2, 4),))
    other = torch.randn(2, 4)
    assert torch.equal(graph_module(other), Steps()(other))


def test_a_choice_by_value_is_refused() -> None:
    with pytest.raises(ValueError, match="control flow"):
        capture(Choice(), (torch.randn(3),))
