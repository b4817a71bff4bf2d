"""Common subexpressions: what looks the same and is not, and what is the same although it looks dangerous."""

from __future__ import annotations

from collections.abc import Callable
from operator import getitem, iadd
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

trap = Collector("subexpressions", "common_subexpressions")


def twice(target: Any, *args: Any, **kwargs: Any) -> Program:
    """`f(x) - f(x)`, at ATen or torch level, written node by node."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        one, other = (graph.call_function(target, (x, *args), kwargs) for _ in range(2))
        return graph.call_function(torch.sub, (one, other))

    return graph_of(build), (numbers(3, 4),)


@trap(True, left=2)
def equal_expressions() -> Program:
    """The plain case: the second computation goes."""
    return twice(aten.exp.default)


@trap(False)
def bernoulli_at_aten_level() -> Program:
    """Two draws are two values, by the operator's tag."""
    return twice(aten.bernoulli.p, 0.5)


@trap(False)
def torch_level_draw() -> Program:
    """`torch.rand_like` is no ATen overload; a list of ATen names does not know it."""
    return twice(torch.rand_like)


@trap(False)
def uniform_draw_that_name_lists_miss() -> Program:
    """`aten.uniform` is tagged as drawing, and missing from PyTorch's list."""
    return twice(aten.uniform.default)


@trap(False)
def dropout_in_training() -> Program:
    """`functional.dropout` draws by default."""
    return twice(functional.dropout)


@trap(True, left=2)
def dropout_in_evaluation() -> Program:
    """With `training=False` nothing is drawn, and the two are one."""
    return twice(functional.dropout, training=False)


@trap(False)
def attention_with_dropout() -> Program:
    """`scaled_dot_product_attention` draws where `dropout_p` is not zero."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        one, other = (
            graph.call_function(functional.scaled_dot_product_attention, (x, x, x), {"dropout_p": 0.5})
            for _ in range(2)
        )
        return graph.call_function(torch.sub, (one, other))

    return graph_of(build), (torch.randn(2, 3, 4),)


@trap(False)
def training_dropout_module() -> Program:
    """One dropout module called twice in training draws two masks."""
    model = nn.Sequential(nn.Dropout(0.5)).train()

    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.drop = model

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.drop(x) - self.drop(x)

    return traced(Twice().train()), (numbers(3, 4),)


@trap(False)
def training_batch_norm_called_twice() -> Program:
    """Each call of a training BatchNorm moves the running statistics once."""

    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.norm(x) + self.norm(x)

    return traced(Twice().train()), (numbers(3, 4),)


@trap(True, left=2)
def evaluated_module_under_two_names() -> Program:
    """A shared module under two names is one function; in evaluation its two calls are one value."""

    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one = nn.Linear(4, 2)
            self.other = self.one

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.one(x) * self.other(x)

    return traced(Shared().eval()), (numbers(3, 4),)


@trap(True, left=4)
def duplicates_beside_a_draw() -> Program:
    """The draws stay two, the duplicates beside them become one."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        noisy = []
        for _ in range(2):
            sine = graph.call_function(aten.sin.default, (x,))
            draw = graph.call_function(aten.rand_like.default, (sine,))
            noisy.append(draw)
        return graph.call_function(aten.sub.Tensor, tuple(noisy))

    return graph_of(build), (numbers(3, 4),)


@trap(False)
def integer_and_float_literal() -> Program:
    """`1 == 1.0` and their hashes agree, yet an integer tensor plus 1.0 is another dtype."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        return graph.call_function(torch.add, (x, 1)), graph.call_function(torch.add, (x, 1.0))

    return graph_of(build), (torch.arange(6).reshape(2, 3),)


@trap(False)
def truth_value_and_integer_literal() -> Program:
    """`True == 1`, yet a boolean tensor plus `True` stays boolean."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        one = graph.call_function(torch.mul, (x, True))
        other = graph.call_function(torch.mul, (x, 1))
        return graph.call_function(torch.neg, (other,)), graph.call_function(torch.logical_not, (one,)), one, other

    return graph_of(build), (torch.tensor([True, False, True]),)


@trap(False)
def zeros_of_both_signs() -> Program:
    """`0.0 == -0.0`, yet they give infinities of both signs."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        one = graph.call_function(torch.full_like, (x, 0.0))
        other = graph.call_function(torch.full_like, (x, -0.0))
        return graph.call_function(torch.div, (x, one)), graph.call_function(torch.div, (x, other))

    return graph_of(build), (numbers(5),)


@trap(True, left=4)
def nan_literals() -> Program:
    """NaN is not equal to itself, yet the same literal fills two tensors alike."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        fills = [graph.call_function(aten.full_like.default, (x, float("nan"))) for _ in range(2)]
        rest = graph.call_function(aten.add.Tensor, tuple(fills))
        return graph.call_function(aten.where.self, (graph.call_function(aten.isnan.default, (x,)), x, rest))

    return graph_of(build), (numbers(5),)


