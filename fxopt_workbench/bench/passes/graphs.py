"""Synthetic graphs of elementwise ATen nodes, in which it is known how much there is to optimise."""

from __future__ import annotations

import copy
import random

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

aten = torch.ops.aten

SHAPE = (8,)
"""Shape of every value: small, since not the computation is timed but what is done to the graph."""

CONSTANT_CHAIN = 10
"""Nodes of one planted constant: the tensor, and what is computed from it."""

_BOUNDED = (aten.tanh.default, aten.sin.default, aten.cos.default)
"""Functions whose values lie between -1 and 1. Sums and products take one of those, so that all values stay finite."""

_UNARY = (aten.relu.default, aten.neg.default, *_BOUNDED)
_BINARY = (aten.add.Tensor, aten.mul.Tensor)


def synthetic_aten_graph(
    nodes: int,
    seed: int = 0,
    *,
    duplicate_fraction: float = 0.1,
    constant_fraction: float = 0.1,
    dead_fraction: float = 0.1,
    match_fraction: float = 0.01,
) -> fx.GraphModule:
    """A graph of exactly `nodes` nodes, two inputs and the output among them, of float32 tensors of `SHAPE`.

    The planted things are shuffled; nothing else is a duplicate, constant or dead, and none of them is another too.
    Each fraction is of `nodes`, rounded down.

    Args:
        nodes: of the graph, inputs, constants and output included.
        seed: of the choices; the same seed gives the same graph.
        duplicate_fraction: nodes that compute again what an earlier one computed.
        constant_fraction: nodes that depend on no input: chains of `CONSTANT_CHAIN` nodes, each from a buffer that
            is in no `state_dict`.
        dead_fraction: nodes that the output does not depend on.
        match_fraction: places where `x * sigmoid(x)` stands, the pattern of the rewrite; two nodes each.

    Raises:
        ValueError: the graph has no room for what is planted in it.
    """
    plan = ["duplicate"] * int(nodes * duplicate_fraction) + ["dead"] * int(nodes * dead_fraction)
    plan += ["constant"] * (int(nodes * constant_fraction) // CONSTANT_CHAIN) + ["match"] * int(nodes * match_fraction)
    plain = nodes - 3 - sum(_COSTS[kind] for kind in plan)
    if plain < 1:
        raise ValueError(f"{nodes} nodes are too few for the fractions asked for; expected {1 - plain} more.")
    builder = _Builder(seed)
    builder.plain()
    plan += ["plain"] * (plain - 1)
    builder.random.shuffle(plan)
    for kind in plan:
        getattr(builder, kind)()
    return builder.finish()


_COSTS = {"duplicate": 2, "dead": 1, "constant": CONSTANT_CHAIN + 1, "match": 2}
"""Nodes that a planted thing takes, with the one that makes the rest of the graph depend on it."""


def dense_chain(nodes: int) -> fx.GraphModule:
    """A chain in which the pattern `x * sigmoid(x)` stands everywhere, each match on top of the one before.

    It has exactly `nodes` nodes, one input and the output among them, and (nodes - 2) // 2 matches.
    """
    builder = _Builder(0, inputs=1)
    for _ in range((nodes - 2) // 2):
        builder.match()
    if nodes % 2:
        builder.step(aten.neg.default, builder.last)
    return builder.finish()


def butterflies(nodes: int) -> fx.GraphModule:
    """A chain of places where both `x + y` and `x - y` are computed: a pattern of two outputs, so of two anchors.

    It has exactly `nodes` nodes, two inputs and the output among them, and (nodes - 3) // 4 matches.
    """
    builder = _Builder(0)
    other = builder.inputs[0]
    for _ in range((nodes - 3) // 4):
        x = builder.last
        total, difference = builder.call(aten.add.Tensor, x, other), builder.call(aten.sub.Tensor, x, other)
        other = builder.call(aten.tanh.default, total)
        builder.step(aten.maximum.default, other, difference)
    for _ in range((nodes - 3) % 4):
        builder.step(aten.neg.default, builder.last)
    return builder.finish()


def example_inputs(graph_module: fx.GraphModule, seed: int = 0) -> tuple[torch.Tensor, ...]:
    """Random float32 inputs for one of these graphs."""
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(SHAPE, generator=generator) for _ in graph_module.graph.find_nodes(op="placeholder"))


def fresh_copy(graph_module: fx.GraphModule) -> fx.GraphModule:
    """A module with a graph of its own over the same buffers. No code is generated, which would take seconds.

    `recompile()` makes it callable.
    """
    duplicate = fx.GraphModule(torch.nn.Module(), fx.Graph())
    for name, buffer in graph_module.named_buffers():
        duplicate.register_buffer(name, buffer, persistent=False)
    # The setter of `graph` would generate code.
    duplicate._graph = copy.deepcopy(graph_module.graph)
    duplicate.graph.owning_module = duplicate
    return duplicate


class _Builder:
    """Adds nodes such that each value but the dead ones is needed for the next, and so for the output."""

    def __init__(self, seed: int, inputs: int = 2) -> None:
        self.random = random.Random(seed)
        self.generator = torch.Generator().manual_seed(seed)
        self.owner = torch.nn.Module()
        self.graph = fx.Graph()
        self.mode = FakeTensorMode()
        self.inputs = [self.known(self.graph.placeholder(name)) for name in "xy"[:inputs]]
        self.last = self.inputs[-1]
        self.bounded: list[fx.Node] = []
        self.repeatable: list[fx.Node] = []
        self.dead_end = self.dead_start = self.inputs[0]

    def known(self, node: fx.Node) -> fx.Node:
        """Give the node an example value, as a capture does: one with storage of its own."""
        # Calling torch.empty under the mode gives the same and takes ten times as long.
        node.meta["val"] = FakeTensor(self.mode, torch.empty(SHAPE, device="meta"), torch.device("cpu"))
        return node

    def call(self, target: torch._ops.OpOverload, *args: fx.Node) -> fx.Node:
        return self.known(self.graph.call_function(target, args))

    def step(self, target: torch._ops.OpOverload, *args: fx.Node) -> None:
        self.last = self.call(target, *args)

    def plain(self) -> None:
        """One operation on the last value, which nobody computed before."""
        if self.bounded and self.random.random() < 0.5:
            self.step(self.random.choice(_BINARY), self.last, self.random.choice(self.bounded))
        else:
            self.step(self.random.choice(_UNARY), self.last)
            if self.last.target in _BOUNDED:
                self.bounded.append(self.last)
        self.repeatable.append(self.last)

    def duplicate(self) -> None:
        """An earlier node again. The maximum needs its value, and makes no value larger."""
        original = self.random.choice(self.repeatable)
        again = self.call(original.target, *original.args)  # type: ignore[arg-type]
        self.step(aten.maximum.default, self.last, again)

    def dead(self) -> None:
        """The start of a chain that nobody needs, or its next node."""
        if self.dead_start is not self.last:
            self.dead_start = self.dead_end = self.last
        self.dead_end = self.call(aten.sub.Tensor, self.dead_end, self.random.choice(self.inputs))

    def constant(self) -> None:
        """A chain from a buffer. Calls alternate, so that no algebra makes it shorter."""
        name = f"constant{len(self.owner._buffers)}"
        self.owner.register_buffer(name, torch.randn(SHAPE, generator=self.generator), persistent=False)
        value = self.known(self.graph.get_attr(name))
        for number in range(CONSTANT_CHAIN - 1):
            value = self.call(_BOUNDED[number % len(_BOUNDED)], value)
        self.step(aten.add.Tensor, self.last, value)

    def match(self) -> None:
        """The pattern of the rewrite, in which alone `sigmoid` occurs."""
        self.step(aten.mul.Tensor, self.last, self.call(aten.sigmoid.default, self.last))

    def finish(self) -> fx.GraphModule:
        self.graph.output(self.last).meta["val"] = self.last.meta["val"]
        graph_module = fx.GraphModule(self.owner, self.graph)
        for name, buffer in self.owner.named_buffers():
            # GraphModule takes buffers over as persistent ones.
            graph_module.register_buffer(name, buffer, persistent=False)
        return graph_module
