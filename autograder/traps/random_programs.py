"""Random programs as graphs: views, mutation, shared modules, randomness, modes, duplicated and dead code."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import getitem, iadd
from typing import Any

import torch
from torch import fx, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional

from autograder.traps.trap import aten
from fxopt_core.capture.module import keep_state_as_it_was

SIZE = 3
LITERALS = (0, 1, 2, -1, 1.0, 0.0, -0.0, 0.5, True)
DTYPES = (torch.float32, torch.float64, torch.int64, torch.bool)


class Root(nn.Module):
    """The modules and tensors that programs use. The two names of one layer share it; the tied weight is a view."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(SIZE, SIZE)
        self.same_linear = self.linear
        self.norm = nn.BatchNorm1d(SIZE)
        self.still_norm = nn.BatchNorm1d(SIZE).eval()
        self.dropout = nn.Dropout(0.5)
        self.still_dropout = nn.Dropout(0.5).eval()
        self.relu = nn.ReLU(inplace=True)
        self.identity = nn.Identity()
        self.weight = nn.Parameter(torch.randn(SIZE, SIZE))
        self.tied = nn.Parameter(self.weight.detach().t())
        self.register_buffer("state", torch.randn(SIZE, SIZE))
        self.register_buffer("table", torch.randn(SIZE, SIZE), persistent=False)


