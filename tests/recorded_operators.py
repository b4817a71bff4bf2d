"""Which operators a call really reaches, below autograd and whatever a graph says."""

from __future__ import annotations

from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode


class Recorder(TorchDispatchMode):
    """Notes which operators are called."""

    def __init__(self) -> None:
        super().__init__()
        self.called: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.called.append(func._schema.name)
        return func(*args, **(kwargs or {}))
