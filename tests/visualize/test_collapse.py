"""Large graphs are drawn with few boxes that together stand for every node."""

from __future__ import annotations

import re
from collections import Counter

import pytest
import torch
from torch import fx, nn

from fxopt_core.graphs.module_paths import module_path
from fxopt_workbench.pictures import GraphPicture, draw
from fxopt_workbench.pictures.grouping import MOST_BOXES


class Block(nn.Module):
    """Eleven operations in three submodules and a residual connection."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)
        self.norm = nn.LayerNorm(4)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.first(x)).abs().neg() * 2.0
        y = torch.tanh(self.second(y)) + 1.0
        return self.norm(x + y * mask)


class Stack(nn.Module):
    def __init__(self, depth: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(depth))

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x, mask)
        return x


def exported(depth: int) -> torch.export.ExportedProgram:
    return torch.export.export(Stack(depth), (torch.ones(2, 4), torch.ones(2, 4)))


def large_graph(nodes: int) -> fx.GraphModule:
    """A graph without module metadata: a chain with a skip connection every ten nodes."""
    graph = fx.Graph()
    value = skip = graph.placeholder("x")
    for place in range(nodes):
        if place % 10 == 9:
            value = graph.call_function(torch.add, (value, skip))
            skip = value
        else:
            value = graph.call_function((torch.relu, torch.tanh, torch.neg)[place % 3], (value,))
    graph.output(value)
    return fx.GraphModule({}, graph)


def counted_nodes(picture: GraphPicture) -> int:
    return sum(int(row[1]) for row in picture.scene.rows)


def assert_arrows_match(picture: GraphPicture, graph: fx.Graph) -> None:
    """Every arrow leads forwards, and the counts add up to the values that really cross."""
    place = {box.name: index for index, box in enumerate(picture.scene.boxes)}
    assert all(place[arrow.source] < place[arrow.target] for arrow in picture.scene.arrows)
    for box in picture.scene.boxes:
        row = next(row for row in picture.scene.rows if row[0].removeprefix("* ") == box.name)
        counts = Counter({arrow.source: arrow.values for arrow in picture.scene.arrows if arrow.target == box.name})
        assert Counter(dict(_sources(row[-1]))) == counts
    assert len(graph.nodes) >= len(picture.scene.boxes)


def _sources(cell: str) -> list[tuple[str, int]]:
    return [(found[1].removeprefix(", "), int(found[2])) for found in re.finditer(r"(.*?) ×(\d+)", cell)]


def test_three_thousand_nodes_without_modules() -> None:
    graph_module = large_graph(3500)
    picture = draw(graph_module)
    assert 20 <= len(picture.scene.boxes) <= MOST_BOXES
    assert counted_nodes(picture) == len(graph_module.graph.nodes)
    assert_arrows_match(picture, graph_module.graph)
    assert picture.svg.startswith("<svg")
    assert "3502 nodes in" in picture.text


@pytest.mark.parametrize(("depth", "least"), [(10, 10), (70, 30), (350, 30)])
def test_modules_become_boxes(depth: int, least: int) -> None:
    program = exported(depth)
    picture = draw(program, collapse="modules")
    parameters = len(program.graph_signature.parameters)
    assert least <= len(picture.scene.boxes) <= MOST_BOXES
    assert counted_nodes(picture) == len(program.graph.nodes) - parameters
    assert_arrows_match(picture, program.graph)
    assert f"{parameters} parameters are not drawn." in picture.text


def test_a_box_is_named_after_its_module_and_lists_its_operations() -> None:
    picture = draw(exported(30), collapse="modules")
    rows = {row[0]: row for row in picture.scene.rows}
    name = "blocks.7 (Block)"
    assert rows[name][1:4] == (
        "11",
        "6",
        "aten.linear.default ×2, aten.mul.Tensor ×2, aten.add.Tensor ×2, …",
    )
    assert rows[name][4] == "blocks.6 (Block) ×1, input mask ×1"
    box = next(box for box in picture.scene.boxes if box.name == name)
    assert box.lines[:2] == (name, "11 nodes, 6 parameters")


def test_a_box_that_stands_for_several_modules_names_the_first_and_the_last() -> None:
    picture = draw(exported(70), collapse="modules")
    names = [box.name for box in picture.scene.boxes]
    assert names[2:4] == ["blocks.0 to blocks.1", "blocks.2 to blocks.3"]


def test_what_almost_every_box_reads_is_named_instead_of_drawn() -> None:
    picture = draw(exported(30), collapse="modules")
    mask = [arrow for arrow in picture.scene.arrows if arrow.source == "input mask"]
    assert len(mask) == 30
    assert [arrow.target for arrow in mask if arrow.drawn] == ["blocks.0 (Block)"]
    labels = {box.name: box.lines for box in picture.scene.boxes}
    assert all(("reads input mask" in labels[arrow.target]) != arrow.drawn for arrow in mask)
    assert picture.dot.count('"input mask" ->') == 1


def test_several_values_between_two_boxes_are_counted() -> None:
    class Pair(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x + 1, x * 2

    class Join(nn.Module):
        def forward(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
            return first @ second + first

    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.pair, self.join = Pair(), Join()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.join(*self.pair(x))

    picture = draw(torch.export.export(Both(), (torch.ones(2, 2),)), collapse="modules")
    assert ("pair (Pair)", "join (Join)", 2) in [
        (arrow.source, arrow.target, arrow.values) for arrow in picture.scene.arrows
    ]
    assert 'label=" 2"' in picture.dot


def test_highlighted_nodes_mark_their_box() -> None:
    program = exported(30)
    node = next(node for node in program.graph.nodes if module_path(node)[0] == ("blocks", "3", "norm"))
    picture = draw(program, highlight=[node])
    marked = [box for box in picture.scene.boxes if box.highlighted]
    assert [box.name.partition(" ")[0] for box in marked] == ["blocks.3"]
    assert marked[0].lines[-1] == "1 highlighted"
    assert "* blocks.3" in picture.text


def test_small_graphs_are_not_collapsed_and_never_means_never() -> None:
    small = large_graph(MOST_BOXES - 2)
    assert len(draw(small).scene.boxes) == MOST_BOXES
    large = large_graph(MOST_BOXES - 1)
    assert len(draw(large).scene.boxes) < MOST_BOXES + 1
    assert draw(large).scene.header[0] == "box"
    assert len(draw(large, collapse="never").scene.boxes) == MOST_BOXES + 1


def test_module_paths_of_each_capture() -> None:
    node = fx.Graph().placeholder("x")
    for written in ("L['self'].layers.0", "layers.0", 'L["model"].layers.0', "L__self__.layers.0"):
        node.meta["nn_module_stack"] = {"key": (written, nn.Linear)}
        assert module_path(node) == (("layers", "0"), {("layers", "0"): "Linear"})
    node.meta["nn_module_stack"] = {"key": ("layers.0", "torch.nn.modules.linear.Linear")}
    assert module_path(node)[1] == {("layers", "0"): "Linear"}
    node.meta.clear()
    assert module_path(node) == ((), {})


def test_many_inputs_share_a_box() -> None:
    graph = fx.Graph()
    inputs = [graph.placeholder(f"x{place}") for place in range(70)]
    graph.output(graph.call_function(torch.cat, (inputs,)))
    picture = draw(fx.GraphModule({}, graph))
    assert [box.name for box in picture.scene.boxes] == ["70 inputs", "cat", "output"]
    assert picture.scene.arrows[0].values == 70
