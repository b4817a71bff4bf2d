"""Calls that read no value of a graph, as nodes of it: `torch.fx` alone runs them while it traces."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from torch import fx
from torch.overrides import TorchFunctionMode


class NodesOfCreations(TorchFunctionMode):
    """A mode in which tracing also notes calls that create tensors or switch a mode."""

    def __init__(self, tracer: fx.proxy.TracerBase, noted: Collection[Any]) -> None:
        """Prepare.

        Args:
            tracer: which traces meanwhile.
            noted: the functions of which each call becomes a node.
        """
        super().__init__()
        self._tracer, self._noted = tracer, noted

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if function in self._noted:
            return self._tracer.create_proxy("call_function", function, args, kwargs or {})
        return function(*args, **(kwargs or {}))
