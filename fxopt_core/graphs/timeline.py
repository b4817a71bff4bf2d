"""What happens in a graph besides computing, in the order in which it happens."""

from __future__ import annotations

from bisect import bisect_left
from functools import cached_property
from typing import NamedTuple

import torch
from torch import fx

from fxopt_core.graphs.aliases import OUTSIDE, Storages
from fxopt_core.graphs.effects import Effects, Storage


class Mode(NamedTuple):
    """The mode in which a node runs.

    Attributes:
        switches: of modes (gradients, autocast) before it: where the numbers are equal, so is the mode.
        gradients: whether gradients are on, as far as the graph says.
    """

    switches: int
    gradients: bool | None


class Timeline:
    """Where in a graph modes are switched, numbers drawn and storages written, as positions of nodes.

    What nothing is known of counts as all three. Linear in the nodes that do something; who asks for a graph in which
    nothing happens pays nothing.

    Args:
        graph: the graph, which must not change while this is asked.
        storages: its storage classes.

    Attributes:
        switches: positions of nodes after which another mode may hold.
        draws: positions of nodes that draw random numbers.
    """

    def __init__(self, graph: fx.Graph, storages: Storages) -> None:
        self._graph, self._storages = graph, storages
        self._switching: list[tuple[fx.Node, Effects]] = []
        self.switches: list[int] = []
        self.draws: list[int] = []
        self._writing: list[tuple[Storage, int]] = []
        self._writes: dict[Storage, list[int]] = {}
        self._merges = -1
        for node, effects in storages.effectful.items():
            if not effects.observable:
                continue
            if effects.context or effects.opaque:
                self._switching.append((node, effects))
                self.switches.append(self.position[node])
            if effects.random or effects.opaque:
                self.draws.append(self.position[node])
            for place in (*effects.writes, *((OUTSIDE,) if effects.opaque else ())):
                self._writing.append((place, self.position[node]))

    @cached_property
    def nodes(self) -> list[fx.Node]:
        """All nodes in order."""
        return list(self._graph.nodes)

    @cached_property
    def position(self) -> dict[fx.Node, int]:
        """The position of each node in order."""
        return {node: position for position, node in enumerate(self.nodes)}

    @cached_property
    def _modes(self) -> list[Mode]:
        """The mode before the first switch and after each."""
        modes = [Mode(0, None)]
        for node, effects in self._switching:
            gradients = modes[-1].gradients
            if not effects.opaque and node.target is torch._C._set_grad_enabled and type(node.args[0]) is bool:
                gradients = node.args[0]
            elif effects.opaque or "autocast" not in str(node.target):
                gradients = None
            modes.append(Mode(len(modes), gradients))
        return modes

    def mode(self, node: fx.Node) -> Mode:
        """The mode in which a node runs."""
        return self._modes[bisect_left(self.switches, self.position[node]) if self.switches else 0]

    def writes(self, place: Storage) -> list[int]:
        """Positions of the nodes that may write the storage of a value, in order."""
        if self._merges != self._storages.merges:
            # Classes that have become one since have one history.
            self._merges, self._writes = self._storages.merges, {}
            for written, position in self._writing:
                self._writes.setdefault(self._storages.of(written), []).append(position)
        return self._writes.get(self._storages.of(place), [])

    def version(self, place: Storage, node: fx.Node) -> int:
        """How often the storage of a value may have been written before a node."""
        return bisect_left(self.writes(place), self.position[node])