@trap(False)
def list_and_tuple_of_indices() -> Program:
    """`x[[0, 1]]` picks two rows, `x[(0, 1)]` one element."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        return graph.call_function(getitem, (x, [0, 1])), graph.call_function(getitem, (x, (0, 1)))

    return graph_of(build), (numbers(3, 4),)


@trap(False)
def keyword_arguments_by_name() -> Program:
    """The same value for two keywords: a floor and a ceiling."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        return graph.call_function(torch.clamp, (x,), {"min": 0.5}), graph.call_function(
            torch.clamp, (x,), {"max": 0.5}
        )

    return graph_of(build), (numbers(3),)


@trap(False)
def buffers_of_which_one_is_written() -> Program:
    """Two fresh tensors made alike, of which one is written: they are two."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        one, other = (graph.call_function(aten.zeros_like.default, (x,)) for _ in range(2))
        graph.call_function(aten.add_.Tensor, (one, x))
        return graph.call_function(aten.sub.Tensor, (one, other))

    return graph_of(build), (numbers(3, 4),)


@trap(False)
def across_a_write_through_a_view() -> Program:
    """Between the two reads a row of the tensor is written through a view."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        own = graph.call_function(aten.clone.default, (x,))
        before = graph.call_function(aten.sin.default, (own,))
        row = graph.call_function(aten.select.int, (own, 0, 1))
        graph.call_function(aten.mul_.Tensor, (row, 3))
        return graph.call_function(aten.sub.Tensor, (before, graph.call_function(aten.sin.default, (own,))))

    return graph_of(build), (numbers(3, 4),)


@trap(False)
def across_a_write_to_the_base_of_a_view() -> Program:
    """The two reads are of a view; its base is written in between."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        own = graph.call_method("clone", (x,))
        row = graph.call_function(getitem, (own, 0))
        before = graph.call_method("exp", (row,))
        graph.call_function(torch.relu_, (own,))
        return graph.call_function(torch.sub, (before, graph.call_method("exp", (row,))))

    return graph_of(build), (numbers(3, 4) - 1,)


@trap(False)
def across_an_in_place_flag() -> Program:
    """`relu(..., inplace=True)` has no underscore in its name."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        own = graph.call_method("clone", (x,))
        before = graph.call_function(torch.sigmoid, (own,))
        graph.call_function(functional.relu, (own,), {"inplace": True})
        return graph.call_function(torch.sub, (before, graph.call_function(torch.sigmoid, (own,))))

    return graph_of(build), (numbers(3, 4),)


@trap(False)
def across_an_augmented_assignment() -> Program:
    """`y += 1`, which `symbolic_trace` would not record, writes."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        own = graph.call_method("clone", (x,))
        before = graph.call_function(torch.sin, (own,))
        after = graph.call_function(iadd, (own, 1))
        return graph.call_function(torch.sub, (before, graph.call_function(torch.sin, (own,)))), after

    return graph_of(build), (numbers(3),)


@trap(False)
def across_an_out_argument() -> Program:
    """`out=` writes one of the tensors that are read twice."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        own = graph.call_function(torch.clone, (x,))
        before = graph.call_function(torch.exp, (own,))
        graph.call_function(torch.add, (x, 1), {"out": own})
        return graph.call_function(torch.sub, (before, graph.call_function(torch.exp, (own,))))

    return graph_of(build), (numbers(3),)


@trap(False)
def out_arguments_into_one_buffer() -> Program:
    """Two equal writes with `out=` to one buffer, which is doubled in between."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        buffer = graph.call_function(torch.zeros_like, (x,))
        graph.call_function(torch.sin, (x,), {"out": buffer})
        kept = graph.call_method("clone", (buffer,))
        graph.call_method("add_", (buffer, buffer))
        graph.call_function(torch.sin, (x,), {"out": buffer})
        return graph.call_function(torch.sub, (kept, buffer)), buffer

    return graph_of(build), (numbers(3),)


@trap(False)
def inputs_that_may_be_one_tensor() -> Program:
    """One input is written; the other, which is read twice, may be the same memory."""

    def build(graph: fx.Graph) -> Any:
        x, y = graph.placeholder("x"), graph.placeholder("y")
        before = graph.call_function(aten.sin.default, (y,))
        graph.call_function(aten.add_.Tensor, (x, 1))
        return graph.call_function(aten.sub.Tensor, (before, graph.call_function(aten.sin.default, (y,))))

    whole = numbers(6)
    return graph_of(build), (whole[:4], whole[2:])


@trap(False)
def a_buffer_read_before_and_after_its_update() -> Program:
    """A counter in a buffer: the same `get_attr`, another value."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        count = graph.get_attr("count")
        before = graph.call_function(aten.mul.Tensor, (count, 2))
        graph.call_function(aten.add_.Tensor, (count, x))
        after = graph.call_function(aten.mul.Tensor, (count, 2))
        return graph.call_function(aten.sub.Tensor, (after, before))

    return graph_of(build, state(count=torch.zeros(3))), (numbers(3),)


