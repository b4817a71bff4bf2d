"""For judges: what each node of a graph does besides computing, seen while it runs.

`fxopt_core.graphs.effects` knows it from schemas and tables, and learners ask that. What a judge expects comes from
here: the graph runs node by node, and after each node every tensor and the random stream are looked at.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.utils._pytree import tree_leaves

from autograder.exchange.graph_form import process_state_restored

SWITCHES = frozenset(
    {
        torch._C._set_grad_enabled,
        torch.amp.autocast_mode._enter_autocast,
        torch.amp.autocast_mode._exit_autocast,
    }
)
CHECKS = frozenset({torch._assert})
UNKNOWN_METHODS = frozenset({"is_shared", "detach_"})
UNKNOWN_FUNCTIONS = frozenset({torch.nn.functional.upsample_nearest})
"""What the programs of cases switch, check and call of which nobody knows what it does: none of it can be seen."""


@dataclass(frozen=True)
class Seen:
    """What one node was seen to do, in one run.

    Attributes:
        value: the storages of what it returned.
        wrote: the storages that it wrote.
        drew: whether the random stream moved.
        switched: whether it switches a mode.
        checked: whether it may stop the run, and is there for that.
        unknown: whether it calls something of which nothing is known.
    """

    value: frozenset[int]
    wrote: frozenset[int]
    drew: bool
    switched: bool
    checked: bool
    unknown: bool

    @property
    def acts(self) -> bool:
        """Whether it does anything besides computing its value."""
        return bool(self.wrote or self.drew or self.switched or self.checked or self.unknown)

    @property
    def kind(self) -> str:
        """The most telling thing that it does, in a word; `""` for nothing."""
        kinds = (
            ("draw", self.drew),
            ("write", bool(self.wrote)),
            ("switch", self.switched),
            ("check", self.checked),
            ("unknown", self.unknown),
        )
        return next((name for name, does in kinds if does), "")


def seen_effects(graph_module: fx.GraphModule, inputs: Sequence[torch.Tensor]) -> dict[fx.Node, Seen]:
    """What each node of a judge's own graph does, in order. Runs a copy, without gradients."""
    copied = copy.deepcopy(graph_module)
    watched = _Watched(copied)
    with process_state_restored(), torch.no_grad():
        torch.random.default_generator.manual_seed(0)
        watched.run(*[value.clone() for value in inputs])
    return {node: watched.seen[twin] for node, twin in zip(graph_module.graph.nodes, copied.graph.nodes, strict=True)}


def storage_of(tensor: torch.Tensor) -> int:
    """A number that tensors over the same memory share, while one of them lives."""
    return int(tensor.untyped_storage()._cdata)


class _Watched(fx.Interpreter):
    def __init__(self, graph_module: fx.GraphModule) -> None:
        super().__init__(graph_module, garbage_collect_values=False)
        self.seen: dict[fx.Node, Seen] = {}

    def _tensors(self) -> list[torch.Tensor]:
        held = [*self.module.parameters(), *self.module.buffers()]
        return held + [leaf for leaf in tree_leaves(list(self.env.values())) if isinstance(leaf, torch.Tensor)]

    def run_node(self, n: fx.Node) -> Any:
        tensors = self._tensors()
        # Running statistics are written behind the back of the counter of versions: look at the numbers, too.
        before = [(tensor._version, tensor.detach().clone()) for tensor in tensors]
        stream = torch.get_rng_state()
        value = super().run_node(n)
        wrote = frozenset(
            storage_of(tensor)
            for tensor, (version, content) in zip(tensors, before, strict=True)
            if tensor._version != version or not _equal(tensor, content)
        )
        leaves = [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]
        method, function = n.op == "call_method", n.op == "call_function"
        self.seen[n] = Seen(
            frozenset(map(storage_of, leaves)),
            wrote,
            not torch.equal(stream, torch.get_rng_state()),
            function and n.target in SWITCHES,
            function and n.target in CHECKS,
            (function and n.target in UNKNOWN_FUNCTIONS) or (method and n.target in UNKNOWN_METHODS),
        )
        return value


def _equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.equal(one, other) or torch.equal(one.nan_to_num(), other.nan_to_num())
