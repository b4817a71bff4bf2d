"""Constant folding: what has no inputs and is no constant, and constants that only look variable."""

from __future__ import annotations

from collections.abc import Callable
from operator import getitem
from typing import Any

import torch
from torch import fx, nn
from torch.nn import functional

from autograder.traps.trap import (
    Collector,
    Program,
    aten,
    counted,
    exported,
    graph_of,
    numbers,
    recorded,
    state,
    traced,
)

trap = Collector("folding", "constant_folding")


class Table(nn.Module):
    """A module with tensors that are no state: a non-persistent buffer and a plain attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", numbers(3) + 3, persistent=False)
        self.plain = numbers(3) * 2
        self.chance = torch.full((3,), 0.5)


@trap(True, left=1)
def plain_table() -> Program:
    """The plain case: arithmetic on a table that no one writes or saves."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        return graph.call_function(
            aten.add.Tensor, (x, graph.call_function(aten.exp.default, (graph.get_attr("plain"),)))
        )

    return graph_of(build, Table()), (numbers(3),)


@trap(True, left=1)
def what_the_program_makes_itself() -> Program:
    """Positions and masks are made of literals alone."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        steps = graph.call_function(aten.arange.default, (4,))
        ones = graph.call_function(aten.full.default, ([4, 4], True), {"dtype": torch.bool})
        mask = graph.call_function(aten.tril.default, (ones,))
        return graph.call_function(aten.where.self, (mask, x, graph.call_function(aten.neg.default, (steps,))))

    return graph_of(build), (numbers(4, 4),)


@trap(False)
def trained_parameter() -> Program:
    """The optimiser will change the parameter, and a gradient has to reach it."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        return graph.call_function(torch.mul, (x, graph.call_function(torch.exp, (graph.get_attr("weight"),))))

    root = nn.Module()
    root.weight = nn.Parameter(numbers(3))
    return graph_of(build, root), (numbers(3),)


@trap(False)
def persistent_buffer() -> Program:
    """A checkpoint loaded later gives the buffer another value."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        return graph.call_function(
            aten.mul.Tensor, (x, graph.call_function(aten.exp.default, (graph.get_attr("scale"),)))
        )

    return graph_of(build, state(scale=numbers(3))), (numbers(3),)


@trap(True, left=1, options={"freeze": True}, state_may_change=False)
def frozen_buffer() -> Program:
    """With `freeze=True` the caller promises that the state stays; its keys stay in `state_dict`."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        return graph.call_function(
            aten.mul.Tensor, (x, graph.call_function(aten.exp.default, (graph.get_attr("scale"),)))
        )

    return graph_of(build, state(scale=numbers(3))), (numbers(3),)


@trap(False, options={"freeze": True}, state_may_change=False)
def frozen_buffer_that_the_program_writes() -> Program:
    """Even with `freeze=True`, a buffer that the graph itself counts up is no constant."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        doubled = graph.call_function(aten.mul.Tensor, (graph.get_attr("count"), 2))
        graph.call_function(aten.add_.Tensor, (graph.get_attr("count"), 1))
        return graph.call_function(aten.add.Tensor, (x, doubled))

    return graph_of(build, state(count=torch.zeros(3))), (numbers(3),)


@trap(False)
def table_written_later() -> Program:
    """A table that is written after it was read has another value at the next call."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        plain = graph.get_attr("plain")
        doubled = graph.call_function(aten.mul.Tensor, (plain, 2))
        graph.call_function(aten.add_.Tensor, (plain, 1))
        return graph.call_function(aten.add.Tensor, (x, doubled))

    return graph_of(build, Table()), (numbers(3),)


@trap(False)
def table_written_through_a_view() -> Program:
    """The same, through a view of one element."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        plain = graph.get_attr("plain")
        total = graph.call_function(torch.sum, (plain,))
        element = graph.call_function(getitem, (plain, 0))
        graph.call_method("add_", (element, 1))
        return graph.call_function(torch.add, (x, total))

    return graph_of(build, Table()), (numbers(3),)


@trap(False)
def own_constant_that_is_written() -> Program:
    """`zeros` is a constant, until it is filled: the next call needs a new one."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        own = graph.call_function(aten.zeros.default, ([3],))
        graph.call_function(aten.add_.Tensor, (own, x))
        return graph.call_function(aten.mul.Tensor, (own, 2))

    return graph_of(build), (numbers(3),)