@trap(None)
def update_of_a_buffer_in_an_exported_program() -> Program:
    """Functional ATen: the new value of a buffer is computed twice, and written by `copy_` at the end."""

    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            before = self.count + x
            self.count.add_(x)
            return before * (self.count + x)

    return exported(Counter(), numbers(3)), (numbers(3),)


@trap(True, left=4)
def reads_before_any_write() -> Program:
    """Both reads come before the write, so they are one."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        own = graph.call_function(aten.clone.default, (x,))
        one, other = (graph.call_function(aten.sin.default, (own,)) for _ in range(2))
        product = graph.call_function(aten.mul.Tensor, (one, other))
        graph.call_function(aten.add_.Tensor, (own, 1))
        return graph.call_function(aten.add.Tensor, (product, own))

    return graph_of(build), (numbers(3),)


@trap(True, left=5)
def write_to_something_else_in_between() -> Program:
    """What is written between the two reads is another tensor's storage."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        one = graph.call_function(aten.sin.default, (x,))
        scratch = graph.call_function(aten.zeros_like.default, (x,))
        written = graph.call_function(aten.add_.Tensor, (scratch, 2))
        other = graph.call_function(aten.sin.default, (x,))
        return graph.call_function(aten.add.Tensor, (graph.call_function(aten.mul.Tensor, (one, other)), written))

    return graph_of(build), (numbers(3),)


@trap(True, left=4)
def equal_views_of_written_storage() -> Program:
    """Two equal views of one storage are one view, whoever writes through it."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        own = graph.call_function(aten.clone.default, (x,))
        one, other = (graph.call_function(aten.select.int, (own, 0, 0)) for _ in range(2))
        first = graph.call_function(aten.add_.Tensor, (one, 1))
        second = graph.call_function(aten.mul_.Tensor, (other, first))
        return own, second

    return graph_of(build), (numbers(3, 4),)


def equal_views_of_which_one_is_changed(change: Callable[[fx.Graph, fx.Node, fx.Node], object]) -> Program:
    """Two equal views of one storage, one of which becomes another view before both are read."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        own = graph.call_function(aten.clone.default, (x,))
        one, other = (graph.call_function(aten.view.default, (own, [-1])) for _ in range(2))
        change(graph, one, x)
        return tuple(graph.call_function(aten.add.Tensor, (view, 1)) for view in (one, other))

    return graph_of(build), (numbers(3, 4),)


@trap(False)
def a_view_gets_a_dimension() -> Program:
    """`unsqueeze_` changes the tensor that it is called on, and not what that lies on: its twin keeps its shape."""
    return equal_views_of_which_one_is_changed(
        lambda graph, view, x: graph.call_function(aten.unsqueeze_.default, (view, 0))
    )


@trap(False)
def a_view_gets_a_dimension_by_a_method() -> Program:
    """The same by a method, and reached through `contiguous`, which gives back the very tensor that it is given."""

    def change(graph: fx.Graph, view: fx.Node, x: fx.Node) -> None:
        graph.call_method("unsqueeze_", (graph.call_method("contiguous", (view,)), 0))

    return equal_views_of_which_one_is_changed(change)


@trap(False)
def a_view_is_resized_as_a_destination() -> Program:
    """What is given as `out=` gets the size of the result. Found by fuzzing."""
    return equal_views_of_which_one_is_changed(
        lambda graph, view, x: graph.call_function(
            aten.sin.out, (graph.call_function(aten.select.int, (x, 0, 0)),), {"out": view}
        )
    )


@trap(False)
def a_view_is_put_elsewhere() -> Program:
    """`set_` lets a tensor be another one altogether."""
    return equal_views_of_which_one_is_changed(lambda graph, view, x: graph.call_method("set_", (view, x)))


