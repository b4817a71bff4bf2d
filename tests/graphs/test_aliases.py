"""Which values share storage, which are written, and which somebody outside may hold."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch
from torch import fx, nn

from fxopt_core.graphs.aliases import OUTSIDE, Storages, memory_of
from fxopt_core.graphs.examples import HELD_BY_MODULE

aten = torch.ops.aten


class Program:
    """A graph that grows by calls, over a module."""

    def __init__(self, root: nn.Module | None = None) -> None:
        self.root = root if root is not None else nn.Module()
        self.graph = fx.Graph()

    def input(self, name: str) -> fx.Node:
        return self.graph.placeholder(name)

    def get(self, name: str) -> fx.Node:
        return self.graph.get_attr(name)

    def __call__(self, target: Callable[..., Any] | str, *args: Any, **kwargs: Any) -> fx.Node:
        if isinstance(target, str):
            return self.graph.call_method(target, args, kwargs)
        return self.graph.call_function(target, args, kwargs)

    def returning(self, *values: Any) -> Storages:
        self.graph.output(values)
        # The module itself owns the graph: what torch.fx copies into a GraphModule is not what is tested here.
        self.graph.owning_module = self.root  # type: ignore[assignment]
        return Storages(self.graph)


def together(storages: Storages, *places: Any) -> bool:
    """Whether all are in one class."""
    return len({storages.of(place) for place in places}) == 1


def apart(storages: Storages, *places: Any) -> bool:
    """Whether each is in a class of its own."""
    return len({storages.of(place) for place in places}) == len(places)


def with_buffers(**tensors: Any) -> nn.Module:
    root = nn.Module()
    for name, tensor in tensors.items():
        setattr(root, name, tensor) if not isinstance(tensor, torch.Tensor) else root.register_buffer(name, tensor)
    return root


def test_values_of_their_own_are_apart() -> None:
    program = Program()
    x, y = program.input("x"), program.input("y")
    a, b = program(aten.relu.default, x), program(aten.relu.default, x)
    storages = program.returning(a)
    assert apart(storages, x, y, a, b)
    assert storages.pure
    assert [storages.escapes(value) for value in (x, y, a, b)] == [True, True, True, False]


def test_a_chain_of_views_is_one_storage() -> None:
    program = Program()
    a = program(aten.relu.default, program.input("x"))
    views = [a]
    for target, *rest in (
        (aten.t.default,),
        (aten.view.default, [4]),
        (aten.alias.default,),
        (aten.reshape.default, [2]),
    ):
        views.append(program(target, views[-1], *rest))
    storages = program.returning(views[-1])
    assert together(storages, *views)
    assert storages.returned == set(views)
    assert storages.escapes(a)


@pytest.mark.parametrize("target", [aten.add_.Tensor, "add_", operator.iadd])
def test_a_write_through_a_view_is_a_write_to_all(target: Any) -> None:
    program = Program()
    a = program(aten.relu.default, program.input("x"))
    view, other = program(aten.t.default, a), program(aten.slice.Tensor, a)
    written = program(target, view, 1)
    storages = program.returning(other)
    assert together(storages, a, view, other, written)
    assert storages.written(a)
    assert not storages.pure


def test_a_piece_of_a_split_is_what_was_split() -> None:
    program = Program()
    a = program(aten.relu.default, program.input("x"))
    pieces = program(aten.split.Tensor, a, 1)
    first, second = program(operator.getitem, pieces, 0), program(operator.getitem, pieces, 1)
    program("zero_", first)
    storages = program.returning(second)
    assert together(storages, a, first, second)
    assert storages.written(second)


@pytest.mark.parametrize(
    ("target", "arguments"),
    [
        (aten.cat.default, lambda a, b: ([a, b],)),
        (aten.stack.default, lambda a, b: ([a, b],)),
        (aten.index.Tensor, lambda a, b: (a, [b])),
        (aten.index_put.default, lambda a, b: (a, [None, b], a)),
        (aten.copy.default, lambda a, b: (a, b)),
    ],
)
def test_lists_that_are_only_read(target: Any, arguments: Any) -> None:
    program = Program()
    a, b = (program(aten.relu.default, program.input(name)) for name in "xy")
    result = program(target, *arguments(a, b))
    storages = program.returning(result)
    assert apart(storages, a, b, result)
    assert storages.pure


def test_a_list_that_is_written() -> None:
    program = Program()
    a, b, c, d = (program(aten.relu.default, program.input(name)) for name in "wxyz")
    program(aten._foreach_add_.List, [a, b], [c, d])
    storages = program.returning()
    assert [storages.written(value) for value in (a, b, c, d)] == [True, True, False, False]


def test_indices_of_a_write_are_only_read() -> None:
    program = Program()
    a, index, value = (program(aten.relu.default, program.input(name)) for name in "xyz")
    result = program(aten.index_put_.default, a, [None, index], value)
    storages = program.returning(result)
    assert together(storages, a, result)
    assert [storages.written(one) for one in (a, index, value)] == [True, False, False]
    assert storages.returned == {a, result}


def test_copy_takes_values_and_no_storage() -> None:
    program = Program()
    a, b = (program(aten.relu.default, program.input(name)) for name in "xy")
    program("copy_", a, b)
    storages = program.returning(a)
    assert apart(storages, a, b)
    assert [storages.written(one) for one in (a, b)] == [True, False]


def test_out_is_the_result() -> None:
    program = Program()
    x = program.input("x")
    buffer = program(aten.empty.memory_format, [2])
    result = program(torch.add, x, x, out=buffer)
    later = program(aten.relu.default, buffer)
    storages = program.returning(later)
    assert together(storages, buffer, result)
    assert storages.written(result)
    assert not storages.escapes(buffer)


def test_swapped_storage_is_anybody_s() -> None:
    """After `a.set_(b)` both are one; what was a's storage lives on in its views."""
    program = Program()
    a, b = (program(aten.relu.default, program.input(name)) for name in "xy")
    view = program(aten.t.default, a)
    program(aten.set_.source_Tensor, a, b)
    storages = program.returning(view)
    assert together(storages, a, b, view, OUTSIDE)
    assert storages.written(b)


