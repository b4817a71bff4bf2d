"""The table of hardware, this machine measured, and the roofline by hand."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from fxopt_core.benchmark.measuring import Measurement
from fxopt_core.capture import capture
from fxopt_workbench.hardware import hardware, this_machine
from fxopt_workbench.hardware.hardware import TABLE, Hardware, UnknownHardwareError, published
from fxopt_workbench.hardware.roofline import estimate
from fxopt_workbench.hardware.roofline_plot import comparison, plot, save_plot
from fxopt_workbench.hardware.this_machine import NotMeasuredError, find_hardware, measure_this
from fxopt_workbench.hardware.timing import Timing, time_nodes
from fxopt_workbench.structure.groups import Group
from fxopt_workbench.structure.model_costs import analyze

CPU = torch.device("cpu")
TOY = Hardware("toy", "a toy", {"float32": 1000.0, "tf32": 8000.0}, 100.0, 1e6, "made up")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "cache" / "hardware.json"
    monkeypatch.setattr(this_machine, "cache_file", lambda: path)
    return path


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure small matrices and copies: quick, and of no worth."""
    monkeypatch.setitem(this_machine._MATRIX, "cpu", 64)
    monkeypatch.setitem(this_machine._COPIED, "cpu", 2**16)


def test_each_row_has_a_source_and_every_figure() -> None:
    apple = {f"m1-{kind}" for kind in ("pro", "max", "ultra")} | {"m2", "m2-pro", "m2-max", "m2-ultra"}
    assert set(TABLE) == {"h100", "h100-pcie", "h200", "a100", "tpu-v4", "tpu-v5e", "tpu-v5p", *apple}
    for name, row in TABLE.items():
        assert row.name == name
        assert re.search(r"\w+\.(com|dev|io|org)/\w", row.source), name
        assert "memory" in row.source, name
        assert row.rates["float32"] >= 3e12
        assert 5e10 < row.bandwidth < 1e13
        assert 1e10 < row.memory < 2.1e11


def test_memory_is_what_a_program_finds() -> None:
    """What is sold as GB is GiB, a little of which NVIDIA's driver keeps on Hopper."""
    gib = {name: row.memory / 2**30 for name, row in TABLE.items()}
    assert (gib["tpu-v5p"], gib["tpu-v4"], gib["tpu-v5e"], gib["a100"]) == (95, 32, 16, 80)
    assert gib["h100"] == gib["h100-pcie"] == pytest.approx(79.65, abs=0.005)
    assert gib["h200"] == pytest.approx(140.40, abs=0.005)
    for name, row in TABLE.items():
        sold = re.search(r"(\d+) GB$", row.description)
        if sold:
            assert 0.995 * int(sold[1]) <= gib[name] <= int(sold[1])


def test_half_precision_of_tensor_cores_is_dense() -> None:
    """Datasheets print the figures with sparsity, twice as large."""
    assert TABLE["h100"].rate("bfloat16") == TABLE["h200"].rate("float16") == 989.5e12
    assert TABLE["a100"].rate("bfloat16") == 312e12
    assert TABLE["h100"].rate("float32", tf32=True) == 494.5e12
    assert TABLE["tpu-v5e"].rate("float32", tf32=True) == 197e12
    assert (TABLE["h100-pcie"].rate("bfloat16"), TABLE["h100-pcie"].rate("float32")) == (756.5e12, 51e12)


def test_eight_bits() -> None:
    for name, rate in (("h100", 1979e12), ("h200", 1979e12), ("h100-pcie", 1513e12)):
        assert TABLE[name].rate("int8") == TABLE[name].rate("float8_e4m3fn") == TABLE[name].rate("float8_e5m2") == rate
    assert TABLE["a100"].rate("int8") == 624e12
    with pytest.raises(ValueError, match="a100: no rate is known for float8"):
        TABLE["a100"].rate("float8_e4m3fn")
    integers = estimate(analyze(Integers(), (torch.ones(32, 32, dtype=torch.int8),) * 2), TABLE["h100"])
    assert integers.nodes[0].compute_seconds == 2 * 32**3 / 1979e12