@trap(False)
def two_results_that_must_stay_apart() -> Program:
    """The caller may write to one result; the other must not change."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        return graph.call_function(aten.sin.default, (x,)), graph.call_function(aten.sin.default, (x,))

    return graph_of(build), (numbers(3),)


@trap(False)
def results_through_views_that_must_stay_apart() -> Program:
    """The results are views of two equal values: merged, they would overlap."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        one, other = (graph.call_function(aten.sin.default, (x,)) for _ in range(2))
        return (
            graph.call_function(aten.select.int, (one, 0, 0)),
            graph.call_function(aten.view.default, (other, [-1])),
        )

    return graph_of(build), (numbers(3, 4),)


@trap(True, left=2)
def one_result_returned_twice() -> Program:
    """What is one tensor twice in the output stays so; the duplicate beside it goes."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        kept = graph.call_function(aten.sin.default, (x,))
        spare = graph.call_function(aten.sin.default, (x,))
        shape = graph.call_function(torch.ops.aten.sym_size.int, (spare, 0))
        return kept, kept, shape

    return graph_of(build), (numbers(3),)


@trap(False)
def across_a_grad_mode_switch() -> Program:
    """The same expression with and without gradients: to merge them cuts the gradient, or lets one flow."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        graph.call_function(torch._C._set_grad_enabled, (False,))
        constant = graph.call_function(torch.exp, (x,))
        graph.call_function(torch._C._set_grad_enabled, (True,))
        return graph.call_function(torch.mul, (constant, graph.call_function(torch.exp, (x,))))

    return graph_of(build), (numbers(3),)


@trap(False)
def across_autocast() -> Program:
    """The same product inside and outside autocast has two dtypes."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        mode = graph.call_function(torch.amp.autocast_mode._enter_autocast, ("cpu", torch.bfloat16, True, None))
        low = graph.call_function(torch.matmul, (x, x))
        graph.call_function(torch.amp.autocast_mode._exit_autocast, (mode,))
        return low, graph.call_function(torch.matmul, (x, x))

    return graph_of(build), (numbers(3, 3),)


@trap(False)
def unknown_function_called_twice() -> Program:
    """Nothing is known of a Python function; this one counts its calls."""
    return twice(counted)


@trap(True, left=3)
def pytree_inputs_and_outputs() -> Program:
    """A graph whose inputs and outputs are dictionaries keeps its signature."""

    class Structured(nn.Module):
        def forward(self, batch: dict[str, torch.Tensor]) -> dict[str, Any]:
            one = torch.sin(batch["a"]) + batch["b"][0]
            other = torch.sin(batch["a"]) + batch["b"][0]
            return {"sum": one * other, "pair": [batch["a"], (other,)]}

    inputs = ({"a": numbers(3), "b": (numbers(3) * 2,)},)
    return exported(Structured(), *inputs), inputs


@trap(True, left=5)
def empty_and_zero_dimensional_tensors() -> Program:
    """Sums of nothing, and numbers that are tensors."""

    def empty(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x.sum() + y) * (x.sum() + y) + x.prod()

    inputs = (torch.zeros(0, 3), torch.tensor(-0.0))
    return recorded(empty, *inputs), inputs


@trap(True, left=4, keeps_metadata=True)
def several_results_of_one_node() -> Program:
    """A node with two results computed twice: the reads of its parts are merged as well."""

    def several(x: torch.Tensor) -> torch.Tensor:
        one, _ = torch.max(x, dim=0)
        _, index = torch.max(x, dim=0)
        return one * index

    inputs = (numbers(3, 4),)
    return recorded(several, *inputs), inputs


@trap(False)
def empty_tensors_whose_content_is_written() -> Program:
    """Uninitialised memory is allocated twice, and each is filled with something else."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        one, other = (graph.call_function(torch.empty_like, (x,)) for _ in range(2))
        graph.call_method("copy_", (one, x))
        graph.call_method("fill_", (other, 2.0))
        return graph.call_function(torch.sub, (one, other))

    return graph_of(build), (numbers(3),)


@trap(True, left=4)
def gradients_are_summed() -> Program:
    """Gradients that came from two copies of a parameter's product come from one."""

    class Squared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(numbers(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.exp(x * self.weight) + torch.tanh(x * self.weight)

    return traced(Squared()), (numbers(3, 4),)


@trap(True, left=2)
def keywords_in_another_order() -> Program:
    """The order in which keyword arguments are written changes nothing."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        orders = {"other": 1, "alpha": 2}, {"alpha": 2, "other": 1}
        one, other = (graph.call_function(torch.add, (x,), keywords) for keywords in orders)
        return graph.call_function(torch.sub, (one, other))

    return graph_of(build), (numbers(3, 4),)


TRAPS = trap.traps
