"""PyTorch's own sample inputs of its operators, without what its test suite does around them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch


def sample_inputs(operator: Any, dtype: torch.dtype) -> Iterator[Any]:
    """Sample inputs of an operator (`OpInfo`) on the CPU, the same ones each time.

    `OpInfo.sample_inputs` looks in each frame of the stack, with its source, for a test that it may belong to, twice
    for each operator: four fifths of the time of a test that goes through all of them.
    """
    torch.manual_seed(0)
    return iter(operator.sample_inputs_func(operator, "cpu", dtype, requires_grad=False))
