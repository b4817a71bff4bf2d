"""What a notebook gets of tables and results: HTML that needs no style and no script, and a text that says the same."""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser

import pytest
import rich.console
import torch
from torch import nn

from fxopt_core import display
from fxopt_core.benchmark import benchmark
from fxopt_core.capture import capture
from fxopt_core.costs import record_allocations
from fxopt_core.display import Displayable
from fxopt_core.optimizer import GraphOptimizer
from fxopt_core.passes import GraphEditor, PassResult, make_pass
from fxopt_core.verification import check_equivalence
from fxopt_workbench.hardware.hardware import hardware_table, published
from fxopt_workbench.hardware.roofline import estimate
from fxopt_workbench.hardware.roofline_plot import comparison
from fxopt_workbench.structure.diff import diff_graphs
from fxopt_workbench.structure.model_costs import analyze
from fxopt_workbench.tables import Table, print_tables

X = torch.randn(2, 5)


class Net(nn.Module):
    """Computes relu twice."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x) + torch.relu(x) @ torch.ones(5, 5)


class Breaks(nn.Module):
    """Has a graph break."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.sin()
        print("", end="")
        return x.cos()


def graph_diff() -> Displayable:
    report = GraphOptimizer(Net(), (X,)).optimize("exact").report
    return diff_graphs(report.graphs[0].before, report.graphs[0].result.graph_module)


RESULTS: dict[str, tuple[Callable[[], Displayable], tuple[str, ...]]] = {
    "captured": (
        lambda: capture(Net(), (X,), "export"),
        ("Captured with export", "aten.relu.default ×2", "mirrored values", "agrees", "x.size() == [2, 5]"),
    ),
    "captured in parts": (
        lambda: capture(Breaks(), (X,), "dynamo"),
        ("Graph breaks", "test_tables.py", 'print("", end="")', "sin ×1", "cos ×1"),
    ),
    "captured with a size": (
        lambda: capture(Net(), (X,), "export", dynamic={"x": {0: ("batch", 2, 64)}}),
        ("Sizes that may vary", "batch", "64", "dimension 0 of x"),
    ),
    "captured by auto": (lambda: capture(Net(), (X,), "auto"), ("Tried", "export")),
    "costs": (lambda: analyze(Net(), (X,)), ("aten.matmul.default", "Memory:", "at most")),
    "estimate": (lambda: estimate(analyze(Net(), (X,)), published("h100")), ("memory", "H100", "bound")),
    "comparison": (
        lambda: comparison([estimate(analyze(Net(), (X,)), published(name)) for name in ("h100", "tpu-v5e")]),
        ("tpu-v5e", "3.35 TB/s"),
    ),
    "hardware": (hardware_table, ("a100", "Apple M2", "2.04 TB/s")),
    "allocations": (lambda: record_allocations(lambda: X @ X.T)[1], ("peak", "16 B", "blocks")),
    "optimised": (
        lambda: GraphOptimizer(Net(), (X,)).optimize("exact"),
        ("common_subexpressions", "bitwise", "Refusals", "Verified", "became", "torch.relu(x) + torch.relu(x)"),
    ),
    "pass": (
        lambda: make_pass("common_subexpressions").run(GraphEditor(capture(Net(), (X,), "export").graphs[0])),
        ("common_subexpressions, rewrites: 1", "relu_1 = relu.default(x)", "bitwise", "Refusals: 0"),
    ),
    "equivalent": (lambda: check_equivalence(torch.relu, torch.relu, (X,)), ("the same on",)),
    "different": (
        lambda: check_equivalence(torch.relu, torch.sigmoid, (X,)),
        ("value", "output", "10 of 10 values differ", "as given"),
    ),
    "diff": (graph_diff, ("2 removed", "relu_1 = relu.default(x)", "_folded_ones")),
    "benchmark": (
        lambda: benchmark({"one": lambda: X + 1, "two": lambda: 1 + X}, device="cpu", warmup=1, repeats=3),
        ("two", "baseline", "warm-up", "0 (0)"),
    ),
}


