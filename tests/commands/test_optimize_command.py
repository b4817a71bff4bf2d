"""`fxopt optimize`: what it shows, what it writes, and how it ends."""

import json
import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from fxopt_workbench.cli import app

MINE = """
import torch
from torch import nn

from fxopt_core.passes import Analysis, Opportunity, OptimizationPass, register_pass


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        x.sin()
        return torch.relu(self.layer(x)) + torch.relu(x).transpose(0, 1).transpose(0, 1)


def build():
    "Two activations."
    return Twice().eval().requires_grad_(False), (torch.randn(3, 4),)


class _OfOneOperator(OptimizationPass):
    def analyze(self, editor):
        relu = torch.ops.aten.relu.default
        return Analysis([Opportunity(node) for node in editor.graph.nodes if node.target == relu])


@register_pass("forgets_relu")
class ForgetsRelu(_OfOneOperator):
    "relu(x) becomes x, which is wrong."

    def transform(self, editor, opportunity):
        editor.replace(opportunity.node, opportunity.node.args[0])


@register_pass("breaks_down")
class BreaksDown(_OfOneOperator):
    "It raises."

    def transform(self, editor, opportunity):
        raise KeyError("a table is empty")
"""


@pytest.fixture
def mine(tmp_path, monkeypatch):
    (tmp_path / "my_model_of_optimize.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    import my_model_of_optimize  # registers the passes

    yield "my_model_of_optimize:build"
    from fxopt_core.passes import registry

    for name in ("forgets_relu", "breaks_down"):
        registry._PASSES.pop(name)
    del sys.modules[my_model_of_optimize.__name__]


def optimize(*arguments):
    return CliRunner().invoke(app, ["optimize", *map(str, arguments), "--device", "cpu"])


def test_rewrites_costs_and_verdict_are_shown(mine):
    result = optimize("--model", mine, "--preset", "exact")
    assert result.exit_code == 0, result.output
    assert "Two activations." in result.output
    assert re.search(r"nodes\W+7\W+4\W+-3", result.output)
    assert re.search(r"bytes\W+\d+\W+\d+\W+-\d+", result.output)
    assert "dead_code" in result.output
    assert re.search(r"comparison with the model: the same\s+on \d+ sets of inputs; largest error 0", result.output)


UNCOUNTED = """
import torch


class Waves(torch.nn.Module):
    def forward(self, x):
        x = torch.relu(torch.relu(x @ x))
        return torch.fft.rfft(x).abs() - torch.fft.rfft(x).abs()


def build():
    return Waves(), (torch.ones(4, 4),)


def one_operation():
    return torch.nn.Dropout().eval(), (torch.ones(4, 4),)


def folded():
    layers = torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.ReLU()
    return torch.nn.Sequential(*layers).eval().requires_grad_(False), (torch.ones(1, 3, 8, 8),)
"""


@pytest.fixture
def uncounted(tmp_path, monkeypatch):
    (tmp_path / "uncounted_of_optimize.py").write_text(UNCOUNTED)
    monkeypatch.syspath_prepend(tmp_path)
    yield "uncounted_of_optimize"
    sys.modules.pop("uncounted_of_optimize", None)


def test_flops_that_nobody_knows_are_marked(uncounted):
    transform = "aten._fft_r2c.default"
    whole = optimize("--model", f"{uncounted}:build", "--passes", "common_subexpressions").output
    # One product of 4 × 4 × 4; what a Fourier transform costs, nobody knows, and one of two goes.
    assert re.search(r"flops\W+128\+\?\W+128\+\?\W+\+0\+\?", whole)
    assert re.search(r"common_subexpressions\W+2\W+-2\W+\+0\+\?", whole)
    assert f"No formula, so FLOPs not counted: {transform}." in " ".join(whole.split())
    document = json.loads(
        optimize("--model", f"{uncounted}:build", "--passes", "common_subexpressions", "--json").stdout
    )
    assert document["uncounted"] == {"before": [transform], "after": [transform]}
    assert [one["uncounted"] for one in document["rewrites"]].count([transform]) == 1
    # Where no such operator comes or goes, the change is known.
    whole = optimize("--model", f"{uncounted}:build", "--passes", "algebraic_simplification").output
    assert re.search(r"flops\W+128\+\?\W+128\+\?\W+\+0\s", whole)
    assert re.search(r"algebraic_simplification\S*.*\W1\W+-1\W+\+0 ", whole)
    known = optimize("--model", f"{uncounted}:folded", "--passes", "dead_code")
    assert "+?" not in known.output
    assert "No formula" not in known.output


def test_nodes_are_operations_in_all_tables(uncounted):
    document = json.loads(optimize("--model", f"{uncounted}:folded", "--json").stdout)
    by_rule = {one["rule"].partition("/")[0]: one["nodes"] for one in document["rewrites"]}
    # Parameters of the batch normalisation go, a new weight and bias come: no operations.
    assert by_rule["conv_batchnorm_folding"] == -1
    change = document["nodes"]["after"] - document["nodes"]["before"]
    assert sum(one["nodes"] for one in document["rewrites"]) == change
    printed = optimize("--model", f"{uncounted}:folded").output
    assert re.search(rf"nodes\W+\d+\W+\d+\W+{change}\s", printed)
    assert re.search(r"conv_batchnorm_folding\W+1\W+-1\s", printed)


def test_one_operation_is_one(uncounted):
    printed = optimize("--model", f"{uncounted}:one_operation").output
    assert re.search(r"; 1 operation became \d\.", printed), printed


def test_json_is_one_object_with_everything(mine):
    result = optimize("--model", mine, "--passes", "dead_code, redundant_layout", "--benchmark", "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["passes"] == ["dead_code", "redundant_layout"]
    assert document["nodes"] == {"before": 7, "after": 4}
    assert document["flops"]["before"] == document["flops"]["after"] == 2 * 3 * 4 * 4
    assert document["bytes"]["before"] - document["bytes"]["after"] == sum(
        -one["bytes"] for one in document["rewrites"]
    )
    assert document["equivalence"]["equal"]
    assert [one["name"] for one in document["benchmark"]["candidates"]] == ["model", "optimized"]
    assert all(one["median_seconds"] > 0 for one in document["benchmark"]["candidates"])


def test_work_that_is_done_twice_is_done_once_and_nothing_is_taken_back():
    result = optimize("--model", "redundant", "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["denied"] == []
    assert [one["rule"] for one in document["rewrites"]].count("common_subexpressions") == 2
    assert document["equivalence"]["equal"]


def test_a_rewrite_that_is_wrong_is_taken_back_and_ends_with_1(mine):
    result = optimize("--model", mine, "--passes", "forgets_relu,dead_code", "--json")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert len(document["denied"]) == 2
    assert document["equivalence"]["equal"]
    assert {one["rule"] for one in document["rewrites"]} == {"dead_code"}
    assert "forgets_relu@relu" in optimize("--model", mine, "--passes", "forgets_relu").output


def test_a_pass_that_fails_is_taken_out_and_ends_with_1(mine):
    result = optimize("--model", mine, "--passes", "breaks_down,dead_code")
    assert result.exit_code == 1
    assert "KeyError: 'a table is empty'" in result.output
    assert re.search(r"nodes\W+7\W+6\W+-1", result.output)


def test_files_are_written_whole_and_the_saved_graph_runs_by_itself(mine, tmp_path):
    result = optimize("--model", mine, "--draw", "out.svg", "--save-graph", "out.py")
    assert result.exit_code == 0, result.output
    page = optimize("--model", mine, "--draw", "out.html")
    assert page.exit_code == 0, page.output
    names = {path.name for path in tmp_path.iterdir() if path.name.startswith((".", "out"))}
    assert names == {"out-before.svg", "out-after.svg", "out.py", "out.safetensors", "out.html"}
    assert "sin" in (tmp_path / "out-before.svg").read_text()
    assert "sin" not in (tmp_path / "out-after.svg").read_text()
    html = (tmp_path / "out.html").read_text()
    assert html.count("<svg") == html.count("The same as text") == 2
    assert "dead_code" in html
    done = subprocess.run([sys.executable, "out.py"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "1 of 1 graphs agree" in done.stdout
    assert "fxopt_core" not in re.findall(r"^(?:import|from) (\w+)", (tmp_path / "out.py").read_text(), re.MULTILINE)


def test_a_model_of_several_graphs_is_optimised_and_drawn_but_not_saved(tmp_path):
    drawn = optimize("--model", "control", "--draw", tmp_path / "out.svg")
    assert drawn.exit_code == 0, drawn.output
    assert (tmp_path / "out-2-after.svg").exists()
    before = set(tmp_path.iterdir())
    result = optimize("--model", "control", "--draw", tmp_path / "other.svg", "--save-graph", tmp_path / "other.py")
    assert result.exit_code == 1
    assert "and --save-graph writes one" in result.stderr
    assert set(tmp_path.iterdir()) == before


def test_a_memory_budget_is_for_recomputation(mine):
    answer = optimize("--model", mine, "--passes", "dead_code", "--memory-budget", 0.5)
    assert answer.exit_code == 2
    assert "--memory-budget 0.5 is for recomputation only" in answer.stderr
    assert "--passes recomputation" in answer.stderr
    assert "is for recomputation only" in optimize("--model", mine, "--memory-budget", 0.5).stderr
    answer = optimize("--model", mine, "--passes", "recomputation", "--memory-budget", 2)
    assert answer.exit_code == 2
    assert "above 0 and at most 1" in answer.stderr
    answer = optimize("--model", mine, "--passes", "recomputation", "--memory-budget", 1)
    assert answer.exit_code == 0, answer.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "smple"], "Did you mean 'simple'?"),
        (["--model", "simple", "--preset", "inferense"], "Did you mean 'inference'?"),
        (["--model", "simple", "--passes", "dead_cod"], "Did you mean 'dead_code'?"),
        (["--model", "simple", "--passes", " , "], "does not name any pass"),
        (["--model", "simple", "--preset", "exact", "--passes", "dead_code"], "leave one of them out"),
        (["--model", "simple", "--draw", "out.png"], ".svg or .html"),
        (["--model", "simple", "--save-graph", "missing_folder/out.py"], "does not exist"),
        (
            ["--model", "mlp", "--engine", "eager", "--save-engine", "missing_folder/engine"],
            "missing_folder/engine: the folder missing_folder does not exist; create it first.",
        ),
        (["--model", "no_such_module:build"], "there is no module 'no_such_module'"),
        (["--model", "missing.pt2"], "there is no file missing.pt2"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments, message):
    result = optimize(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


@pytest.mark.parametrize("options", [[], ["--dynamic"]])
def test_sizes_vary_with_dynamic_only(mine, tmp_path, options):
    saved = tmp_path / "graph.py"
    result = optimize("--model", mine, "--save-graph", saved, *options)
    assert result.exit_code == 0, result.output
    fixed = "Every size is fixed to that of the example" in re.sub(r"\s+", " ", result.output)
    assert fixed is not bool(options)
    code = f"import torch, runpy; m = runpy.run_path({str(saved)!r}); print(list(m))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
