import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from capture_models import Conditional, PrintsInALoop, ThreeBreaks
from safetensors.torch import load_file, save_file
from torch import fx, nn

from fxopt_core.capture import Captured, CapturedGraph, CaptureError, capture
from fxopt_workbench import zoo
from fxopt_workbench.standalone import save_standalone


def run(path: Path) -> subprocess.CompletedProcess[str]:
    """Run the file where neither fxopt nor this folder can be imported."""
    environment = {**os.environ, "PYTHONPATH": "", "PYTHONSAFEPATH": "1"}
    return subprocess.run([sys.executable, path], capture_output=True, text=True, cwd="/", env=environment, check=False)


def test_bert_runs_in_a_fresh_process(tmp_path):
    pytest.importorskip("transformers")
    chosen = zoo.build("bert", "cpu")
    files = save_standalone(capture(chosen.model, chosen.example_inputs), tmp_path / "bert.py")
    assert [path.name for path in files] == ["bert.py", "bert.safetensors"]
    finished = run(files[0])
    assert finished.returncode == 0, finished.stderr
    assert "-> float32[2, 16, 64], largest difference" in finished.stdout
    assert "1 of 1 graphs agree" in finished.stdout
    assert "fxopt_core" not in [line.split()[1] for line in files[0].read_text().splitlines() if "import " in line]


def test_graphs_of_a_broken_model_run_one_by_one_and_a_changed_weight_is_noticed(tmp_path):
    path, tensors = save_standalone(capture(ThreeBreaks(), (torch.ones(2, 4),)), tmp_path / "graph.py")
    finished = run(path)
    assert finished.returncode == 0, finished.stderr
    assert "4 of 4 graphs agree" in finished.stdout
    source = path.read_text()
    assert "layer_weight,  # parameter self.layer.weight: float32 [4, 4]" in source
    assert "x = self.layer(x) + 1" in source

    changed = load_file(tensors)
    changed["Graph1.inputs.layer.weight"] += 0.1
    save_file(changed, tensors)
    finished = run(path)
    assert finished.returncode == 1
    assert "DIFFERENT" in finished.stdout
    assert "3 of 4 graphs agree" in finished.stdout


def test_nested_graphs_constants_random_draws_and_strides_survive(tmp_path):
    captured = capture(Conditional(), (torch.ones(2, 3).t(),))
    path, tensors = save_standalone(captured, tmp_path / "conditional.py")
    assert "Graph1.random.cpu" in load_file(tensors)
    source = path.read_text()
    assert "stride=(1, 3)" in source
    assert "from math import inf" in source
    assert "class Graph1_cond_true_0" in source
    finished = run(path)
    assert finished.returncode == 0, finished.stderr + finished.stdout
    assert "float32[3, 2], largest difference 0" in finished.stdout


@pytest.mark.parametrize("training", [False, True])
def test_module_calls_are_written_as_functions(tmp_path, training):
    chosen = zoo.build("simple", "cpu")
    captured = capture(chosen.model.train(training), chosen.example_inputs, "symbolic_trace")
    path, _ = save_standalone(captured, tmp_path / "simple.py")
    assert "torch.conv2d(" in path.read_text()
    finished = run(path)
    assert finished.returncode == 0, finished.stderr + finished.stdout
    assert "1 of 1 graphs agree" in finished.stdout


@pytest.mark.parametrize("method", ["export", "aot"])
def test_aten_graphs_run_too(tmp_path, method):
    chosen = zoo.build("simple", "cpu")
    captured = capture(chosen.model, chosen.example_inputs, method)
    path, _ = save_standalone(captured, tmp_path / "simple.py")
    finished = run(path)
    assert finished.returncode == 0, finished.stderr + finished.stdout
    assert f"{len(captured.graphs)} of {len(captured.graphs)} graphs agree" in finished.stdout


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("loops", "auto"),
        ("cnn", "symbolic_trace"),
        ("gpt2", "export"),
        ("t5", "dynamo"),
        ("rt-detr", "export"),
        ("mixtral", "export"),
        ("mamba", "auto"),
    ],
)
def test_models_of_the_zoo_run_in_a_fresh_process(tmp_path, name, method):
    """One of each kind; every model with every method takes minutes, and was tried by hand."""
    pytest.importorskip("transformers")
    chosen = zoo.build(name, "cpu")
    captured = capture(chosen.model, chosen.example_inputs, method)
    path, _ = save_standalone(captured, tmp_path / "model.py")
    finished = run(path)
    assert finished.returncode == 0, finished.stderr + finished.stdout
    assert "1 of 1 graphs agree" in finished.stdout