class TestInputsAndState:
    """The caller may hand in overlapping tensors, which matters where something is written."""

    @staticmethod
    def root() -> nn.Module:
        base = torch.zeros(4)
        return with_buffers(a=base[:2], b=base[2:], c=torch.zeros(2))

    def test_nothing_written(self) -> None:
        program = Program(self.root())
        x, y, a, b, c = program.input("x"), program.input("y"), *map(program.get, "abc")
        storages = program.returning(x)
        assert apart(storages, x, y, a, c)
        assert together(storages, a, b, "a", "b")
        assert all(map(storages.escapes, (x, y, a, b, c)))

    def test_a_written_input_may_be_any(self) -> None:
        program = Program(self.root())
        x, y, a, b, c = program.input("x"), program.input("y"), *map(program.get, "abc")
        fresh = program(aten.relu.default, x)
        program(aten.copy_.default, x, fresh)  # as functional graphs end
        storages = program.returning(fresh)
        assert together(storages, x, y, a, b, c, OUTSIDE)
        assert storages.written(c)
        assert not storages.written(fresh)

    def test_a_written_buffer_may_be_an_input_but_no_other_buffer(self) -> None:
        program = Program(self.root())
        x, a, b, c = program.input("x"), *map(program.get, "abc")
        program(aten.add_.Tensor, a, 1)
        storages = program.returning(x)
        assert together(storages, x, a, b, OUTSIDE)
        assert storages.written(b)
        assert not storages.written(c)

    def test_what_a_module_writes_is_what_others_get(self) -> None:
        root = nn.Module()
        root.norm = nn.BatchNorm1d(3)
        program = Program(root)
        x, mean = program.input("x"), program.get("norm.running_mean")
        result = program.graph.call_module("norm", (x,))
        storages = program.returning(result)
        assert storages.written(mean)
        assert together(storages, mean, "norm.running_mean", OUTSIDE)
        assert not storages.written(result)

    def test_statistics_under_two_names(self) -> None:
        root = nn.Module()
        root.norm = nn.BatchNorm1d(3)
        root.same = root.norm
        program = Program(root)
        mean = program.get("same.running_mean")
        storages = program.returning(program.graph.call_module("norm", (program.input("x"),)))
        assert storages.written(mean)


def state_over_one_memory() -> dict[str, nn.Module]:
    array = numpy.zeros(4, dtype=numpy.float32)
    values = torch.zeros(2)
    tied = nn.Module()
    tied.a = nn.Parameter(torch.zeros(2))
    tied.b = tied.a
    with torch._subclasses.FakeTensorMode():
        fake = torch.zeros(4)
        fakes = with_buffers(a=fake[:2], b=fake[2:])
    return {
        "tied parameters": tied,
        "two views": with_buffers(a=values, b=values.view(2, 1)),
        "a parameter's data": with_buffers(a=tied.a.data, b=tied.a.detach()),
        "one array of NumPy": with_buffers(a=torch.from_numpy(array), b=torch.from_numpy(array)),
        "a sparse tensor's values": with_buffers(
            a=torch.sparse_coo_tensor([[0, 1]], values, (2,), is_coalesced=True), b=values
        ),
        "fake tensors": fakes,
        "on no device": with_buffers(a=(meta := torch.zeros(4, device="meta")), b=meta[1:]),
        "a list": with_buffers(a=[values], b=values),
    }


@pytest.mark.parametrize("kind", state_over_one_memory())
def test_a_write_to_state_reaches_its_other_names(kind: str) -> None:
    program = Program(state_over_one_memory()[kind])
    a, b = program.get("a"), program.get("b")
    program("zero_", program(operator.getitem, a, 0))
    storages = program.returning(b)
    assert storages.written(b)


def test_different_state_is_apart() -> None:
    program = Program(with_buffers(a=torch.zeros(2), b=torch.zeros(2), c=torch.zeros(0), d=torch.zeros(0)))
    places = [program.get(name) for name in "abcd"]
    program("zero_", places[0])
    storages = program.returning()
    assert apart(storages, *places)
    assert [storages.written(place) for place in places] == [True, False, False, False]