@dataclass
class Program:
    """A graph under construction, computed along the way so that every call is legal.

    Attributes:
        graph: the graph.
        root: its modules and tensors.
        values: tensors by node, for the inputs of this program.
        calls: what was called so far, to call again.
        examples: makes the example values of nodes.
    """

    graph: fx.Graph
    root: Root
    values: dict[fx.Node, torch.Tensor] = field(default_factory=dict)
    calls: list[tuple[str, Any, tuple[Any, ...], dict[str, Any]]] = field(default_factory=list)
    examples: FakeTensorMode = field(default_factory=FakeTensorMode)

    def call(self, op: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> None:
        """Add a call if it can be computed."""
        kwargs = kwargs or {}
        try:
            arguments, keywords = fx.node.map_arg((args, kwargs), self.values.__getitem__)
            value = self._compute(op, target, arguments, keywords)
        except (RuntimeError, IndexError, TypeError, ValueError):
            return
        node = self.graph.create_node(op, target, args, kwargs)
        self.calls.append((op, target, args, kwargs))
        if isinstance(value, torch.Tensor):
            self.note(node, value)
        elif isinstance(value, (tuple, list)):
            node.meta["val"] = [self.examples.from_tensor(part.detach()) for part in value]
            for index, part in enumerate(value):
                self.note(self.graph.call_function(getitem, (node, index)), part)

    def note(self, node: fx.Node, value: torch.Tensor) -> None:
        """Remember the value of a node, and its example as captures keep it."""
        self.values[node] = value
        # Of a view whose base became part of autograd, torch cannot make an example with its history.
        node.meta["val"] = self.examples.from_tensor(value.detach())

    def _compute(self, op: str, target: Any, args: Any, kwargs: Any) -> Any:
        if op == "call_module":
            return self.root.get_submodule(target)(*args, **kwargs)
        if op == "call_method":
            return getattr(args[0], target)(*args[1:], **kwargs)
        return getattr(self.root, target) if op == "get_attr" else target(*args, **kwargs)


Call = tuple[str, Any, tuple[Any, ...], dict[str, Any]]


def function(target: Any, *args: Any, **kwargs: Any) -> Call:
    """A call of a function."""
    return "call_function", target, args, kwargs


def method(name: str, *args: Any) -> Call:
    """A call of a method."""
    return "call_method", name, args, {}


CALLS: dict[str, Callable[[Any, Any, Any], list[Call]]] = {
    "pointwise": lambda x, y, c: [
        function(aten.relu.default, x), function(torch.sin, x), method("neg", x), function(aten.abs.default, x),
        function(functional.gelu, x), function(torch.sigmoid, x), method("square", x), function(aten.clone.default, x),
    ],
    "binary": lambda x, y, c: [
        function(aten.add.Tensor, x, y), function(aten.mul.Tensor, x, c), function(aten.add.Tensor, x, c),
        function(torch.sub, x, y), function(torch.maximum, x, y), method("mul", x, y), function(aten.div.Tensor, x, c),
        function(aten.sub.Tensor, x, c), function(aten.pow.Tensor_Scalar, x, c), function(torch.matmul, x, y),
        function(torch.where, x, x, y), function(aten.eq.Tensor, x, y),
    ],
    "view": lambda x, y, c: [
        function(aten.t.default, x), function(aten.view.default, x, [-1]), function(aten.select.int, x, 0, 1),
        function(aten.slice.Tensor, x, 0, 1, 3), method("reshape", x, SIZE, -1), method("contiguous", x),
        function(aten.unsqueeze.default, x, 0), function(aten.alias.default, x), function(torch.transpose, x, 0, -1),
        function(aten.expand.default, x, [SIZE, SIZE]), function(getitem, x, 0), function(torch.flatten, x),
        function(aten.permute.default, x, [1, 0]), function(aten.detach.default, x), function(aten.squeeze.default, x),
    ],
    "write": lambda x, y, c: [
        function(aten.add_.Tensor, x, c), method("mul_", x, c), function(aten.copy_.default, x, y), method("zero_", x),
        function(functional.relu, x, inplace=True), function(torch.sin, x, out=y), function(iadd, x, c),
        function(aten.relu_.default, x), method("clamp_", x, 0), function(functional.relu, x, True),
    ],
    "draw": lambda x, y, c: [
        function(torch.rand_like, x), function(functional.dropout, x), function(functional.dropout, x, 0.5, False),
        function(aten.bernoulli.p, x, 0.5), function(aten.dropout.default, x, 0.5, False), method("normal_", x),
        function(aten.rand.default, [SIZE, SIZE]),
    ],
    "cast": lambda x, y, c: [
        *(function(aten.to.dtype, x, dtype) for dtype in DTYPES), method("float"  , x), method("type_as", x, y),
        function(aten._to_copy.default, x, dtype=torch.float64), method("long", x),
    ],
    "many": lambda x, y, c: [
        function(torch.cat, [x, y]), function(torch.split, x, 2), function(aten.sum.default, x), method("chunk", x, 2),
        function(aten.mean.dim, x, [0]), function(torch.stack, [x, y]), function(torch.broadcast_tensors, x, y),
        function(aten.unbind.int, x), function(torch.meshgrid, x, y), function(aten._foreach_add_.Scalar, [x, y], 1),
    ],
    "module": lambda x, y, c: [
        ("call_module", name, (x,), {})
        for name in ("linear", "same_linear", "norm", "still_norm", "dropout", "still_dropout", "relu", "identity")
    ],
    "attribute": lambda x, y, c: [("get_attr", name, (), {}) for name in ("weight", "tied", "state", "table")],
    "constant": lambda x, y, c: [
        function(aten.arange.default, SIZE), function(aten.full.default, [SIZE, SIZE], 2.0), function(torch.ones, SIZE),
        function(aten.scalar_tensor.default, c),
    ],
    "mode": lambda x, y, c: [
        function(torch._C._set_grad_enabled, False), function(torch._C._set_grad_enabled, True),
    ],
}  # fmt: skip
"""Calls by kind, for two values and a literal."""

KINDS = (*CALLS, "view", "binary", "pointwise", "again", "again", "again")


def random_program(source: random.Random, most_calls: int = 14) -> tuple[fx.GraphModule, tuple[torch.Tensor, ...]]:
    """A graph module with inputs for it. Inputs may be one tensor twice, or a tensor and a view of it.

    Args:
        source: decides everything; where it comes from Hypothesis, a failing program can be made smaller.
        most_calls: how many calls are tried at most.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        inputs = _inputs(source)
        # Programs switch the gradient mode; this puts it back.
        with torch.enable_grad():
            program = _program(source, inputs, most_calls)
        values = list(program.values)
        results = [values[-1], *(source.choice(values) for _ in range(source.randint(0, 5)))]
        program.graph.call_function(torch._C._set_grad_enabled, (True,))
        program.graph.output(tuple(results))
        root = Root()
    module = fx.GraphModule(root, program.graph)
    keep_state_as_it_was(module, root)
    return module, inputs


def _program(source: random.Random, inputs: tuple[torch.Tensor, ...], most_calls: int) -> Program:
    program = Program(fx.Graph(), Root())
    # The program is computed on copies that overlap as the inputs do, so that its writes do not reach the inputs.
    for number, tensor in enumerate(copy.deepcopy(inputs)):
        program.note(program.graph.placeholder(f"x{number}"), tensor)
    for _ in range(source.randint(1, most_calls)):
        kind = source.choice(KINDS)
        if kind == "again":
            if program.calls:
                program.call(*source.choice(program.calls))
            continue
        values = list(program.values)
        # Recent values more often, so that much of the program is needed for what it returns.
        one, other = (source.choice([*values, *values[-3:] * 3]) for _ in range(2))
        program.call(*source.choice(CALLS[kind](one, other, source.choice(LITERALS))))
    return program


def _inputs(source: random.Random) -> tuple[torch.Tensor, ...]:
    first = torch.randn(SIZE, SIZE)
    other = source.choice([torch.randn(SIZE, SIZE), first, first.t(), first[1], torch.arange(SIZE), first > 0])
    if source.random() < 0.5:
        special = torch.tensor([0.0, -0.0, float("nan"), float("inf"), 1e-40])
        first.view(-1)[: len(special)] = special
    if source.random() < 0.5 and other._base is None and other is not first:
        first.requires_grad_()
    return first, other
