"""What a trap is, and how its graph is written: traced, recorded at ATen level, exported, or node by node."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.passes.fake_tensor_prop import FakeTensorProp
from torch.fx.passes.shape_prop import ShapeProp

from fxopt_core.capture.module import keep_state_as_it_was

aten = torch.ops.aten

Program = tuple[fx.GraphModule, tuple[Any, ...]]
"""A graph module and the positional arguments to call it with."""

Rules = tuple[tuple[Callable[..., Any], Callable[..., Any]], ...]
"""Patterns, each with its replacement."""

EVENTS: list[Any] = []
"""What functions of which nothing is known did, in order. The oracle empties it before each call."""


@dataclass(frozen=True, eq=False)
class Trap:
    """A small program that a naive pass gets wrong, or that a timid one leaves as it is.

    Attributes:
        name: unique.
        family: what kind of pass it is for.
        about: what is special about it, in a sentence.
        build: makes the graph module, the same one each time, and arguments for it.
        pass_name: the pass to run.
        must_change: `True` for a legal rewrite that has to be made, `False` where the operations have to stay as they
            are, `None` where the pass may do either.
        options: of the pass.
        left: how many calls have to be left of which the result needs the value (all calls, for `dead_code`).
        tolerance: error allowed in outputs and state, as a share of the largest magnitude; 0 for the same bits.
        state_may_change: whether the caller may load other parameters and persistent buffers after the pass.
        trains: whether gradients have to reach the parameters that the module had before.
        raises: whether the program raises on all inputs, and has to go on raising.
        under_autocast: whether the caller also calls the program within an autocast region.
        by_check: whether it is a named check that refuses, and not that nothing matches.
        rules: pattern and replacement, in place of a pass; the peer is `torch.fx.replace_pattern`.
        peer_rules: rules of a textbook, for `torch.fx.replace_pattern` where PyTorch has no pass of its own.
        keeps_metadata: whether the trap is that examples and provenance of nodes get lost.
    """

    name: str
    family: str
    about: str
    build: Callable[[], Program]
    pass_name: str
    must_change: bool | None
    options: Mapping[str, Any] = field(default_factory=dict)
    left: int | None = None
    tolerance: float = 0.0
    state_may_change: bool = True
    trains: bool = True
    raises: bool = False
    under_autocast: bool = False
    by_check: bool = True
    rules: Rules = ()
    peer_rules: Rules = ()
    keeps_metadata: bool = False

    def program(self) -> Program:
        """The graph module, with the same random weights each time, and its arguments."""
        if self in _EXPORTED:
            return copy.deepcopy(_EXPORTED[self])
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            program = self.build()
        if EXPORTED in program[0].meta:
            _EXPORTED[self] = copy.deepcopy(program)
        return program


EXPORTED = "exported"
_EXPORTED: dict[Trap, Program] = {}
"""Exported programs are copied instead of made again: that is a hundred times faster."""


class Collector:
    """Makes a table of traps out of decorated functions; the name and docstring of each become those of the trap."""

    def __init__(self, family: str, pass_name: str) -> None:
        self.family = family
        self.pass_name = pass_name
        self.traps: list[Trap] = []

    def __call__(
        self, must_change: bool | None, *, pass_name: str | None = None, **fields: Any
    ) -> Callable[[Callable[[], Program]], Callable[[], Program]]:
        """Decorate a function that builds the program."""

        def collect(build: Callable[[], Program]) -> Callable[[], Program]:
            about = (build.__doc__ or "").strip()
            if not about:
                raise ValueError(f"the trap {build.__name__} has no docstring; say what is special about it.")
            name = f"{self.family}: {build.__name__.strip('_').replace('_', ' ')}"
            trap = Trap(name, self.family, about, build, pass_name or self.pass_name, must_change, **fields)
            self.traps.append(trap)
            return build

        return collect


def graph_of(build: Callable[[fx.Graph], Any], root: nn.Module | None = None) -> fx.GraphModule:
    """The module whose graph `build` writes node by node; what `build` returns is what the graph returns."""
    graph = fx.Graph()
    graph.output(build(graph))
    root = root if root is not None else nn.Module()
    module = fx.GraphModule(root, graph)
    keep_state_as_it_was(module, root)
    return module


def traced(model: nn.Module | Callable[..., Any], **options: Any) -> fx.GraphModule:
    """The torch-level graph that `symbolic_trace` makes of a model, with the state of the model."""
    module = fx.symbolic_trace(model, **options)
    if isinstance(model, nn.Module):
        keep_state_as_it_was(module, model)
    return module


def recorded(function: Callable[..., Any], *inputs: torch.Tensor) -> fx.GraphModule:
    """The ATen-level graph of one run, with examples of every value."""
    return make_fx(function, tracing_mode="fake")(*inputs)


def with_shapes(module: fx.GraphModule, *inputs: Any) -> fx.GraphModule:
    """The module, with the shape of every value noted as `ShapeProp` does it; its state stays as it is."""
    copied = copy.deepcopy(module)
    ShapeProp(copied).propagate(*copy.deepcopy(inputs))
    for node, known in zip(module.graph.nodes, copied.graph.nodes, strict=True):
        node.meta |= known.meta
    return module


def with_examples(module: fx.GraphModule, *inputs: Any) -> fx.GraphModule:
    """The module, with an example of every value as captures keep it; nothing is computed with data."""
    copied = copy.deepcopy(module)
    with torch.enable_grad():  # puts back what the graph switches
        FakeTensorProp(copied, FakeTensorMode(allow_non_fake_inputs=True)).propagate(*copy.deepcopy(inputs))
    for node, known in zip(module.graph.nodes, copied.graph.nodes, strict=True):
        if "val" in known.meta:
            node.meta["val"] = known.meta["val"]
    return module


def exported(model: nn.Module, *inputs: Any, decomposed: bool = True) -> fx.GraphModule:
    """The functional ATen graph of a model, with writes to its buffers as `copy_` at the end.

    Without `decomposed` it has the operators that the model calls: matmul, linear, softmax.
    """
    program = torch.export.export(model, inputs)
    module = (program.run_decompositions({}) if decomposed else program).module()
    module.meta[EXPORTED] = True
    return module


def numbers(*shape: int) -> torch.Tensor:
    """Distinct numbers of both signs, in a shape that is not symmetric unless asked for."""
    count = torch.Size(shape).numel()
    return torch.linspace(-1.25, 2.0, count).reshape(shape)


def state(**tensors: torch.Tensor) -> nn.Module:
    """A module that holds persistent buffers."""
    root = nn.Module()
    for name, tensor in tensors.items():
        root.register_buffer(name, tensor)
    return root


def note(x: torch.Tensor) -> torch.Tensor:
    """A function of which no pass knows anything. It has an effect."""
    EVENTS.append(tuple(x.shape))
    return x * 2


def counted(x: torch.Tensor) -> torch.Tensor:
    """A function of which no pass knows anything. It returns something else each time."""
    EVENTS.append("counted")
    return x + len(EVENTS)