def test_without_a_module_all_state_may_be_one() -> None:
    graph = fx.Graph()
    a, b = graph.get_attr("a"), graph.get_attr("b")
    graph.call_method("zero_", (a,))
    graph.output(b)
    assert Storages(graph).written(b)


class TestTheUnknown:
    """What is opaque may write and keep all that it gets and all that is outside."""

    def test_all_that_it_gets_is_outside(self) -> None:
        program = Program()
        x = program.input("x")
        given, kept = program(aten.relu.default, x), program(aten.relu.default, x)
        view = program(aten.t.default, given)
        result = program(print, given)
        storages = program.returning()
        assert together(storages, x, given, view, result, OUTSIDE)
        assert storages.written(view)
        assert storages.escapes(view)
        assert apart(storages, kept, OUTSIDE)
        assert not storages.written(kept)

    @pytest.mark.parametrize("holder", [torch.cond, torch.ops.higher_order.auto_functionalized, "append", "update"])
    def test_what_holds_tensors(self, holder: Any) -> None:
        program = Program()
        x = program.input("x")
        stored = program(aten.relu.default, x)
        program(holder, x, {"key": [stored]})
        storages = program.returning(program(operator.getitem, x, 0))
        assert together(storages, stored, OUTSIDE)

    def test_what_is_stored_in_a_dictionary(self) -> None:
        program = Program()
        x = program.input("x")
        stored = program(aten.relu.default, x)
        dictionary = program(dict)
        program(operator.setitem, dictionary, "key", stored)
        again = program(operator.getitem, dictionary, "key")
        program("zero_", again)
        storages = program.returning()
        assert together(storages, stored, dictionary, again)
        assert storages.written(stored)
        assert not storages.escapes(stored)

    def test_what_is_in_a_sum_of_tuples(self) -> None:
        program = Program()
        a, b = (program(aten.relu.default, program.input(name)) for name in "xy")
        both = program(operator.add, (a,), program(tuple, (b,)))
        program("zero_", program(operator.getitem, both, 1))
        assert program.returning().written(b)


def test_returned_is_what_results_were_computed_from_by_views() -> None:
    program = Program()
    x = program.input("x")
    a = program(aten.relu.default, x)
    view = program(aten.t.default, a)
    apart_from_it = program(aten.relu.default, view)
    result = program(operator.getitem, program(tuple, [apart_from_it]), 0)
    storages = program.returning({"key": [result]}, view)
    assert {a, view, apart_from_it, result} <= storages.returned
    assert x not in storages.returned


def test_merge_joins_writes_and_escapes() -> None:
    program = Program()
    x = program.input("x")
    a, b, c = (program(aten.relu.default, x) for _ in range(3))
    program("zero_", a)
    storages = program.returning(c)
    assert apart(storages, a, b, c)
    storages.merge(b, a)
    assert together(storages, a, b)
    assert storages.written(b)
    assert not storages.escapes(b)
    storages.merge(b, c)
    assert storages.escapes(a)
    assert storages.written(c)
    storages.merge(a, c)
    assert together(storages, a, b, c)


def test_a_long_chain_of_views_is_no_recursion() -> None:
    program = Program()
    value = program(aten.relu.default, program.input("x"))
    first = value
    for _ in range(20_000):
        value = program(aten.t.default, value)
    storages = program.returning(value)
    assert together(storages, first, value)
    assert len(storages.returned) == 20_001


@pytest.mark.parametrize("written", ["x", "count", "nothing"])
def test_inputs_that_dynamo_made_of_parameters_are_parameters(written: str) -> None:
    """Writing statistics does not touch other weights, though it may touch what a caller passes beside them."""
    program = Program()
    weight, count = torch.ones(3), torch.zeros(3)
    inputs = {name: program.input(name) for name in ("x", "weight", "tied", "count")}
    for name, tensor in (("weight", weight), ("tied", weight[1:]), ("count", count)):
        inputs[name].meta[HELD_BY_MODULE] = memory_of(tensor)
    if written != "nothing":
        program(aten.add_.Tensor, inputs[written], 1)
    storages = program.returning(program(aten.add.Tensor, inputs["x"], inputs["weight"]))
    assert storages.of(inputs["weight"]) == storages.of(inputs["tied"])
    assert {name for name, node in inputs.items() if storages.written(node)} == {
        "nothing": set(), "count": {"x", "count"}, "x": set(inputs),
    }[written]  # fmt: skip
    found = {"nothing": frozenset(), "count": frozenset({memory_of(count)}), "x": None}
    assert storages.written_memory == found[written]


def test_who_answers_for_overlapping_inputs_may_have_them_apart() -> None:
    program = Program()
    x, y = program.input("x"), program.input("y")
    program(aten.add_.Tensor, x, 1)
    program.returning(program(aten.sin.default, y))
    assert Storages(program.graph).written(y)
    assert not Storages(program.graph, inputs_overlap=False).written(y)
