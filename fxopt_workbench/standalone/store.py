"""Tensors and other values of a captured graph as Python expressions, the tensors' contents in a file beside."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Any

import torch

from fxopt_core.capture.errors import CaptureError

ADVICE = "draw the graph, or keep the model from which it was captured."


class TensorStore:
    """Collects tensors under names, equal ones once, and writes the expressions that read them back.

    Attributes:
        tensors: what goes into the file of tensors, contiguous, on the CPU.
    """

    def __init__(self, method: str) -> None:
        self.tensors: dict[str, torch.Tensor] = {}
        self._names: dict[tuple[Any, ...], str] = {}
        self._method = method

    def expression(self, value: Any, name: str) -> str:
        """A Python expression for `value`; its tensors are kept under `name`, or a name that begins with it.

        Raises:
            CaptureError: a value of a type that has no such expression.
        """
        if isinstance(value, torch.Tensor):
            return self._tensor(value, name)
        if isinstance(value, torch.Size):
            return f"torch.Size({list(value)})"
        if type(value) in (tuple, list):
            inside = [self.expression(element, f"{name}.{index}") for index, element in enumerate(value)]
            if isinstance(value, list):
                return f"[{', '.join(inside)}]"
            return f"({', '.join(inside)},)" if inside else "()"
        if isinstance(value, Mapping):
            pairs = (
                f"{self.expression(key, name)}: {self.expression(part, f'{name}.{key}')}" for key, part in value.items()
            )
            return f"{{{', '.join(pairs)}}}"
        if isinstance(value, float) and not math.isfinite(value):
            return f'float("{value}")'
        if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
            return str(value)
        if isinstance(value, torch.device):
            return f"torch.{value!r}"
        if value is None or type(value) in (bool, int, float, complex, str):
            return repr(value)
        raise CaptureError(
            self._method,
            f"a graph takes or returns a {type(value).__name__}, which cannot be written as Python.",
            ADVICE,
        )

    def _tensor(self, tensor: torch.Tensor, name: str) -> str:
        plain = tensor.detach().cpu().contiguous()
        if plain.is_complex() or plain.layout != torch.strided:
            raise CaptureError(
                self._method,
                f"{name} is a {tensor.dtype}, {tensor.layout} tensor, which safetensors cannot hold.",
                ADVICE,
            )
        content = plain.reshape(-1).view(torch.uint8).numpy().tobytes() if plain.numel() else b""
        key = (plain.dtype, tuple(plain.shape), hashlib.sha256(content).digest())
        stored_as = self._names.setdefault(key, name)
        # A tensor and its owner may share memory, which safetensors refuses.
        self.tensors.setdefault(stored_as, plain.clone())
        arguments = [repr(stored_as)]
        if tensor.device.type != "cpu":
            arguments.append(f"device={str(tensor.device)!r}")
        if not tensor.is_contiguous():
            arguments.append(f"stride={tuple(tensor.stride())}")
        return f"tensor({', '.join(arguments)})"
