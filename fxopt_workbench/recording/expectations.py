"""The guards inside a recorded graph. Each function stands by itself: a standalone file takes its source."""

from __future__ import annotations

import torch
from torch.fx.node import has_side_effect


@has_side_effect
def expect_value(value: object, recorded: str, read: str) -> None:
    """Refuse a call on which Python would have read another value.

    Args:
        value: a number, or a tensor of which every element was read.
        recorded: how Python writes the value of the recording. So numbers are compared to the last bit, and NaN is
            equal to itself.
        read: where, in words.

    Raises:
        AssertionError: the value is another one.
    """
    written = repr(value.tolist() if isinstance(value, torch.Tensor) else value)
    if written != recorded:
        raise AssertionError(
            f"this graph is for {recorded[:200]}, read by {read}; it is {written[:200]} now. Capture again with these "
            "inputs."
        )


@has_side_effect
def expect_shape(value: torch.Tensor, recorded: str, read: str) -> None:
    """Refuse a call on which a result whose size depends on values has another size.

    Args:
        value: a tensor.
        recorded: its shape in the recording, as Python writes a list.
        read: by which operator, and where.

    Raises:
        AssertionError: the shape is another one.
    """
    written = repr(list(value.shape))
    if written != recorded:
        raise AssertionError(
            f"this graph is for the shape {recorded}, the result of {read}; it is {written} now. Capture again with "
            "these inputs."
        )


EXPECTATIONS = (expect_value, expect_shape)
"""Every function of this kind."""
