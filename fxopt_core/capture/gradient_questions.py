"""Noticing that a model asks whether gradients are wanted, while it is captured.

What it then does is fixed in the graph: `nn.TransformerEncoderLayer` takes another path where nothing requires grad.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_ATTRIBUTES = [torch.Tensor.requires_grad, torch.Tensor.grad_fn, torch.Tensor.is_leaf]
_MACHINERY = (
    "torch._",
    "torch.autograd",
    "torch.export",
    "torch.fx",
    "torch.nn.modules.module",
    "torch.nn.parameter",
    "torch.overrides",
    "torch.utils._",
)
"""Modules of torch that ask for reasons of their own: to save and put back the mode, to make stand-ins of tensors."""


class GradientQuestions(TorchFunctionMode):
    """While active, notices each question of the model's.

    Attributes:
        asked: whether there was one.
    """

    def __init__(self) -> None:
        super().__init__()
        self.asked = False

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Make the call, and see whether it reads one of the attributes."""
        if getattr(function, "__self__", None) in _ATTRIBUTES:
            self.note(sys._getframe(1))
        return function(*args, **(kwargs or {}))

    def note(self, frame: FrameType | None) -> None:
        """See who asks: `torch.export` has modes of its own, through which the question comes."""
        while frame is not None and frame.f_code.co_name == "__torch_function__":
            frame = frame.f_back
        name = str(frame.f_globals.get("__name__", "")) if frame is not None else ""
        self.asked |= not name.startswith(_MACHINERY)


@contextmanager
def gradient_questions() -> Iterator[GradientQuestions]:
    """Notice the questions inside the block: attributes of tensors, and `torch.is_grad_enabled()`."""
    original = torch.is_grad_enabled
    with GradientQuestions() as questions:

        def is_grad_enabled() -> bool:
            questions.note(sys._getframe(1))
            return original()

        torch.is_grad_enabled = is_grad_enabled
        try:
            yield questions
        finally:
            torch.is_grad_enabled = original
