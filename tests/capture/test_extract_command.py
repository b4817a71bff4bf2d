import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from fxopt_workbench.cli import app


def extract(*arguments):
    return CliRunner().invoke(app, ["extract", *map(str, arguments), "--device", "cpu"])


def test_control_shows_graphs_shapes_counts_and_the_break():
    result = extract("--model", "control")
    assert result.exit_code == 0, result.output
    assert "2 graphs, 6 operations, 1 graph break" in result.output
    assert "[16, 16]" in result.output
    assert "float32" in result.output
    assert "control.py:" in result.output
    assert "if hidden.mean() > 0:" in result.output
    assert "Python code between them" in result.output


def test_json_is_one_object_with_everything():
    result = extract("--model", "loops", "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert len(document["graphs"]) == 2
    # Five steps of three operations and five selections, the start; then three refinements of three.
    assert document["graphs"][1]["operation_counts"] == {"linear": 3, "mul": 3, "add": 3}
    (graph_break,) = document["graph_breaks"]
    assert graph_break["source"].startswith("for _ in range(int(refinements.item()))")
    shapes = [node["shape"] for node in document["graphs"][1]["nodes"] if node["operation"] == "linear"]
    assert shapes == ["[2, 8]"] * 3
    assert document["guards"]


def test_long_graphs_are_summed_up_until_all_is_asked_for():
    pytest.importorskip("transformers")
    short = extract("--model", "bert")
    assert short.exit_code == 0, short.output
    assert "--all prints every node" in short.output
    assert "scaled_dot_product_attention" in short.output
    full = extract("--model", "bert", "--all")
    assert "--all prints every node" not in full.output
    assert len(full.output.splitlines()) > len(short.output.splitlines()) + 80


def test_compare_shows_who_captures_what_and_why_not():
    result = extract("--model", "compare", "--json")
    assert result.exit_code == 0, result.output
    outcomes = {(one["model"], one["method"]): one for one in json.loads(result.stdout)["outcomes"]}
    always = ("aot", "jit.trace", "jit.script", "auto")
    captured = {pair for pair, one in outcomes.items() if one["captured"]}
    assert captured == {
        ("simple", "symbolic_trace"),
        ("simple", "dynamo"),
        ("simple", "export"),
        ("control", "dynamo"),
        ("loops", "dynamo"),
        *((model, method) for model in ("simple", "control", "loops") for method in always),
    }
    assert "if hidden.mean() > 0:" in outcomes["control", "symbolic_trace"]["failure"]
    table = extract("--model", "compare")
    assert table.exit_code == 0
    assert table.output.count("not captured") == 4
    assert "WRONG" in table.output


def test_a_page_to_walk_through_is_written(tmp_path):
    result = extract("--model", "control", "--draw", tmp_path / "out.html")
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out-1.html", "out-2.html"]
    assert "graph 2 of 2" in (tmp_path / "out-2.html").read_text()


def test_files_are_written_one_picture_a_graph(tmp_path):
    result = extract("--model", "control", "--save-graph", tmp_path / "out.py", "--draw", tmp_path / "out.svg")
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out-1.svg", "out-2.svg", "out.py", "out.safetensors"]
    assert "<svg" in (tmp_path / "out-1.svg").read_text()
    assert "out.py" in result.output
    finished = subprocess.run([sys.executable, tmp_path / "out.py"], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    assert "2 of 2 graphs agree" in finished.stdout


def test_other_methods_can_be_chosen():
    result = extract("--model", "simple", "--method", "symbolic_trace")
    assert result.exit_code == 0, result.output
    assert "Conv2d" in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "smple"], "Did you mean 'simple'?"),
        (["--model", "compre"], "Did you mean 'compare'?"),
        (["--model", "no_such_module:build"], "there is no module 'no_such_module'"),
        (["--model", "simple", "--method", "dynmo"], "there is no method 'dynmo'"),
        (["--model", "simple", "--save-graph", "missing_folder/out.py"], "does not exist"),
        (["--model", "simple", "--save-graph", "out.txt"], "ends in .py"),
        (["--model", "simple", "--draw", "out.png"], ".svg or .html or .dot or .txt"),
        (["--model", "compare", "--draw", "out.svg"], "--model compare"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments, message):
    result = extract(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


def test_a_model_of_ones_own_is_captured(tmp_path, monkeypatch):
    (tmp_path / "my_model_of_extract.py").write_text(
        "import torch\n\ndef build():\n    'My two layers.'\n"
        "    return torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.ReLU()), (torch.randn(2, 3),)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    result = extract("--model", "my_model_of_extract:build", "--json")
    assert result.exit_code == 0, result.output
    (graph,) = json.loads(result.stdout)["graphs"]
    assert graph["operation_counts"] == {"linear": 1, "relu": 1}
    assert "My two layers." in extract("--model", "my_model_of_extract:build").output


def test_an_absent_device_is_named():
    result = CliRunner().invoke(app, ["extract", "--model", "simple", "--device", "cuda:99"])
    assert result.exit_code == 2
    assert "'cuda:99'" in result.stderr
    assert "cpu" in result.stderr


def test_a_folder_is_no_file(tmp_path):
    folder = tmp_path / "taken.py"
    folder.mkdir()
    result = extract("--model", "simple", "--save-graph", folder)
    assert result.exit_code == 2
    assert "is a folder" in result.stderr


def test_a_method_that_cannot_capture_the_model_exits_with_1():
    result = extract("--model", "control", "--method", "export")
    assert result.exit_code == 1
    assert "control.py:" in result.stderr
    assert result.stderr.count("\n") == 1


def test_the_command_list_does_not_import_torch():
    program = "import sys, fxopt_workbench.cli; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_auto_tells_what_was_tried_and_compared():
    result = extract("--model", "control", "--method", "auto")
    assert result.exit_code == 0, result.output
    assert "dynamo, fullgraph: Unsupported: Data-dependent branching." in result.output
    assert "dynamo, partitions: specialised: it refuses mirrored values." in result.output
    assert "the example: agrees, largest difference 0" in result.output
    assert "mirrored values: refused" in result.output


def test_auto_as_json_has_no_infinity():
    def refuse(name):
        raise AssertionError(name)

    result = extract("--model", "control", "--method", "auto", "--json")
    document = json.loads(result.stdout, parse_constant=refuse)
    assert [one["on"] for one in document["agreements"]] == ["the example", "new values", "mirrored values"]
    assert document["agreements"][2]["difference"] is None
    assert document["attempts"][-1]["strategy"] == "dynamo, partitions"


def test_a_torchscript_graph_is_printed_and_not_drawn(tmp_path):
    result = extract("--model", "control", "--method", "jit.trace")
    assert result.exit_code == 0, result.output
    assert "aten::linear" in result.output
    assert "On mirrored values the graph is wrong" in result.output
    drawn = extract("--model", "control", "--method", "jit.trace", "--draw", tmp_path / "out.svg")
    assert drawn.exit_code == 1
    assert "not an FX graph" in drawn.stderr
    assert (
        json.loads(extract("--model", "control", "--method", "jit.trace", "--json").stdout)["graphs"][0]["nodes"] == []
    )
