"""Dead code: what nobody uses and somebody sees, and what looks like an effect and is none."""

from __future__ import annotations

import math
from collections.abc import Callable
from operator import getitem, iadd, setitem
from typing import Any

import torch
from torch import fx, nn
from torch.nn import functional

from autograder.traps.trap import (
    Collector,
    Program,
    aten,
    exported,
    graph_of,
    note,
    numbers,
    recorded,
    state,
    traced,
    with_examples,
)

trap = Collector("dead code", "dead_code")


@trap(True, left=1)
def unused_chain() -> Program:
    """The plain case: three pure nodes that nobody uses go."""

    def chain(x: torch.Tensor) -> torch.Tensor:
        torch.cos(torch.sin(x)).view(-1)
        return x + 1

    return traced(chain), (numbers(3, 4),)


@trap(False)
def in_place_method() -> Program:
    """`x.add_(1)` whose result nobody uses."""

    def build(graph: fx.Graph) -> Any:
        own = graph.call_method("clone", (graph.placeholder("x"),))
        graph.call_method("add_", (own, 1))
        return own

    return graph_of(build), (numbers(3),)


@trap(False)
def in_place_method_on_an_input() -> Program:
    """The caller sees what is written to an argument, even if nothing of it is returned."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        graph.call_method("mul_", (x, 3))
        return graph.call_function(torch.ones, (2,))

    return graph_of(build), (numbers(3),)


@trap(False)
def in_place_flag() -> Program:
    """`relu(y, inplace=True)` writes."""

    def build(graph: fx.Graph) -> Any:
        own = graph.call_method("clone", (graph.placeholder("x"),))
        graph.call_function(functional.relu, (own,), {"inplace": True})
        return own

    return graph_of(build), (numbers(3),)


@trap(False)
def in_place_flag_by_position() -> Program:
    """`leaky_relu(y, 0.1, True)` writes; the flag has no name here."""

    def build(graph: fx.Graph) -> Any:
        own = graph.call_method("clone", (graph.placeholder("x"),))
        graph.call_function(functional.leaky_relu, (own, 0.1, True))
        return own

    return graph_of(build), (numbers(3),)


@trap(True, left=2)
def in_place_flag_that_is_off() -> Program:
    """`relu(y, inplace=False)` does not write."""

    def build(graph: fx.Graph) -> Any:
        own = graph.call_method("clone", (graph.placeholder("x"),))
        graph.call_function(functional.relu, (own,), {"inplace": False})
        return graph.call_method("neg", (own,))

    return graph_of(build), (numbers(3),)


@trap(False)
def in_place_module() -> Program:
    """A module with `inplace=True`."""
    root = nn.Module()
    root.activation = nn.Hardtanh(inplace=True)

    def build(graph: fx.Graph) -> Any:
        own = graph.call_method("clone", (graph.placeholder("x"),))
        graph.call_module("activation", (own,))
        return own

    return graph_of(build, root), (numbers(3),)


@trap(False)
def augmented_assignment() -> Program:
    """`operator.iadd` writes a tensor; its name has no underscore."""

    def build(graph: fx.Graph) -> Any:
        own = graph.call_method("clone", (graph.placeholder("x"),))
        graph.call_function(iadd, (own, 1))
        return own

    return graph_of(build), (numbers(3),)


@trap(False)
def item_assignment() -> Program:
    """`y[0] = 5` returns nothing."""

    def build(graph: fx.Graph) -> Any:
        own = graph.call_method("clone", (graph.placeholder("x"),))
        graph.call_function(setitem, (own, 0, 5.0))
        return own

    return graph_of(build), (numbers(3),)


@trap(False)
def out_argument() -> Program:
    """`torch.sin(x, out=y)`: nobody uses the result, everybody uses `y`."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        buffer = graph.call_function(torch.zeros_like, (x,))
        graph.call_function(torch.sin, (x,), {"out": buffer})
        return buffer

    return graph_of(build), (numbers(3),)


