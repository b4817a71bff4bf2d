"""The example values of new nodes, computed without data."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import torch
from torch import fx

from fxopt_core.graphs.effects import is_pure_function
from fxopt_core.graphs.examples import called
from fxopt_core.graphs.literal_keys import UnknownLiteralError, literal_key


class ExampleValues:
    """Computes example values, and remembers of what kind the results of pure functions are.

    A computation without data takes some 80 microseconds even where nothing new can come of it. So where a pure
    function has been called with arguments of these kinds before, and a value of the same kind as its result is
    about to be replaced, the new node takes that value over.
    """

    def __init__(self) -> None:
        self._kinds: dict[Hashable, Hashable] = {}
        self._last: tuple[Any, Hashable] = (None, None)

    def value(self, node: fx.Node, inputs: list[fx.Node], name: str, like: fx.Node) -> Any:
        """What a new node gives for the example values of its inputs; `None` if they are unknown.

        Args:
            node: the new node, which calls a function.
            inputs: the nodes that it reads.
            name: of the example values in `meta`.
            like: the node in whose place it stands, whose value it takes over if that is of the same kind.
        """
        if not inputs or name not in inputs[0].meta or any(name not in source.meta for source in inputs):
            return None
        key = self._key(node, inputs, name) if is_pure_function(node) else None
        known = self._kinds.get(key) if key is not None else None
        if known is not None and self._kind_of(old := like.meta.get(name)) == known:
            return old
        arguments, keywords = fx.node.map_arg((node.args, node.kwargs), lambda source: source.meta[name])
        with torch.no_grad():
            value = called(node, arguments, keywords)
        if key is not None:
            self._kinds[key] = kind_of(value)
        return value

    def _kind_of(self, value: Any) -> Hashable:
        """The kind of a value, remembered for the last one: what replaces a chain reads what it made before."""
        if self._last[0] is not value:
            self._last = (value, kind_of(value))
        return self._last[1]

    def _key(self, node: fx.Node, inputs: list[fx.Node], name: str) -> Hashable:
        """Equal for calls of one function with arguments of the same kinds; `None` where they are not all known."""
        kinds: dict[fx.Node, Any] = {source: self._kind_of(source.meta[name]) for source in inputs}
        if None in kinds.values():
            return None
        if not node.kwargs and list(node.args) == inputs:
            return (node.target, *kinds.values())
        try:
            return (node.target, literal_key(node.args, kinds), literal_key(node.kwargs, kinds))
        except UnknownLiteralError:
            return None


def kind_of(value: Any) -> Hashable:
    """All that a computation without data depends on; `None` where that is more than can be compared."""
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided or value.is_conj() or value.is_neg():
        return None
    place = (value.shape, value.stride(), value.storage_offset())
    # Comparing symbolic sizes would make assumptions about inputs.
    return None if value._has_symbolic_sizes_strides else (type(value), value.dtype, value.device, place)
