"""Repeated blocks: how many, where they are cut, and what keeps two blocks from being the same."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import pytest
import torch
from torch import fx, nn

from fxopt_core.graphs.module_paths import module_path
from fxopt_workbench import zoo
from fxopt_workbench.structure import Repeat, find_repeats, values_in_meta
from fxopt_workbench.structure.model_costs import export_on_fake_tensors


def repeats_of(model: nn.Module, *inputs: torch.Tensor) -> tuple[Repeat, ...]:
    graph = torch.export.export(model.eval(), inputs).graph
    return find_repeats(graph, values_in_meta(graph))


def repeats(model: str) -> tuple[Repeat, ...]:
    chosen = zoo.build(model, "meta")
    graph = export_on_fake_tensors(chosen.model, chosen.example_inputs).graph
    return find_repeats(graph, values_in_meta(graph))


def times(found: tuple[Repeat, ...]) -> list[tuple[int, int, bool]]:
    return [(len(repeat.copies), len(repeat.copies[0]), repeat.same) for repeat in found]


@pytest.mark.parametrize(
    ("model", "layers"),
    [
        ("bert-base", ["encoder.layer.{}", range(12)]),
        ("gpt2-small", ["transformer.h.{}", range(12)]),
        ("vit-b16", ["vit.layers.{}", range(12)]),
        # The first layer of T5 computes the positions that the others read.
        ("t5-small", ["encoder.block.{}", range(1, 6)]),
        ("t5-small", ["decoder.block.{}", range(1, 6)]),
        ("resnet50", ["resnet.encoder.stages.2.layers.{}", range(1, 6)]),
        ("yolov8m", ["backbone.to_16.1.chain.{}", range(4)]),
    ],
)
def test_blocks_are_the_layers_of_the_model(model: str, layers: tuple[str, range]) -> None:
    pytest.importorskip("transformers")
    pattern, numbers = layers
    wanted = [pattern.format(number).split(".") for number in numbers]
    for repeat in repeats(model):
        paths = [[module_path(node)[0] for node in copy] for copy in repeat.copies]
        if paths[0][0][: len(wanted[0])] == tuple(wanted[0]):
            assert repeat.same
            for of_copy, path in zip(paths, wanted, strict=True):
                assert all(list(one[: len(path)]) == path for one in of_copy)
            return
    raise AssertionError(f"no repeated block begins in {wanted[0]}")


class Residual(nn.Module):
    def __init__(self, width: int = 8, slope: float = 0.1) -> None:
        super().__init__()
        self.first, self.second, self.slope = nn.Linear(width, 2 * width), nn.Linear(2 * width, width), slope

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.second(nn.functional.leaky_relu(self.first(x), self.slope))


def chain(*blocks: nn.Module) -> tuple[Repeat, ...]:
    return repeats_of(nn.Sequential(*blocks), torch.randn(3, 8))


def test_copies_correspond_node_by_node() -> None:
    (repeat,) = chain(*(Residual() for _ in range(5)))
    assert times((repeat,)) == [(5, 4, True)]
    for copy in repeat.copies:
        assert [str(node.target) for node in copy] == [str(node.target) for node in repeat.copies[0]]
    assert [copy[0].args[0] for copy in repeat.copies[1:]] == [copy[-1] for copy in repeat.copies[:-1]]


def test_another_attribute_is_another_block() -> None:
    first, second = chain(*(Residual() for _ in range(3)), *(Residual(slope=0.2) for _ in range(2)))
    assert times((first, second)) == [(3, 4, True), (2, 4, True)]
    assert first.difference == "leaky_relu_2 has 0.1 where leaky_relu_3 has 0.2"
    assert second.difference == ""


def test_another_shape_is_another_block() -> None:
    class Wider(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cat((x, x), 1)

    first, second = chain(*(Residual() for _ in range(2)), Wider(), *(Residual(16) for _ in range(2)))
    assert times((first, second)) == [(2, 4, True), (2, 4, True)]
    assert first.difference == "linear_2 has float32[3, 8] where linear_4 has float32[3, 16]"


def test_blocks_that_all_differ_are_alike_but_not_the_same() -> None:
    (repeat,) = chain(*(Residual(slope=0.1 * number) for number in range(1, 5)))
    assert times((repeat,)) == [(4, 4, False)]
    assert repeat.difference == "leaky_relu has 0.1 where leaky_relu_1 has 0.2"


def test_blocks_side_by_side_do_not_follow_each_other() -> None:
    class Beside(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.branches = nn.ModuleList(Residual() for _ in range(4))

        def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
            return [branch(x) for branch in self.branches]

    assert repeats_of(Beside(), torch.randn(3, 8)) == ()


def test_a_block_that_reads_something_else_is_another_block() -> None:
    class Skips(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList(nn.ModuleList((nn.Linear(8, 8), nn.Linear(8, 8))) for _ in range(6))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            start = x
            for number, (first, second) in enumerate(self.blocks):
                # The fourth adds what the very first began with.
                x = second(first(x).relu()) + (start if number == 3 else x)
            return x

    assert times(repeats_of(Skips(), torch.randn(3, 8))) == [(3, 4, True), (2, 4, True)]


def test_weights_that_are_shared_within_a_block_make_another_block() -> None:
    class Twice(nn.Module):
        def __init__(self, tied: bool) -> None:
            super().__init__()
            self.first = nn.Linear(8, 8)
            self.second = self.first if tied else nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.second(self.first(x).relu())

    first, second = chain(Twice(False), Twice(False), Twice(True), Twice(True), Twice(True))
    assert times((first, second)) == [(2, 4, True), (3, 4, True)]
    assert first.difference == "they read other values"


def test_a_graph_without_values_is_compared_by_operations_and_attributes() -> None:
    graph = fx.symbolic_trace(
        nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Tanh(), nn.GELU()) for _ in "abc"))
    )
    assert times(find_repeats(graph.graph, values_in_meta(graph.graph))) == [(3, 4, True)]


def chain_of(nodes: int) -> fx.Graph:
    graph = fx.Graph()
    value = skip = graph.placeholder("x")
    functions = (torch.relu, torch.tanh, torch.neg, torch.abs, torch.exp, torch.sin, torch.cos)
    for place in range(nodes):
        if place % 50 == 49:
            value = skip = graph.call_function(torch.add, (value, skip))
        else:
            value = graph.call_function(functions[(place % 50) ** 3 % 11 % 7], (value,))
    graph.output(value)
    return graph


def instructions(nodes: int) -> int:
    """Instructions of Python that finding the repeats takes: the same on every machine, however busy."""
    graph = chain_of(nodes)
    executed = 0

    def count(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal executed
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        executed += event == "opcode"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        (repeat,) = find_repeats(graph, {})
    finally:
        sys.settrace(before)
    assert times((repeat,)) == [(nodes // 50, 50, True)]
    return executed


def test_work_grows_with_the_nodes_and_not_with_their_square() -> None:
    few, many = instructions(500), instructions(4000)
    assert 8 * 0.8 < many / few < 8 * 2