@trap(False)
def out_overload() -> Program:
    """The same at ATen level: `aten.add.out`."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        buffer = graph.call_function(aten.empty_like.default, (x,))
        graph.call_function(aten.add.out, (x, 1), {"out": buffer})
        return buffer

    return graph_of(build), (numbers(3),)


@trap(False)
def write_through_a_view() -> Program:
    """A row is written through a view that nobody uses afterwards."""

    def build(graph: fx.Graph) -> Any:
        own = graph.call_function(aten.clone.default, (graph.placeholder("x"),))
        row = graph.call_function(aten.select.int, (own, 0, 0))
        graph.call_function(aten.add_.Tensor, (row, 1))
        return own

    return graph_of(build), (numbers(3, 4),)


@trap(False)
def write_through_a_chain_of_views() -> Program:
    """The view of a view, made by torch-level methods."""

    def build(graph: fx.Graph) -> Any:
        own = graph.call_method("clone", (graph.placeholder("x"),))
        column = graph.call_function(getitem, (graph.call_method("t", (own,)), 1))
        graph.call_method("zero_", (graph.call_method("view", (column, -1)),))
        return graph.call_method("sum", (own, 0))

    return graph_of(build), (numbers(3, 4),)


@trap(False)
def write_seen_through_an_earlier_view() -> Program:
    """The base is written; only a view that was taken before is returned."""

    def build(graph: fx.Graph) -> Any:
        own = graph.call_method("clone", (graph.placeholder("x"),))
        row = graph.call_method("select", (own, 0, 0))
        graph.call_method("mul_", (own, 2))
        return row

    return graph_of(build), (numbers(3, 4),)


@trap(True, left=1)
def write_to_scratch_that_nobody_reads() -> Program:
    """A private copy is written and only dead nodes read it: all of that goes."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        scratch = graph.call_function(aten.clone.default, (x,))
        graph.call_function(aten.add_.Tensor, (scratch, 1))
        graph.call_function(aten.sin.default, (scratch,))
        return graph.call_function(aten.neg.default, (x,))

    return graph_of(build), (numbers(3),)


@trap(True, left=2)
def unused_view_beside_a_write() -> Program:
    """A view that nobody uses goes, although its storage is written."""

    def build(graph: fx.Graph) -> Any:
        own = graph.call_function(aten.clone.default, (graph.placeholder("x"),))
        graph.call_function(aten.select.int, (own, 0, 0))
        graph.call_function(aten.add_.Tensor, (own, 1))
        return own

    return graph_of(build), (numbers(3, 4),)


@trap(False)
def write_to_a_buffer() -> Program:
    """A buffer is counted up, and the result does not depend on it."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        graph.call_function(aten.add_.Tensor, (graph.get_attr("count"), 1))
        return graph.call_function(aten.neg.default, (x,))

    return graph_of(build, state(count=torch.zeros(()))), (numbers(3),)


@trap(False)
def copy_to_a_buffer_in_an_exported_program() -> Program:
    """Functional ATen ends with `copy_` to the buffer, which nobody uses."""

    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.count.add_(x)
            return x * 2

    return exported(Counter(), numbers(3)), (numbers(3),)


@trap(False)
def unused_training_batch_norm() -> Program:
    """Its result is unused, its statistics are not."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.norm(x)
            return x * 2

    return traced(Model().train()), (numbers(3, 4),)


@trap(True, left=1)
def unused_evaluated_batch_norm() -> Program:
    """In evaluation nothing is written, and it goes."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.norm(x)
            return x * 2

    return traced(Model().eval()), (numbers(3, 4),)


@trap(False)
def unused_functional_batch_norm_in_training() -> Program:
    """`functional.batch_norm(..., training=True)` writes the statistics that it is given."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        mean, variance = graph.get_attr("mean"), graph.get_attr("variance")
        graph.call_function(functional.batch_norm, (x, mean, variance), {"training": True})
        return graph.call_function(torch.neg, (x,))

    return graph_of(build, state(mean=torch.zeros(4), variance=torch.ones(4))), (numbers(3, 4),)


@trap(False)
def unused_aten_batch_norm_in_training() -> Program:
    """`aten.native_batch_norm` does not say in its schema that it writes the statistics."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        mean, variance = graph.get_attr("mean"), graph.get_attr("variance")
        graph.call_function(aten.native_batch_norm.default, (x, None, None, mean, variance, True, 0.1, 1e-5))
        return graph.call_function(aten.neg.default, (x,))

    return graph_of(build, state(mean=torch.zeros(4), variance=torch.ones(4))), (numbers(3, 4),)


@trap(False)
def unused_dropout() -> Program:
    """An unused dropout moves the random stream, on which the next draw depends."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.drop = nn.Dropout(0.5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.drop(x)
            return x + torch.rand_like(x)

    return traced(Model().train()), (numbers(3, 4),)


@trap(False)
def unused_draw() -> Program:
    """The same with a draw at ATen level, which leads to nothing."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        graph.call_function(aten.rand_like.default, (x,))
        return graph.call_function(aten.bernoulli.p, (x, 0.5))

    return graph_of(build), (numbers(3, 4),)


@trap(True, left=1)
def unused_dropout_in_evaluation() -> Program:
    """With `training=False` nothing is drawn."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        graph.call_function(functional.dropout, (x, 0.5, False))
        return graph.call_function(torch.neg, (x,))

    return graph_of(build), (numbers(3, 4),)


