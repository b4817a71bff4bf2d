"""Which values may share storage, and which storages are written."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from fxopt_core.graphs.effects import PURE, Effects, Storage, effects_of, is_pure_function
from fxopt_core.graphs.examples import HELD_BY_MODULE, attribute_of
from fxopt_core.graphs.walks import reached

OUTSIDE = "<outside>"
"""Stands for all storage that somebody outside the graph may hold."""


class Storages:
    """The storage classes of one graph, as it is when this is made.

    Values that may share storage are in one class (union-find). A class says whether somebody may see its storage
    besides the nodes in it (it *escapes*: it comes from outside, is returned, or was handed to an opaque node), and
    whether it is written anywhere in the graph. Inputs are taken to be separate as long as none of them is written;
    once one is, all inputs, parameters and buffers are one class, since a caller may pass overlapping tensors. Of
    parameters and buffers, and of the inputs that Dynamo made of such, it is known which are one storage; one that is
    written is in a class with the inputs.

    Time and memory are linear in nodes and edges; values with storage of their own cost nothing.

    Args:
        graph: the graph. Its owning module is asked which parameters and buffers share storage.
        inputs_overlap: whether inputs may overlap with what is written, if the caller wills.

    Attributes:
        merges: how often two classes became one.
        returned: the nodes whose own value the graph may return, itself or as a view: what is returned, and what
            that may share storage with because it was computed from it.
        written_memory: of the parameters and buffers that some node may write, what `memory_of` says; `None` where that
            may be any: where the graph calls something unknown, or writes an input, which may be one of them.
    """

    def __init__(self, graph: fx.Graph, *, inputs_overlap: bool = True) -> None:
        self._parent: dict[Storage, Storage] = {}
        self.merges = 0
        self._effects: dict[fx.Node, Effects] = {}
        self._written: set[Storage] = set()
        self._escaped: set[Storage] = {OUTSIDE}
        outside: list[Storage] = []
        returned: list[fx.Node] = []
        # By identity: the hash of an operator is computed in Python.
        pure_functions: dict[int, Any] = {}
        for node in graph.nodes:
            target = node.target
            if id(target) in pure_functions:
                continue
            kind = node.op
            if kind == "placeholder":
                outside.append(node)
            elif kind == "output":
                returned = node.all_input_nodes
            effects = effects_of(node)
            if effects is not PURE:
                self._effects[node] = effects
                self._record(node, effects, outside)
            elif is_pure_function(node):
                pure_functions[id(target)] = target
        self.returned: set[fx.Node] = reached(returned, self.lent_by)
        self._escaped.update(outside)
        held = _held_memory(graph, outside)
        self._join_tied(held)
        for place in (*returned, *outside):
            self._escaped.add(self.of(place))
        self._escaped = {self.of(place) for place in self._escaped}
        self._written = {self.of(place) for place in self._written}
        self.written_memory = self._join_outside(outside, held) if inputs_overlap else None

    def _join_outside(self, outside: list[Storage], held: Mapping[Storage, Hashable]) -> frozenset[Hashable] | None:
        """Put what may be one storage, if the caller wills, into one class, where that matters: where it is written.

        Returns:
            `written_memory`.
        """
        inputs: list[Storage] = [OUTSIDE, *(place for place in outside if place not in held)]
        # A written buffer may be what the caller passes as an input, but it is no other buffer.
        written = [place for place in held if self.written(place)]
        memory = None if any(map(self.written, inputs)) else frozenset(held[place] for place in written)
        reached = [*inputs, *held] if memory is None else [*inputs, *written] if written else []
        for place in reached:
            self.merge(OUTSIDE, place)
        return memory

    def _record(self, node: fx.Node, effects: Effects, outside: list[Storage]) -> None:
        if effects.opaque:
            for source in node.all_input_nodes:
                self.merge(OUTSIDE, source)
            self.merge(OUTSIDE, node)
            self._written.add(OUTSIDE)
            return
        for place in effects.aliases:
            self.merge(place, node)
        for place in effects.writes:
            self._written.add(place)
        outside.extend(place for place in (*effects.aliases, *effects.writes) if isinstance(place, str))

    def lent_by(self, node: fx.Node) -> list[fx.Node]:
        """The nodes whose storage a node's value may be."""
        effects = self.effects(node)
        lent = node.all_input_nodes if effects.opaque else effects.aliases
        return [place for place in lent if isinstance(place, fx.Node)]

    def _join_tied(self, held: Mapping[Storage, Hashable]) -> None:
        """Put parameters and buffers that are views of one storage into one class."""
        first: dict[Hashable, Storage] = {}
        unknown = None in held.values()
        for place, memory in held.items():
            self.merge(OUTSIDE if unknown else first.setdefault(memory, place), place)

    def of(self, place: Storage) -> Storage:
        """The class of a value, or of a parameter or buffer by its name: one of its members stands for all."""
        parent = self._parent
        root = place
        while (above := parent.get(root)) is not None:
            root = above
        while (above := parent.get(place)) is not None:
            parent[place] = root
            place = above
        return root

    def merge(self, one: Storage, other: Storage) -> None:
        """Put the classes of two values into one."""
        kept, joined = self.of(one), self.of(other)
        if kept == joined:
            return
        self._parent[joined] = kept
        self.merges += 1
        if joined in self._written:
            self._written.add(kept)
        if joined in self._escaped:
            self._escaped.add(kept)

    def effects(self, node: fx.Node) -> Effects:
        """The effects of a node of the graph."""
        return self._effects.get(node, PURE)

    @property
    def effectful(self) -> Mapping[fx.Node, Effects]:
        """The nodes that are not pure, in order, with their effects."""
        return self._effects

    def written(self, place: Storage) -> bool:
        """Whether some node of the graph may write the storage of the value."""
        return self.of(place) in self._written

    def escapes(self, place: Storage) -> bool:
        """Whether somebody outside the graph may hold the storage of the value."""
        return self.of(place) in self._escaped

    @property
    def pure(self) -> bool:
        """Whether no node of the graph writes anything."""
        return not self._written


def _held_memory(graph: fx.Graph, outside: list[Storage]) -> dict[Storage, Hashable]:
    """The parameters and buffers that a graph names or gets as inputs, with what `memory_of` says of each."""
    owner = graph.owning_module
    held: dict[Storage, Hashable] = {}
    for place in outside:
        if isinstance(place, str):
            held[place] = memory_of(attribute_of(owner, place))
        elif HELD_BY_MODULE in place.meta:
            held[place] = place.meta[HELD_BY_MODULE]
    return held


def memory_of(value: Any) -> Hashable:
    """What tensors over the same memory have in common; `None` where the value may be over the memory of several."""
    if isinstance(value, torch.nn.Module):
        return id(value)
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided or is_traceable_wrapper_subclass(value):
        return None
    storage = value.untyped_storage()
    # Storages of their own may lie on one address: two tensors made from one NumPy array.
    address = 0 if isinstance(value, FakeTensor) else storage.data_ptr()
    return address or ("without memory", storage._cdata)