@trap(False)
def draw_without_inputs() -> Program:
    """`rand` has no inputs and is no constant."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        return graph.call_function(aten.add.Tensor, (x, graph.call_function(aten.rand.default, ([3],))))

    return graph_of(build), (numbers(3),)


@trap(False)
def dropout_of_a_constant() -> Program:
    """Dropout of a table is another value each time."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        noisy = graph.call_function(functional.dropout, (graph.get_attr("plain"),))
        return graph.call_function(torch.add, (x, noisy))

    return graph_of(build, Table()), (numbers(3),)


@trap(False)
def bernoulli_of_a_constant() -> Program:
    """A draw whose probabilities are a table."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        draw = graph.call_function(torch.bernoulli, (graph.get_attr("chance"),))
        return graph.call_function(torch.add, (x, draw))

    return graph_of(build, Table()), (numbers(3),)


@trap(False)
def training_batch_norm_of_a_constant() -> Program:
    """A training BatchNorm of a table moves its statistics at each call."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(2)
            self.register_buffer("table", numbers(4, 2), persistent=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.norm(self.table)

    return traced(Model().train()), (numbers(4, 2),)


@trap(False)
def returned_constant() -> Program:
    """The caller may write to what it gets; the next call must not return that."""

    def build(graph: fx.Graph) -> Any:
        graph.placeholder("x")
        return graph.call_function(aten.mul.Tensor, (graph.get_attr("plain"), 2))

    return graph_of(build, Table()), (numbers(3),)


@trap(False)
def returned_view_of_a_constant() -> Program:
    """The same, where only a view of the constant is returned."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        ones = graph.call_function(torch.ones, (2, 3))
        return graph.call_function(getitem, (ones, 0)), graph.call_function(torch.neg, (x,))

    return graph_of(build), (numbers(3),)


@trap(None)
def product_under_autocast() -> Program:
    """Folded outside of the autocast in which it stands, the second product would have another dtype."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        mode = graph.call_function(torch.amp.autocast_mode._enter_autocast, ("cpu", torch.bfloat16, True, None))
        plain = graph.get_attr("plain")
        square = graph.call_function(torch.outer, (plain, plain))
        product = graph.call_function(torch.matmul, (square, plain))
        image = graph.call_function(torch.matmul, (square, x))
        graph.call_function(torch.amp.autocast_mode._exit_autocast, (mode,))
        return graph.call_function(torch.add, (image, product))

    return graph_of(build, Table()), (numbers(3),)


def other_default_dtype(graph: fx.Graph) -> Any:
    """Adds twice ones of the default dtype, which the program sets for as long as it makes them."""
    x = graph.placeholder("x")
    graph.call_function(torch.set_default_dtype, (torch.float64,))
    doubled = graph.call_function(torch.mul, (graph.call_function(torch.ones, (3,)), 2))
    graph.call_function(torch.set_default_dtype, (torch.float32,))
    return graph.call_function(torch.add, (x, doubled))


@trap(None)
def default_dtype_that_the_program_sets() -> Program:
    """Folded outside of the region in which they are made, the ones would have another dtype."""
    return graph_of(other_default_dtype, nn.Module()), (numbers(3),)


@trap(False)
def unknown_function_of_a_constant() -> Program:
    """Nothing is known of the function; this one counts its calls."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        return graph.call_function(torch.add, (x, graph.call_function(counted, (graph.get_attr("plain"),))))

    return graph_of(build, Table()), (numbers(3),)


@trap(True, left=1)
def keyword_arguments() -> Program:
    """The keyword arguments of a folded call decide its value."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        total = graph.call_function(
            torch.cumsum, (), {"input": graph.get_attr("plain"), "dim": 0, "dtype": torch.float64}
        )
        scaled = graph.call_function(torch.add, (total, 1), {"alpha": 3})
        return graph.call_function(torch.add, (x, scaled), {"alpha": 2})

    return graph_of(build, Table()), (numbers(3),)