@trap(False)
def grad_mode_switch() -> Program:
    """A switch of the grad mode has no users and returns nothing."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        graph.call_function(torch._C._set_grad_enabled, (False,))
        constant = graph.call_function(torch.exp, (x,))
        graph.call_function(torch._C._set_grad_enabled, (True,))
        return graph.call_function(torch.mul, (x, constant))

    return graph_of(build), (numbers(3),)


@trap(False)
def autocast_switch() -> Program:
    """Entering autocast is used by the exit alone, the exit by nobody."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        mode = graph.call_function(torch.amp.autocast_mode._enter_autocast, ("cpu", torch.bfloat16, True, None))
        product = graph.call_function(torch.matmul, (x, x))
        graph.call_function(torch.amp.autocast_mode._exit_autocast, (mode,))
        return product

    return graph_of(build), (numbers(3, 3),)


@trap(False)
def assertion() -> Program:
    """`torch._assert` returns nothing and stops the program on some inputs."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        truth = graph.call_method("all", (graph.call_function(torch.lt, (x, 2.5)),))
        graph.call_function(torch._assert, (truth, "an input is too large"))
        return graph.call_function(torch.neg, (x,))

    return graph_of(build), (numbers(3),)


@trap(False)
def unknown_function() -> Program:
    """A Python function of which nothing is known does something."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        graph.call_function(note, (x,))
        return graph.call_function(torch.neg, (x,))

    return graph_of(build), (numbers(3),)


@trap(False)
def module_with_a_hook() -> Program:
    """A pure module with a forward hook, which counts."""

    def count(module: nn.Module, args: Any, result: Any) -> None:
        module.calls.add_(1)

    root = nn.Module()
    root.layer = nn.Linear(4, 2)
    root.layer.register_buffer("calls", torch.zeros(()))
    root.layer.register_forward_hook(count)

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        graph.call_module("layer", (x,))
        return graph.call_function(torch.neg, (x,))

    return graph_of(build, root), (numbers(3, 4),)


@trap(False)
def embedding_that_renormalises() -> Program:
    """`embedding(..., max_norm=...)` rewrites rows of its weight."""

    def build(graph: fx.Graph) -> Any:
        indices = graph.placeholder("indices")
        graph.call_function(functional.embedding, (indices, graph.get_attr("table")), {"max_norm": 1.0})
        return graph.call_function(torch.neg, (indices,))

    return graph_of(build, state(table=numbers(5, 3) * 3)), (torch.tensor([0, 3, 3, 1]),)