class Reading(HTMLParser):
    """The words of a piece of HTML, what it is built of, and whether that is closed again."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("br", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data.split()


@pytest.mark.parametrize("name", RESULTS)
def test_every_result_has_a_table_and_a_text_twin(name: str) -> None:
    make, told = RESULTS[name]
    result = make()
    bundle = result._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html"}
    assert bundle["text/plain"] == str(result)
    read = Reading(bundle["text/html"])
    assert read.open == []
    # Lines are broken in different places.
    text, html = re.sub(r"\s+", "", bundle["text/plain"]), "".join(read.words)
    for words in told:
        assert words.replace(" ", "") in html
        assert words.replace(" ", "") in text
    assert {"script", "style", "svg", "font"} & {tag for tag, _ in read.tags} == set()
    headers = [attributes.get("scope") for tag, attributes in read.tags if tag == "th"]
    assert set(headers) <= {"col", "row"}
    tables = sum(tag == "table" for tag, _ in read.tags)
    assert tables == sum(tag == "thead" for tag, _ in read.tags)
    assert tables > 0 or name == "equivalent"
    # Nothing is said by colour, and none is set: the front end's theme does.
    assert "color" not in bundle["text/html"]
    assert "background" not in bundle["text/html"]


def test_a_table_names_its_rows_and_columns() -> None:
    sheet = Table("A <title>", ("name", "figure", "word"), [("one", "1 <b>", "uno & due")], ("A note.",), ("word",))
    html = sheet.html()
    assert re.search(r"<caption[^>]*><strong>A &lt;title&gt;</strong></caption>", html)
    assert re.findall(r'<th scope="(\w+)"[^>]*>([^<]*)</th>', html) == [
        ("col", "name"),
        ("col", "figure"),
        ("col", "word"),
        ("row", "one"),
    ]
    assert re.findall(r'<td style="text-align: (\w+)[^>]*>([^<]*)</td>', html) == [
        ("right", "1 &lt;b&gt;"),
        ("left", "uno &amp; due"),
    ]
    assert html.endswith("<p>A note.</p>")


def test_a_front_end_gets_what_it_asks_for() -> None:
    sheet = Table("title", notes=("note",))
    assert sheet._repr_mimebundle_(include={"text/plain"}) == {"text/plain": "title\nnote"}
    assert set(sheet._repr_mimebundle_(exclude={"text/plain"})) == {"text/html"}


def test_a_result_is_written_as_json_or_says_why_not(monkeypatch: pytest.MonkeyPatch) -> None:
    result = PassResult("nothing", [], [])
    with pytest.raises(TypeError, match="PassResult has no JSON form; print it"):
        result.as_json()
    monkeypatch.setattr(display, "_presenter", lambda: None)
    with pytest.raises(TypeError, match="nothing installed writes PassResult as JSON; fxopt_workbench does"):
        result.as_json()


def test_figures_are_never_broken_and_headings_only_between_words() -> None:
    headings = ("name", *(f"heading number {number}" for number in range(9)))
    text = Table("", headings, [("x" * 60, *(["123.45 MiB"] * 9))]).text()
    assert text.count("123.45 MiB") == 9
    assert text.count("heading") == 9


@pytest.mark.parametrize("width", [30, 60, 80, 100, 200])
def test_a_table_goes_on_below_where_it_is_too_wide(width: int) -> None:
    headings = ("name of the row", *(f"heading number {number}" for number in range(9)), "in words", "and more")
    figures = [[f"{number}{row}.45 MiB" for number in range(9)] for row in range(3)]
    rows = [(f"{row}" * 60, *cells, "words " * 20, "x" * 50) for row, cells in enumerate(figures)]
    text = Table("", headings, rows, words=("in words", "and more")).text(width)
    assert max(map(len, text.splitlines())) <= width
    for cells in figures:
        for cell in cells:
            assert text.count(cell) == 1
    bands = sum(set(line.strip()) == {"─"} for line in text.splitlines())
    assert (bands == 1) == (width == 200)
    assert text.count("words") == 3 * 20 + 1
    assert "".join(re.findall("0+", text)).count("0" * 60) == bands, "each row is named again"


def test_text_inside_a_notebook_is_not_shown_besides(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(rich.console, "_is_jupyter", lambda: True)
    shown: list[object] = []
    monkeypatch.setattr("IPython.display.display", shown.append)
    assert "cell" in Table("title", ("name",), [("cell",)]).text()
    assert shown == []
    assert capsys.readouterr().out == ""


def test_a_terminal_gets_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    sheets = [Table("[red]one", ("name", "figure"), [("a", "1")], ("note",)), Table("two")]
    print_tables(sheets)
    printed = capsys.readouterr().out
    assert [line.rstrip() for line in printed.splitlines()] == [
        line for sheet in sheets for line in sheet.text().splitlines()
    ]
    assert "[red]one" in printed