class Integers(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch._int_mm(a, b)


def test_rates_of_apple_follow_from_cores_and_clock() -> None:
    """128 multiply-adds a core and cycle; the M1's clock is 1.296 GHz at most, the M2's 1.398."""
    for name, clock in (("m1-pro", 1.296e9), ("m1-max", 1.296e9), ("m1-ultra", 1.296e9), ("m2-ultra", 1.398e9)):
        found = re.search(r"(\d+) cores", TABLE[name].description)
        assert found is not None
        assert TABLE[name].rate("float32") == pytest.approx(int(found[1]) * 128 * 2 * clock, rel=0.03)
        assert TABLE[name].rate("float16") == TABLE[name].rate("float32")


def test_unknown_hardware_names_near_ones() -> None:
    with pytest.raises(UnknownHardwareError, match=r"'tpu-5e'.*Did you mean 'tpu-v5e'"):
        published("tpu-5e")
    with pytest.raises(UnknownHardwareError, match="known are h100, h100-pcie, h200"):
        published("abacus")


def test_a_rate_that_is_not_known_is_not_guessed() -> None:
    with pytest.raises(ValueError, match="m2: no rate is known for bfloat16"):
        TABLE["m2"].rate("bfloat16")


def test_this_is_measured_and_kept(cache: Path, small: None) -> None:
    with pytest.raises(NotMeasuredError, match="fxopt hardware measure --device cpu"):
        find_hardware("this", CPU)
    measured = measure_this(CPU)
    assert find_hardware("this", CPU) == measured
    assert measured.name == hardware.THIS
    assert set(measured.rates) == {"float32", "float64", "bfloat16", "float16"}
    assert all(1e6 < rate < 1e15 for rate in measured.rates.values())
    assert 1e8 < measured.bandwidth < 1e13
    assert re.search(r"measured on \d{4}-\d\d-\d\d with torch ", measured.source)


def test_rates_come_from_times(cache: Path, small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def two_seconds(function: Any, device: torch.device) -> float:
        function()
        return 2.0

    monkeypatch.setattr(this_machine, "_fastest", two_seconds)
    measured = measure_this(CPU)
    assert measured.bandwidth == 2 * 2**16 / 2, "a copy reads and writes"
    assert set(measured.rates.values()) == {2 * 64**3 / 2}


def test_another_number_of_threads_is_another_machine(cache: Path, small: None) -> None:
    measure_this(CPU)
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 1)
    try:
        with pytest.raises(NotMeasuredError, match=f"threads: {threads + 1}"):
            find_hardware("this", CPU)
    finally:
        torch.set_num_threads(threads)
    assert find_hardware("this", CPU)


def test_a_damaged_cache_is_said(cache: Path) -> None:
    cache.parent.mkdir()
    cache.write_text("{")
    with pytest.raises(NotMeasuredError, match="is damaged"):
        find_hardware("this", CPU)


def test_the_cache_follows_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert this_machine.cache_file() == tmp_path / "fxopt" / "hardware.json"


class Two(nn.Module):
    """A product bound by compute, then an addition bound by memory."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a @ b + 1


SIZES = (torch.ones(100, 100), torch.ones(100, 100))


def test_roofline_by_hand() -> None:
    estimated = estimate(analyze(Two(), SIZES), TOY)
    product, addition = estimated.nodes
    assert product.compute_seconds == 2 * 100**3 / 1000
    assert product.memory_seconds == 3 * 40_000 / 100
    assert (product.bound, product.seconds) == ("compute", 2000)
    assert (addition.bound, addition.seconds) == ("memory", 2 * 40_000 / 100)
    assert estimated.seconds == 2000 + 800
    assert estimated.share("compute") == 2000 / 2800
    rounded = estimate(analyze(Two(), SIZES), TOY, tf32=True)
    assert rounded.nodes[0].compute_seconds == 250
    assert rounded.nodes[0].bound == "memory"


def test_what_does_nothing_takes_no_time() -> None:
    class View(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.t()

    (node,) = estimate(analyze(View(), (torch.ones(2, 3),)), TOY).nodes
    assert (node.seconds, node.bound) == (0, "")


def test_an_estimate_needs_a_rate() -> None:
    doubles = tuple(tensor.double() for tensor in SIZES)
    with pytest.raises(ValueError, match="toy: no rate is known for float64"):
        estimate(analyze(Two(), doubles), TOY)


class Unknown(nn.Module):
    """A product, and an operator whose FLOPs nobody knows."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.linalg.inv(a @ b) + 1


def test_there_is_no_time_where_flops_are_not_counted() -> None:
    analysis = analyze(Unknown(), SIZES)
    estimated = estimate(analysis, TOY)
    product, inverse, addition = estimated.nodes
    assert (product.seconds, addition.seconds) == (2000, 800)
    assert math.isnan(inverse.seconds)
    assert math.isnan(estimated.seconds)
    assert math.isnan(estimated.share("compute"))
    assert (inverse.bound, product.bound) == ("", "compute")
    rows = {row[0]: row[-3:] for row in estimated.table().rows}
    assert rows["aten.linalg_inv.default"] == rows["all"] == ("unknown", "", "")
    assert rows["aten.matmul.default"] == ("2000 s", "", "compute")
    assert "a toy: no time, since nobody knows the FLOPs of aten.linalg_inv_ex.default." in str(estimated)
    assert "at least" not in estimated.table().notes[-1]
    table = comparison([estimated, estimate(analysis, TABLE["h100"])])
    assert [row[3:5] for row in table.rows] == [("unknown", "–"), ("unknown", "–")]
    assert any("nobody knows the FLOPs of aten.linalg_inv_ex.default" in note for note in table.notes)
    (axes,) = plot([estimated]).axes
    assert len(axes.collections[0].get_offsets()) == 1


def test_a_model_without_counted_flops_has_no_roofline() -> None:
    class Sum(nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return a + b

    with pytest.raises(ValueError, match="no node has FLOPs that are counted"):
        plot([estimate(analyze(Sum(), SIZES), TOY)])


UNKNOWN_MODEL = """
import torch

class Unknown(torch.nn.Module):
    def forward(self, x):
        return torch.fft.rfft(x @ x).real

def build():
    return Unknown(), (torch.ones(8, 8),)
"""


def test_the_command_prints_no_time_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "unknown_model.py").write_text(UNKNOWN_MODEL)
    monkeypatch.syspath_prepend(tmp_path)
    result = invoke("analyze", "--model", "unknown_model:build", "--hardware", "h100", "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["total"]["uncounted"] == ["aten._fft_r2c.default"]
    (one,) = document["estimates"]
    assert one["seconds"] is None
    assert [node["seconds"] is None for node in one["nodes"].values()].count(True) == 1
    printed = invoke("analyze", "--model", "unknown_model:build", "--compare", "h100,a100").stdout
    assert "unknown" in printed
    assert "nobody knows the FLOPs of aten._fft_r2c.default" in " ".join(printed.split())


def test_the_table_and_its_twins_say_the_same() -> None:
    estimated = estimate(analyze(Two(), SIZES), TOY)
    text, html = str(estimated), estimated._repr_mimebundle_()["text/html"]
    assert "<table>" in html
    for word in ("matmul", "2 M", "117 KiB", "2000 s", "compute", "memory", "Source: made up"):
        assert word in text
        assert word in html


def test_html_of_hostile_names_is_escaped() -> None:
    toy = Hardware("toy", "<script>", TOY.rates, 100.0, 1e6, "[red]made up[/red]")
    estimated = estimate(analyze(Two(), SIZES), toy)
    assert "<script>" not in estimated._repr_mimebundle_()["text/html"]
    assert "[red]made up[/red]" in str(estimated)


def test_comparison_by_hand() -> None:
    slow = Hardware("slow", "half as fast", {"float32": 500.0}, 50.0, 100.0, "made up too")
    analysis = analyze(Two(), SIZES)
    sheet = comparison([estimate(analysis, TOY), estimate(analysis, slow)])
    assert [(row[0], *row[4:]) for row in sheet.rows] == [
        ("toy", "1×", "1", "1 (71%)", "yes"),
        ("slow", "0.5×", "1", "1 (71%)", "no"),
    ]
    assert "slow: made up too." in sheet.notes


def test_the_plot_shows_roofs_and_nodes_under_them(tmp_path: Path) -> None:
    analysis = analyze(Two(), SIZES)
    estimates = [estimate(analysis, TOY), estimate(analysis, TABLE["h100"])]
    (axes,) = plot(estimates).axes
    roof = axes.lines[0].get_xydata()
    assert [tuple(point) for point in roof[1:2]] == [(10.0, 1000.0)], "the ridge: rate over bandwidth"
    assert roof[2][1] == 1000
    ((intensity, rate),) = axes.collections[0].get_offsets().data
    assert (intensity, rate) == (pytest.approx(2e6 / 120_000), pytest.approx(1000))
    assert [text.get_text().split(":")[0] for text in axes.get_legend().get_texts()] == [
        "toy, float32",
        "h100, float32",
    ]
    for name in ("roof.svg", "roof.txt"):
        save_plot(estimates, tmp_path / name)
    assert "<svg" in (tmp_path / "roof.svg").read_text()
    twin = (tmp_path / "roof.txt").read_text()
    assert "float32 1 kFLOP/s from 10 FLOPs/byte" in twin
    assert "100 B/s" in twin


def test_each_node_is_timed() -> None:
    class Slow(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.svdvals(x).sum() + 1

    (partition,) = capture(Slow(), (torch.randn(120, 120),), "export").partitions
    assert partition.example_inputs is not None
    timing = time_nodes(partition.graph_module, partition.example_inputs, CPU, repeats=5)
    assert set(timing.nodes) == {"linalg_svdvals", "sum_1", "add"}
    assert timing.nodes["linalg_svdvals"] > 5 * timing.nodes["add"] > 0
    assert timing.whole.runs == 5
    assert timing.whole.minimum > timing.nodes["linalg_svdvals"] / 3


def test_measured_beside_estimated() -> None:
    estimated = estimate(analyze(Two(), SIZES), TOY)
    names = [node.node.name for node in estimated.nodes]
    timing = Timing(dict(zip(names, (1000.0, 1600.0), strict=True)), Measurement((2800.0,)))
    sheet = timing.table(estimated)
    ratios = {row[0]: row[4] for row in sheet.rows}
    assert ratios == {
        "aten.matmul.default": "0.5×",
        "aten.add.Tensor": "2×",
        "all nodes": "0.929×",
        "whole graph": "1×",
    }
    assert timing.seconds(Group("", estimated.analysis.nodes)) == 2600


def invoke(*arguments: Any) -> Any:
    from typer.testing import CliRunner

    from fxopt_workbench.cli import app

    return CliRunner().invoke(app, [*map(str, arguments)])


def test_analyze_prints_costs_and_time() -> None:
    result = invoke("analyze", "--model", "simple", "--hardware", "h100")
    assert result.exit_code == 0, result.output
    for word in ("aten.conv2d.default", "26 M", "5.51 k parameters (5514)", "NVIDIA H100 SXM", "batch_norm"):
        assert word in result.output
    by_module = invoke("analyze", "--model", "simple", "--by", "module")
    assert "features.3" in by_module.output
    assert "time" not in by_module.output


def test_analyze_in_json() -> None:
    result = invoke("analyze", "--model", "simple", "--compare", "h100, a100", "--tf32", "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["total"]["flops"] == sum(node["cost"]["flops"] for node in document["nodes"]) == 25_953_536
    assert [one["hardware"]["name"] for one in document["estimates"]] == ["h100", "a100"]
    assert document["measured"] is None
    (convolution,) = [node for node in document["nodes"] if node["name"] == "conv2d"]
    seconds = document["estimates"][1]["nodes"]["conv2d"]["seconds"]
    cost = convolution["cost"]
    assert seconds == max(cost["flops"] / 156e12, (cost["bytes_read"] + cost["bytes_written"]) / 2.039e12)


def test_analyze_compares_and_draws(tmp_path: Path, cache: Path, small: None) -> None:
    assert invoke("hardware", "measure", "--device", "cpu").exit_code == 0
    arguments = ("--compare", "h100,tpu-v5e,this", "--device", "cpu", "--draw", tmp_path / "roof.svg")
    result = invoke("analyze", "--model", "simple", *arguments)
    assert result.exit_code == 0, result.output
    assert "h100 = 1" in result.output
    assert "Written:" in result.output
    assert "<svg" in (tmp_path / "roof.svg").read_text()


def test_analyze_measures(cache: Path, small: None) -> None:
    measure_this(CPU)
    result = invoke("analyze", "--model", "simple", "--measure", "--device", "cpu", "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert set(document["measured"]["nodes"]) == {node["name"] for node in document["nodes"]}
    assert min(document["measured"]["seconds"]) > 0
    table = invoke("analyze", "--model", "simple", "--measure", "--device", "cpu")
    assert "Estimated and measured" in table.output
    assert "whole graph" in table.output


def test_a_dtype_is_that_of_the_model() -> None:
    full, half = (
        json.loads(invoke("analyze", "--model", "simple", "--dtype", dtype, "--json").stdout)
        for dtype in ("float32", "bfloat16")
    )
    assert half["total"]["flops"] == full["total"]["flops"]
    assert half["total"]["bytes_written"] < 0.6 * full["total"]["bytes_written"]
    assert torch.get_default_dtype() == torch.float32


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "smple"], "Did you mean 'simple'?"),
        (["--model", "simple", "--hardware", "h10"], "Did you mean 'h100'?"),
        (["--model", "simple", "--compare", "h100,this"], "fxopt hardware measure --device cpu"),
        (["--model", "simple", "--measure"], "fxopt hardware measure --device cpu"),
        (["--model", "simple", "--by", "layer"], "--by is 'layer'; expected node, module, operation, stage."),
        (["--model", "simple", "--dtype", "int8"], "--dtype is 'int8'"),
        (["--model", "simple", "--draw", "roof.png"], "ends in .svg or .txt"),
        (["--model", "simple", "--hardware", "m2", "--dtype", "bfloat16"], "m2: no rate is known for bfloat16"),
        (["--model", "simple", "--device", "cuda:99"], "'cuda:99'"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments: list[str], message: str, cache: Path) -> None:
    device = [] if "--device" in arguments else ["--device", "cpu"]
    result = invoke("analyze", *arguments, *device)
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


def test_a_model_that_cannot_be_captured_exits_with_1() -> None:
    result = invoke("analyze", "--model", "control")
    assert result.exit_code == 1
    assert "GuardOnDataDependentSymNode" in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_model_too_large_is_analysed_but_not_run(cache: Path, small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    measure_this(CPU)
    monkeypatch.setattr(this_machine, "memory_bytes", lambda device: 2**20)
    result = invoke("analyze", "--model", "simple", "--measure", "--device", "cpu")
    assert result.exit_code == 2
    assert re.search(r"takes about 1\.\d+ MiB .*cpu has 1 MiB", result.stderr)
    assert invoke("analyze", "--model", "simple").exit_code == 0


def test_hardware_list_shows_sources_and_what_is_missing(cache: Path, small: None) -> None:
    result = invoke("hardware", "list", "--device", "cpu")
    assert result.exit_code == 0, result.output
    assert "has not been measured" in result.output
    for row in TABLE.values():
        assert row.description in result.output
    assert invoke("hardware", "measure", "--device", "cpu", "--json").exit_code == 0
    rows = json.loads(invoke("hardware", "list", "--device", "cpu", "--json").stdout)
    assert [row["name"] for row in rows] == [*TABLE, "this"]
    assert all(row["source"] for row in rows)


def test_hardware_of_an_absent_device_exits_with_2(cache: Path) -> None:
    for command in ("list", "measure"):
        result = invoke("hardware", command, "--device", "cuda:99")
        assert result.exit_code == 2
        assert "'cuda:99'" in result.stderr


NOTHING_TO_DO = """
import torch

class Identity(torch.nn.Module):
    def forward(self, x):
        return x

def build():
    return Identity(), (torch.ones(3),)
"""


def test_a_model_without_operations_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "identity_model.py").write_text(NOTHING_TO_DO)
    monkeypatch.syspath_prepend(tmp_path)
    asked = ("analyze", "--model", "identity_model:build")
    for more in ((), ("--by", "stage"), ("--hardware", "h100"), ("--compare", "h100,a100")):
        printed = invoke(*asked, *more)
        assert printed.exit_code == 0, printed.output
        assert "12 B held (parameters, buffers, inputs); at most 0 B of values at once." in " ".join(
            printed.stdout.split()
        )
    document = json.loads(invoke(*asked, "--hardware", "h100", "--json").stdout)
    assert document["peak"] == {"node": None, "bytes": 0}
    assert document["nodes"] == []
    assert [one["seconds"] for one in document["estimates"]] == [0]
