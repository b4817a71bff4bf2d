"""A drawing says what the graph is: kinds, shapes, arrows; in the picture and in the text alike."""

from __future__ import annotations

import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
import torch
from torch import fx, nn

from fxopt_workbench.pictures import draw
from fxopt_workbench.pictures.nodes import readable_parameter_name, shape_and_dtype
from fxopt_workbench.pictures.style import STYLES, TEXT_COLOUR

SVG = "{http://www.w3.org/2000/svg}"


class EveryKind(nn.Module):
    """Traces to a graph with every kind of node."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.linear(x) * self.scale).view(-1)


def dynamo_graph(model: nn.Module, *inputs: torch.Tensor) -> fx.GraphModule:
    graphs = []

    def backend(graph_module: fx.GraphModule, _: list[torch.Tensor]) -> fx.GraphModule:
        graphs.append(graph_module)
        return graph_module

    torch._dynamo.reset()
    torch.compile(model, backend=backend, fullgraph=True)(*inputs)
    return graphs[0]


def drawn_boxes(svg: str) -> dict[str, list[str]]:
    """Name of each drawn box to its lines of text, without the legend."""
    boxes = {}
    for group in ElementTree.fromstring(svg).iter(f"{SVG}g"):
        if group.get("class") == "node":
            name = group.findtext(f"{SVG}title") or ""
            if not name.startswith("legend "):
                boxes[name] = [text.text or "" for text in group.iter(f"{SVG}text")]
    return boxes


def drawn_arrows(svg: str) -> list[str]:
    return [
        group.findtext(f"{SVG}title") or ""
        for group in ElementTree.fromstring(svg).iter(f"{SVG}g")
        if group.get("class") == "edge" and "legend" not in (group.findtext(f"{SVG}title") or "")
    ]


def test_every_node_and_edge_of_the_graph_is_in_picture_and_table() -> None:
    graph_module = fx.symbolic_trace(EveryKind())
    picture = draw(graph_module)
    names = [node.name for node in graph_module.graph.nodes]
    assert sorted(drawn_boxes(picture.svg)) == sorted(names)
    edges = {f"{source.name}->{node.name}" for node in graph_module.graph.nodes for source in node.all_input_nodes}
    assert sorted(drawn_arrows(picture.svg)) == sorted(edges)
    rows = [line.split()[0] for line in picture.text.splitlines() if line and line.split()[0] in names]
    assert rows == names


def test_kinds_differ_in_shape_and_in_label() -> None:
    looks = [(style.shape, style.border) for style in STYLES.values()]
    assert len(set(looks)) == len(STYLES)
    graph_module = fx.symbolic_trace(EveryKind())
    boxes = drawn_boxes(draw(graph_module).svg)
    first_lines = {node.op: boxes[node.name][0] for node in graph_module.graph.nodes}
    assert first_lines["placeholder"] == "input"
    assert first_lines["get_attr"] == "parameter"
    assert first_lines["call_module"] == "module Linear"
    assert first_lines["call_method"] == "method:view"
    assert first_lines["output"] == "output"
    shapes = {node.op: _attribute(draw(graph_module).dot, node.name, "shape") for node in graph_module.graph.nodes}
    assert len(set(shapes.values())) == 6


def _attribute(dot: str, name: str, attribute: str) -> str:
    line = next(line for line in dot.splitlines() if line.strip().startswith((f"{name} [", f'"{name}" [')))
    found = re.search(rf'\b{attribute}="?([^"\s\]]+)', line)
    assert found is not None, line
    return found[1]


def _contrast(first: str, second: str) -> float:
    """Contrast ratio by WCAG 2.2, https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio."""

    def luminance(colour: str) -> float:
        channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted((luminance(first), luminance(second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("kind", STYLES)
def test_text_stands_out_from_every_fill(kind: str) -> None:
    assert _contrast(STYLES[kind].fill, TEXT_COLOUR) > 10


def test_shapes_and_dtypes_of_a_dynamo_graph() -> None:
    graph_module = dynamo_graph(nn.Linear(4, 3), torch.ones(2, 4))
    picture = draw(graph_module)
    boxes = drawn_boxes(picture.svg)
    call = next(node for node in graph_module.graph.nodes if node.op == "call_function")
    assert "float32[2, 3]" in boxes[call.name]
    row = next(line for line in picture.text.splitlines() if line.startswith(call.name))
    assert "[2, 3]" in row
    assert "float32" in row


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("val", torch.empty(2, 5, dtype=torch.int64)),
        ("example_value", torch.empty(2, 5, dtype=torch.int64)),
        ("encoded_value", {"shape": [2, 5], "dtype": "int64"}),
        ("encoded_value", {"shape": [2, 5], "dtype": "torch.int64"}),
    ],
)
def test_shape_is_read_from_each_source_of_metadata(key: str, value: object) -> None:
    graph_module = fx.symbolic_trace(EveryKind())
    relu = next(node for node in graph_module.graph.nodes if node.op == "call_function" and "relu" in node.name)
    relu.meta[key] = value
    assert "int64[2, 5]" in drawn_boxes(draw(graph_module).svg)[relu.name]


def test_a_graph_without_metadata_says_that_it_has_none() -> None:
    text = draw(fx.symbolic_trace(EveryKind())).text
    row = next(line for line in text.splitlines() if line.startswith("relu"))
    assert row.split()[-2:] == ["?", "?"]
    assert "? the graph does not carry this shape or dtype." in text


def test_values_that_are_no_tensors() -> None:
    assert shape_and_dtype(None) == ("?", "?")
    assert shape_and_dtype((None, torch.ones(2), None)) == ("(none, [2], none)", "float32")
    assert shape_and_dtype(3) == ("", "int")
    assert shape_and_dtype((torch.ones(2), torch.ones(3))) == ("([2], [3])", "float32")
    assert shape_and_dtype({"type": "SymInt", "expression": "s0"}) == ("", "SymInt")
    assert shape_and_dtype([{"shape": [2, "s0"], "dtype": "bool"}]) == ("([2, s0])", "bool")
    assert shape_and_dtype([torch.ones(1)] * 9) == ("([1], [1], [1], … 9 in all)", "float32")


def test_dynamos_parameter_names_are_read_as_paths() -> None:
    name = "l_self_modules_layers_modules_0_parameters_weight_"
    assert readable_parameter_name(name) == "layers.0.weight"
    assert readable_parameter_name("L_self_buffers_running_mean_") == "running_mean"
    assert readable_parameter_name("G_model_modules_norm_buffers_running_var_") == "norm.running_var"
    assert readable_parameter_name("x_1") == "x_1"
    assert readable_parameter_name("my_buffers_dict") == "my_buffers_dict"


def test_highlight_is_double_bordered_bold_and_marked_in_the_text() -> None:
    graph_module = fx.symbolic_trace(EveryKind())
    relu = next(node for node in graph_module.graph.nodes if node.name == "relu")
    picture = draw(graph_module, highlight=[relu])
    assert _attribute(picture.dot, "relu", "peripheries") == "2"
    assert _attribute(picture.dot, "relu", "fontname") == "Helvetica-Bold"
    assert picture.text.count("* relu") == 1
    assert "highlighted: relu" in picture.alt_text()
    assert picture.dot.count("peripheries=2") == 2  # the node and its sample in the legend
    assert draw(graph_module, highlight=["relu"]).dot == picture.dot
    assert "peripheries" not in draw(graph_module).dot


def test_direction() -> None:
    graph_module = fx.symbolic_trace(EveryKind())
    sizes = {}
    for direction in ("TB", "LR"):
        root = ElementTree.fromstring(draw(graph_module, direction=direction).svg)
        sizes[direction] = float(root.get("width", "").removesuffix("pt"))
    assert sizes["LR"] > sizes["TB"]


def test_legend_names_only_the_kinds_that_are_drawn() -> None:
    picture = draw(fx.symbolic_trace(lambda x: torch.relu(x)))
    assert "legend function" in picture.dot
    assert "legend module" not in picture.dot


def test_labels_survive_characters_that_dot_gives_a_meaning() -> None:
    title = 'a "quoted" \\N <b> & title'
    picture = draw(fx.symbolic_trace(lambda x: torch.relu(x)), title=title)
    texts = [text.text for text in ElementTree.fromstring(picture.svg).iter(f"{SVG}text")]
    assert title in texts


def test_two_processes_draw_the_same(tmp_path: Path) -> None:
    script = tmp_path / "draw_once.py"
    script.write_text(
        "import torch\n"
        "from torch import fx\n"
        "from fxopt_workbench.pictures import draw\n"
        "graph = fx.Graph()\n"
        "x = graph.placeholder('x')\n"
        "y = graph.call_function(torch.relu, (x,), {'hook': object()})\n"
        "graph.output((y, {'b': x, 'a': y}))\n"
        "picture = draw(graph, highlight=['x', 'relu'])\n"
        "print(picture.text, picture.dot, picture.svg, picture._repr_mimebundle_())\n"
    )
    runs = [
        subprocess.run(
            [sys.executable, script], capture_output=True, text=True, check=True, env=_environment(seed)
        ).stdout
        for seed in ("1", "2")
    ]
    assert runs[0] == runs[1]
    assert "relu" in runs[0]
    assert "0x" not in runs[0].split("<svg")[0]


def _environment(hash_seed: str) -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONHASHSEED": hash_seed}


def test_the_graph_is_not_changed() -> None:
    graph_module = fx.symbolic_trace(EveryKind())
    before = (graph_module.code, [dict(node.meta) for node in graph_module.graph.nodes])
    draw(graph_module, highlight=["relu"])
    draw(graph_module, collapse="modules")
    assert (graph_module.code, [dict(node.meta) for node in graph_module.graph.nodes]) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"collapse": "sometimes"}, "collapse='sometimes'.*'auto', 'never', 'modules'"),
        ({"direction": "up"}, "direction='up'.*'TB'"),
        ({"parameters": "some"}, "parameters='some'.*'show', 'hide'"),
        ({"highlight": ["rellu"]}, "rellu.*does not have.*relu"),
    ],
)
def test_bad_options_are_named(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        draw(fx.symbolic_trace(EveryKind()), **arguments)  # type: ignore[arg-type]


def test_a_model_is_no_graph() -> None:
    with pytest.raises(TypeError, match=r"not Linear; capture a model first"):
        draw(nn.Linear(2, 2))  # type: ignore[arg-type]