def test_an_operator_of_ones_own_is_imported_from_its_module(tmp_path, monkeypatch):
    (tmp_path / "my_operators.py").write_text(
        "import torch\n\n@torch.library.custom_op('mine::twice', mutates_args=())\n"
        "def twice(x: torch.Tensor) -> torch.Tensor:\n    return x * 2\n\n"
        "@twice.register_fake\ndef _(x):\n    return torch.empty_like(x)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import my_operators

    captured = capture(lambda x: torch.ops.mine.twice(x) + 1, (torch.ones(3),), "export")
    path, _ = save_standalone(captured, tmp_path / "graph.py")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    my_operators.twice._init_fn.__module__ = "__main__"
    with pytest.raises(CaptureError, match=r"operator mine\.twice"):
        save_standalone(captured, tmp_path / "other.py")
    assert not (tmp_path / "other.py").exists()


def test_nothing_is_left_where_one_of_both_files_cannot_be_written(tmp_path):
    (tmp_path / "graph.safetensors").mkdir()
    with pytest.raises(OSError, match=r"graph\.safetensors"):
        save_standalone(capture(nn.ReLU(), (torch.ones(2),)), tmp_path / "graph.py")
    assert [path.name for path in tmp_path.iterdir()] == ["graph.safetensors"]


def test_saving_changes_no_graph(tmp_path):
    captured = capture(ThreeBreaks(), (torch.ones(2, 4),))
    before = [graph.code for graph in captured.graphs]
    save_standalone(captured, tmp_path / "graph.py")
    assert [graph.code for graph in captured.graphs] == before


def test_equal_tensors_are_stored_once(tmp_path):
    class Doubled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Parameter(torch.ones(8)), nn.Parameter(torch.ones(8))

        def forward(self, x):
            return x * self.first + self.second

    path, tensors = save_standalone(capture(Doubled(), (torch.zeros(8),)), tmp_path / "doubled.py")
    # The parameters and the result are all ones.
    assert len(load_file(tensors)) == 2
    assert run(path).returncode == 0


class Doubling(nn.Module):
    def forward(self, x):
        return x * 2


def test_what_cannot_be_saved_is_refused_by_name(tmp_path):
    with pytest.raises(CaptureError, match="no graph to save"):
        save_standalone(capture(PrintsInALoop(), (torch.ones(2),)), tmp_path / "none.py")
    with pytest.raises(ValueError, match=r"such as graph\.py"):
        save_standalone(capture(nn.ReLU(), (torch.ones(2),)), tmp_path / "graph.safetensors")
    never_run = Captured((CapturedGraph(fx.symbolic_trace(nn.ReLU()), ()),), "dynamo", "torch")
    with pytest.raises(CaptureError, match="never run"):
        save_standalone(never_run, tmp_path / "never.py")
    with pytest.raises(CaptureError, match="complex64"):
        save_standalone(capture(Doubling(), (torch.ones(2, dtype=torch.complex64),)), tmp_path / "complex.py")
    assert list(tmp_path.iterdir()) == []


def test_a_function_without_a_module_is_refused(tmp_path):
    graph = fx.Graph()
    local = lambda value: value + 1  # noqa: E731
    graph.output(graph.call_function(local, (graph.placeholder("x"),)))
    partition = CapturedGraph(
        fx.GraphModule({}, graph), (), example_inputs=(torch.ones(2),), example_outputs=torch.ones(2)
    )
    with pytest.raises(CaptureError, match="cannot import"):
        save_standalone(Captured((partition,), "symbolic_trace", "torch"), tmp_path / "local.py")