@trap(True, left=2)
def unused_parts_of_several_results() -> Program:
    """Of `max` over a dimension only the values are used: the read of the indices goes."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        both = graph.call_function(aten.max.dim, (x, 0))
        graph.call_function(aten.neg.default, (graph.call_function(getitem, (both, 1)),))
        return graph.call_function(getitem, (both, 0))

    return graph_of(build), (numbers(3, 4),)


@trap(True, left=1)
def unused_pytree_input() -> Program:
    """Inputs stay in the signature although nobody uses them; what was computed from one goes."""

    class Structured(nn.Module):
        def forward(self, batch: dict[str, torch.Tensor], spare: torch.Tensor) -> dict[str, torch.Tensor]:
            torch.sin(spare)
            return {"double": batch["a"] * 2}

    inputs = ({"a": numbers(3), "unused": numbers(2)}, numbers(4))
    return traced(Structured(), concrete_args={"batch": {"a": fx.PH, "unused": fx.PH}, "spare": fx.PH}), inputs


@trap(True, left=2)
def integers_booleans_and_nothing() -> Program:
    """Unused chains on integer, boolean, empty and zero-dimensional tensors."""

    def mixed(index: torch.Tensor, mask: torch.Tensor, empty: torch.Tensor, scalar: torch.Tensor) -> torch.Tensor:
        (index // 2).sum()
        (mask | mask).any()
        empty.max(dim=1)
        return torch.where(mask, index, scalar)

    inputs = (torch.arange(4), torch.tensor([True, False, True, True]), torch.zeros(0, 3), torch.tensor(-7))
    return recorded(mixed, *inputs), inputs


def unused(function: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> Program:
    """A function of which only the first input is returned, negated; the inputs are such that it raises."""

    def whole(*given: torch.Tensor) -> torch.Tensor:
        function(*given)
        return torch.neg(given[0])

    def build(graph: fx.Graph) -> Any:
        tracer = fx.proxy.GraphAppendingTracer(graph)
        return whole(*(fx.Proxy(graph.placeholder(f"x{number}"), tracer) for number in range(len(inputs)))).node

    return graph_of(build), inputs


FAR = torch.tensor([0, 99])
RAISING: dict[str, tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...]]] = {
    "index that is a tensor": (lambda x, i: x[i], (numbers(5), FAR)),
    "index beside a slice": (lambda x, i: x[:, i], (numbers(3, 5), FAR)),
    "index into what was computed": (lambda x: (x * 2)[99], (numbers(5),)),
    "index_select": (lambda x, i: torch.index_select(x, 0, i), (numbers(5), FAR)),
    "gather": (lambda x, i: x.gather(0, i), (numbers(5), FAR)),
    "take": (lambda x, i: torch.take(x, i), (numbers(5), FAR)),
    "scatter": (lambda x, i: torch.scatter(x, 0, i, 1.0), (numbers(5), FAR)),
    "index_add": (lambda x, i: torch.index_add(x, 0, i, x[:2]), (numbers(5), FAR)),
    "index_put": (lambda x, i: aten.index_put.default(x, [i], x[:2]), (numbers(5), FAR)),
    "embedding": (lambda x, i: functional.embedding(i, x), (numbers(5, 3), FAR)),
    "embedding_bag": (lambda x, i: functional.embedding_bag(i, x, i), (numbers(5, 3), FAR)),
    "cross_entropy": (lambda x, i: functional.cross_entropy(x, i), (numbers(2, 3), FAR)),
    "one_hot": (lambda x: functional.one_hot(x, 3), (FAR,)),
    "bincount": (lambda x: torch.bincount(x), (-FAR,)),
    "binary_cross_entropy": (lambda x: functional.binary_cross_entropy(x, x), (numbers(5) + 9,)),
    "integer division": (lambda x, y: x // y, (torch.arange(3), torch.zeros(3, dtype=torch.int64))),
    "integer remainder": (lambda x, y: x % y, (torch.arange(3), torch.zeros(3, dtype=torch.int64))),
    "rounded quotient": (
        lambda x, y: torch.div(x, y, rounding_mode="floor"),
        (torch.arange(3), torch.zeros(3, dtype=torch.int64)),
    ),
    "division by the number zero": (lambda x: x // 0, (torch.arange(3),)),
    "number divided by integers": (lambda x: 7 % x, (torch.zeros(3, dtype=torch.int64),)),
    "inverse of a singular matrix": (lambda x: torch.linalg.inv(x), (torch.zeros(3, 3),)),
    "cholesky": (lambda x: torch.linalg.cholesky(x), (-torch.eye(3),)),
    "repeats below zero": (lambda x, i: torch.repeat_interleave(x, i, dim=0), (numbers(2), -FAR)),
    "size out of data": (lambda x: torch.ones(x.item()), (torch.tensor(-5),)),
    "size computed out of data": (lambda x: torch.ones(x.item() - 9), (torch.tensor(5),)),
    "assertion": (lambda x: torch._assert(x.sum() > 9, "too small"), (numbers(3),)),
}
"""What raises on the values that it is given, whose shapes and dtypes are in order."""


def fail_unseen(name: str, function: Callable[..., torch.Tensor], inputs: tuple[torch.Tensor, ...]) -> None:
    def build() -> Program:
        return unused(function, *inputs)

    build.__name__ = f"failure of {name}"
    build.__doc__ = f"Nobody uses the result of {name}, and everybody sees that there is none."
    trap(False, raises=True)(build)


for name, (function, inputs) in RAISING.items():
    fail_unseen(name, function, inputs)


@trap(False, raises=True)
def failure_of_an_embedding_module() -> Program:
    """The module raises for a token that it does not know."""
    root = nn.Module()
    root.table = nn.Embedding(5, 3)

    def build(graph: fx.Graph) -> Any:
        tokens = graph.placeholder("tokens")
        graph.call_module("table", (tokens,))
        return graph.call_function(torch.neg, (tokens,))

    return graph_of(build, root), (torch.tensor([0, 99]),)


@trap(False, raises=True)
def failure_of_a_square_root_of_a_number_out_of_data() -> Program:
    """A number that was read out of a tensor is below zero."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        graph.call_function(math.sqrt, (graph.call_method("item", (x,)),))
        return graph.call_function(torch.neg, (x,))

    return graph_of(build), (torch.tensor(-5.0),)


@trap(False, raises=True)
def failure_of_an_exported_index() -> Program:
    """At ATen level, with examples: the shapes are known, and the values of the index are not."""

    class Looks(nn.Module):
        def forward(self, x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
            x[i]
            return -x

    return recorded(Looks(), numbers(5), torch.tensor([0, 1])), (numbers(5), torch.tensor([0, 99]))


@trap(True, left=1)
def what_cannot_fail_for_these_shapes() -> Program:
    """Numbers within the known size, divisors that are no zero, quotients of floats: none raises on a value."""

    def function(x: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
        x[2], x[1:99], x // x, x % 2, count // 2, count % 3, count / count
        torch.div(count, 2, rounding_mode="trunc").clamp(min=0), functional.normalize(x, dim=0)
        return torch.neg(x)

    inputs = (numbers(4), torch.arange(4))
    return with_examples(traced(function), *inputs), inputs


TRAPS = trap.traps