@trap(True, left=1)
def several_results_of_one_constant() -> Program:
    """The parts of a split table are constants."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        parts = graph.call_function(torch.split, (graph.get_attr("plain"), [1, 2]))
        first = graph.call_function(getitem, (parts, 0))
        return graph.call_function(torch.sub, (x, graph.call_function(torch.exp, (first,))))

    return graph_of(build, Table()), (numbers(3),)


@trap(True, left=1, keeps_metadata=True)
def signed_zero_and_nan_in_a_constant() -> Program:
    """The folded value has the same bits: −0.0, NaN, integers in a zero-dimensional tensor."""

    def special(x: torch.Tensor) -> torch.Tensor:
        zero = torch.full((), -0.0)
        return torch.atan2(x, torch.cat([zero.reshape(1), (zero / zero).reshape(1)]))

    inputs = (torch.tensor([0.0, -0.0]),)
    return recorded(special, *inputs), inputs


@trap(True, left=1)
def constants_in_a_pytree_signature() -> Program:
    """A graph whose inputs and outputs are dictionaries keeps its signature."""

    class Structured(nn.Module):
        def forward(self, batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
            return {"shifted": batch["a"] + torch.arange(3) * 2}

    inputs = ({"a": numbers(3)},)
    return exported(Structured(), *inputs), inputs


@trap(False)
def computation_that_raises() -> Program:
    """A constant that cannot be computed goes on raising when the program is run on inputs that lead there."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        truth = graph.call_method("all", (graph.call_function(torch.lt, (x, 2.5)),))
        graph.call_function(torch._assert, (truth, "an input is too large"))
        limit = graph.call_function(torch.lt, (graph.get_attr("count"), 2.5))
        graph.call_function(torch._assert, (graph.call_method("all", (limit,)), "the count is too large"))
        graph.call_function(aten.add_.Tensor, (graph.get_attr("count"), 1))
        return graph.call_function(torch.neg, (x,))

    return graph_of(build, state(count=torch.zeros(()))), (numbers(3),)


@trap(False)
def grad_mode_of_a_constant() -> Program:
    """A product with a parameter made while gradients are off is a constant of autograd, and yet may be trained."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        graph.call_function(torch._C._set_grad_enabled, (False,))
        scale = graph.call_function(torch.exp, (graph.get_attr("weight"),))
        graph.call_function(torch._C._set_grad_enabled, (True,))
        return graph.call_function(torch.mul, (x, scale))

    root = nn.Module()
    root.weight = nn.Parameter(numbers(3))
    return graph_of(build, root), (numbers(3),)


LATER: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "matmul": lambda table: torch.matmul(table, table),
    "mm": lambda table: aten.mm.default(table, table),
    "operator": lambda table: table @ table,
    "method": lambda table: table.mm(table),
    "einsum": lambda table: torch.einsum("ij,jk->ik", table, table),
    "linear": lambda table: functional.linear(table, table),
    "convolution": lambda table: functional.conv1d(table[None], table[None])[0],
    "attention": lambda table: functional.scaled_dot_product_attention(*[table[None, None]] * 3)[0, 0],
}
"""What autocast computes in 16 bits."""


def compute_later(name: str, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """A trap: the constant is folded now, and the caller calls under autocast later."""

    def build() -> Program:
        def constant(graph: fx.Graph) -> Any:
            x = graph.placeholder("x")
            table = fx.Proxy(graph.get_attr("square"), fx.proxy.GraphAppendingTracer(graph))
            return graph.call_function(torch.add, (x, function(table).node))

        root = nn.Module()
        root.register_buffer("square", numbers(3, 3) + 3, persistent=False)
        module = graph_of(constant, root)
        return module, (numbers(3, 3),)

    build.__name__ = f"{name} before a later autocast region"
    build.__doc__ = f"Under autocast, which the caller enters later, the {name} is computed in 16 bits."
    trap(False, under_autocast=True)(build)


for name, function in LATER.items():
    compute_later(name, function)


@trap(True, left=1, under_autocast=True)
def what_autocast_leaves_alone() -> Program:
    """Arithmetic of elements is the same under autocast."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        return graph.call_function(torch.add, (x, graph.call_function(torch.tanh, (graph.get_attr("plain"),))))

    return graph_of(build, Table()), (numbers(3),)


TRAPS = trap.traps
