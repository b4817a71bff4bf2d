"""No table of a command is wider than the console, and no figure is cut to make it fit."""

from __future__ import annotations

import re

import pytest
from rich.console import Console
from typer.testing import CliRunner

from fxopt_core.benchmark.measuring import Measurement
from fxopt_workbench.bench.bench_capture import Cost, _cost_table
from fxopt_workbench.bench.bench_models import ModelRow
from fxopt_workbench.bench.bench_models import _table as model_table
from fxopt_workbench.bench.bench_recompute import RecomputationRow
from fxopt_workbench.bench.bench_recompute import tables as recompute_tables
from fxopt_workbench.bench.passes.comparing import Row
from fxopt_workbench.bench.passes.report import Growth, comparison_table, growth_table
from fxopt_workbench.cli import app
from fxopt_workbench.commands.coverage import summary
from fxopt_workbench.commands.doctor import show
from fxopt_workbench.doctor import CheckResult, all_checks
from fxopt_workbench.huggingface.coverage.rows import Row as CoverageRow
from fxopt_workbench.tables import Table

WIDTHS = (80, 100)

COMMANDS = (
    ("analyze", "--model", "simple", "--compare", "h100,tpu-v5p,m2", "--by", "module"),
    ("analyze", "--model", "yolov8n", "--by", "stage", "--hardware", "a100"),
    ("analyze", "--model", "simple", "--by", "module"),
    ("extract", "--model", "simple", "--all", "--device", "cpu", "--analyze"),
    ("extract", "--model", "control", "--device", "cpu"),
    ("extract", "--compare", "yolov8n,resnet"),
    ("hardware", "list", "--device", "cpu"),
    ("optimize", "--model", "redundant", "--device", "cpu"),
)


def table_lines(text: str) -> list[str]:
    """The lines of tables: from the heading above a rule to the blank line below."""
    lines, found = text.splitlines(), []
    for place, line in enumerate(lines):
        if re.fullmatch(r"\s*─+\s*", line):
            start = place - next(back for back in range(1, place + 1) if not lines[place - back].strip())
            end = next((after for after in range(place, len(lines)) if not lines[after].strip()), len(lines))
            found += lines[start:end]
    return found


def run(width: int, *arguments: str) -> str:
    result = CliRunner().invoke(app, [*arguments], env={"COLUMNS": str(width)})
    assert result.exit_code == 0, result.output
    return result.stdout


def figures(text: str) -> list[str]:
    """Numbers with their units, in no order; what a table shows twice counts once."""
    return sorted(set(re.findall(r"\d[\d.]* (?:[kMGTP]i?)?(?:B/s|B|FLOP/s)\b", text)))


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_every_table_fits_the_console(arguments: tuple[str, ...]) -> None:
    wide = run(400, *arguments)
    for width in WIDTHS:
        text = run(width, *arguments)
        lines = table_lines(text)
        assert lines
        assert max((len(line.rstrip()) for line in lines), default=0) <= width
        assert "…" not in "".join(lines).replace(" …", ""), "nothing is cut"
        assert figures("\n".join(lines)) == figures("\n".join(table_lines(wide)))


def test_a_pipe_without_a_width_gets_a_hundred_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    result = CliRunner().invoke(app, ["analyze", "--model", "simple", "--hardware", "h100"])
    assert 80 < max(len(line.rstrip()) for line in table_lines(result.stdout)) <= 100


def timed(seconds: float) -> Measurement:
    return Measurement((seconds, 1.1 * seconds, 1.2 * seconds))


def bench_tables() -> list[Table]:
    """The tables of commands that take minutes, with rows as wide as theirs get."""
    passes = [
        Row("common_subexpressions", 50_000, collector, timed(0.17), 12_500, "torch's fx_graph_cse", timed(1.2), 12_500)
        for collector in ("running", "paused")
    ]
    alone = Row("one_pattern_rewrite", 50_000, "running", timed(0.06), 500)
    models = [
        ModelRow("gpt2", "inductor, freezing, max-autotune", 0.01234, 0.0005, 1.25, 1e-7),
        ModelRow("gpt2", "torch.compile, aot_eager", None, None, None, None, "BackendCompilerFailed: " + "word " * 30),
    ]
    recomputed = [
        RecomputationRow("eager", 0.5, None, 3 * 2**30, 1.0, 0.5, 1.234, True),
        RecomputationRow("torch", 0.5, None, 3 * 2**29, 0.499, 12.5, 1.234, False),
        RecomputationRow("fxopt, torch.compile", 0.5, 0.499, 3 * 2**29, 0.498, 22.5, 1.834, True),
        RecomputationRow("fxopt", 0.1, 0.1, refusal="no such step"),
    ]
    cost = Cost("whisper", "export, real values", 123.45, 55.55, 2.22, 67.89, 2.3, "torch.export", 44.44)
    covered = [CoverageRow("bert", method, "captured", verdict="general", seconds=1.5) for method in ("eager", "auto")]
    return [
        comparison_table([*passes, alone]),
        growth_table([Growth("constant_folding", "running", (10_000, 50_000), 5.7)]),
        model_table("gpt2", models),
        *recompute_tables(recomputed),
        _cost_table([cost]),
        summary(covered),
    ]


@pytest.mark.parametrize("width", WIDTHS)
def test_tables_of_benchmarks_fit_too(width: int) -> None:
    for table in bench_tables():
        lines = table_lines(table.text(width))
        assert lines
        assert max(map(len, lines)) <= width
        together = re.sub(r"\s+", "", table.text(width))
        for row in table.rows:
            for heading, cell in zip(table.headings, row, strict=True):
                if table._holds_figures(heading):
                    assert cell.replace(" ", "") in together


def test_what_the_doctor_found_fits(capsys: pytest.CaptureFixture[str]) -> None:
    found = [CheckResult(check.name, "warning", "word " * 40, ("day 1",), "do this", 12.3) for check in all_checks()]
    for width in WIDTHS:
        show(found, Console(width=width))
        lines = capsys.readouterr().out.splitlines()
        assert max(map(len, lines)) <= width
        for check in all_checks():
            assert any(check.name in line for line in lines), "names are whole"
