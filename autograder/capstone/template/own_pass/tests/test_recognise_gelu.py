"""One test that it rewrites, and one that it refuses: write both for each condition of yours."""

import math

import torch
from fxopt_core.optimizer import GraphOptimizer

import my_capstone.recognise_gelu  # noqa: F401  registers the pass


def steps(x: torch.Tensor) -> torch.Tensor:
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


def rewrites(dtype: torch.dtype) -> int:
    result = GraphOptimizer(steps, (torch.randn(4, 8, dtype=dtype),)).optimize("recognise_gelu")
    assert result.report.equivalence
    return sum(len(graph.result.rewrites) for graph in result.report.graphs)


def test_it_is_recognised() -> None:
    assert rewrites(torch.float32) == 1


def test_half_precision_is_refused() -> None:
    assert rewrites(torch.float16) == 0
