"""A model in a file: what is read, and what is refused because it could run code."""

import json
import os
import pickle
import zipfile
from pathlib import Path

import pytest
import torch
from torch import nn

from fxopt_workbench import zoo


class Sized(nn.Module):
    """Works for every number of rows; its type can be imported when it is unpickled."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 5)

    def forward(self, x):
        return torch.relu(self.layer(x))


X = torch.arange(6.0).reshape(2, 3)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Sized().eval()


def exported(model, path, **options):
    torch.export.save(torch.export.export(model, (X,), **options), path)
    return path


def changed(source: Path, target: Path, entry: str, content) -> Path:
    """A copy of an archive with one entry changed, by a function of its bytes or to other bytes."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        assert any(name.endswith(entry) for name in old.namelist())
        for name in old.namelist():
            data = old.read(name)
            new.writestr(name, (content(data) if callable(content) else content) if name.endswith(entry) else data)
    return target


class Evil:
    """Unpickling it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_a_program_of_export_comes_with_its_inputs(tmp_path, model):
    chosen = zoo.build(str(exported(model, tmp_path / "m.pt2")), "cpu")
    assert torch.equal(chosen.example_inputs[0], X)
    assert torch.equal(chosen.model(X), model(X))
    assert zoo.build(str(tmp_path / "m.pt2"), "meta").example_inputs[0].device.type == "meta"


def test_sizes_of_ones_own_replace_the_inputs_and_are_checked_against_the_ranges(tmp_path, model):
    rows = torch.export.Dim("rows", min=2, max=9)
    path = exported(model, tmp_path / "m.pt2", dynamic_shapes={"x": {0: rows}})
    chosen = zoo.build(str(path), "cpu", inputs=["7,3"])
    assert torch.equal(chosen.model(*chosen.example_inputs), model(*chosen.example_inputs))
    for inputs, said in (
        (["70,3"], r"--input 70,3 does not fit .*m\.pt2, which was exported for --input s\d+,3, s\d+ from 2 to 9\.$"),
        (["7,4"], "--input 7,4 does not fit"),
        (["7"], "--input 7 does not fit"),
        (["int64:7,3"], "--input int64:7,3 does not fit"),
        (["7,3", "7,3"], r"m\.pt2 was exported for --input s.*; --input was given 2 times\.$"),
    ):
        with pytest.raises(zoo.ModelFileError, match=said):
            zoo.build(str(path), "cpu", inputs=inputs)


def test_a_size_that_follows_from_another_is_checked(tmp_path):
    class Doubled(nn.Module):
        def forward(self, x, y):
            return x.repeat(2, 1) + y

    rows = torch.export.Dim("rows", min=2, max=9)
    example = torch.ones(4, 3), torch.ones(8, 3)
    program = torch.export.export(Doubled(), example, dynamic_shapes={"x": {0: rows}, "y": {0: 2 * rows}})
    torch.export.save(program, tmp_path / "m.pt2")
    chosen = zoo.build(str(tmp_path / "m.pt2"), "cpu", inputs=["5,3", "10,3"])
    assert chosen.model(*chosen.example_inputs).shape == (10, 3)
    with pytest.raises(zoo.ModelFileError, match=r"--input 9,3 does not fit .*--input 2\*s\d+,3, s\d+ from 2 to 9"):
        zoo.build(str(tmp_path / "m.pt2"), "cpu", inputs=["4,3", "9,3"])


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ("99999999,3,9999,9999", r"needs 1\.2e\+08 GB, and this machine has .* GB of memory; expected smaller sizes"),
        ("99999999999999999999,3", "GB of memory; expected smaller sizes"),
        ("int64:99999999999999999999,0", "torch cannot make this tensor"),
        ("bits8:3", "torch cannot make this tensor"),
        ("-1,3", "expected sizes"),
        ("2.5,3", "expected sizes"),
        ("float33:2,3", "expected sizes"),
    ],
)
def test_sizes_that_no_tensor_has_are_refused(tmp_path, model, sizes, said):
    path = str(exported(model, tmp_path / "m.pt2"))
    with pytest.raises(zoo.ModelFileError, match=f"^--input {sizes}: .*{said}"):
        zoo.build(path, "cpu", inputs=[sizes])


@pytest.mark.parametrize("way", ["script", "trace"])
def test_torchscript_becomes_a_program_with_parameters(tmp_path, model, way):
    script = torch.jit.script(model) if way == "script" else torch.jit.trace(model, X)
    torch.jit.save(script, tmp_path / "m.pt")
    chosen = zoo.build(str(tmp_path / "m.pt"), "cpu", inputs=["2,3"])
    assert torch.equal(chosen.model(X), model(X))
    assert sum(parameter.numel() for parameter in chosen.model.parameters()) == 20
    with pytest.raises(zoo.ModelFileError, match="no example inputs"):
        zoo.build(str(tmp_path / "m.pt"), "cpu")
    with pytest.raises(zoo.ModelFileError, match=r"these inputs: .*shapes cannot be multiplied"):
        zoo.build(str(tmp_path / "m.pt"), "cpu", inputs=["2,4"])
    with pytest.raises(zoo.ModelFileError, match=r"m\.pt takes x: Tensor; --input was given 2 times, expected once"):
        zoo.build(str(tmp_path / "m.pt"), "cpu", inputs=["2,3", "2,3"])


def test_loading_torchscript_prints_nothing_of_torch(tmp_path, caplog, recwarn):
    torch.jit.save(torch.jit.trace(nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5)).eval(), X), tmp_path / "m.pt")
    recwarn.clear()
    zoo.build(str(tmp_path / "m.pt"), "cpu", inputs=["1,3"])
    assert [str(one.message) for one in recwarn] == []
    assert [one.message for one in caplog.records] == []


def test_a_pickled_module_keeps_its_mode_where_that_is_asked_for(tmp_path, model):
    torch.save(model.train(), tmp_path / "m.pt")
    switched = zoo.build(str(tmp_path / "m.pt"), "cpu", inputs=["2,3"], trust=True)
    assert not switched.model.training
    assert switched.caveats
    kept = zoo.build(str(tmp_path / "m.pt"), "cpu", inputs=["2,3"], trust=True, keep_mode=True)
    assert kept.model.training
    assert not kept.caveats


def test_an_exported_module_from_a_factory_has_the_mode_of_its_export(tmp_path, monkeypatch):
    (tmp_path / "exports_a_model.py").write_text(
        "import torch\n\ndef build():\n    inputs = (torch.ones(2, 3),)\n"
        "    return torch.export.export(torch.nn.Linear(3, 5), inputs).module(), inputs\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    chosen = zoo.build("exports_a_model:build", "cpu")
    assert not chosen.caveats
    assert chosen.model(*chosen.example_inputs).shape == (2, 5)


def test_a_pickled_module_is_loaded_only_when_it_is_trusted(tmp_path, model):
    torch.save(model, tmp_path / "m.pt")
    torch.save((model, (X,)), tmp_path / "pair.pt")
    for name in ("m.pt", "pair.pt"):
        with pytest.raises(zoo.ModelFileError, match=r"cannot be loaded safely.*--trust"):
            zoo.build(str(tmp_path / name), "cpu", inputs=["2,3"])
    assert torch.equal(zoo.build(str(tmp_path / "m.pt"), "cpu", inputs=["2,3"], trust=True).model(X), model(X))
    assert torch.equal(zoo.build(str(tmp_path / "pair.pt"), "cpu", trust=True).example_inputs[0], X)


def test_nothing_runs_that_a_file_brings(tmp_path, model):
    made, path = tmp_path / "made", exported(model, tmp_path / "m.pt2")
    torch.save(Evil(made), tmp_path / "evil.pt")
    bare = pickle.dumps(Evil(made), protocol=2)
    (tmp_path / "bare.pkl").write_bytes(bare)
    changed(path, tmp_path / "inputs.pt2", "sample_inputs/model.pt", (tmp_path / "evil.pt").read_bytes())

    def pickled_weights(data):
        config = json.loads(data)
        for one in config["config"].values():
            one["use_pickle"] = True
        return json.dumps(config)

    weights = changed(path, tmp_path / "half.pt2", "weights_config.json", pickled_weights)
    changed(weights, tmp_path / "weights.pt2", "weights/weight_0", (tmp_path / "evil.pt").read_bytes())
    for name in ("evil.pt", "bare.pkl", "inputs.pt2", "weights.pt2"):
        with pytest.raises(zoo.ModelFileError, match="--trust"):
            zoo.build(str(tmp_path / name), "cpu", inputs=["2,3"])
        assert not made.exists(), name
    # The attack is real: whoever trusts the file runs it.
    with pytest.raises(zoo.ModelFileError):
        zoo.build(str(tmp_path / "evil.pt"), "cpu", trust=True)
    assert made.exists()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("torch.ops.aten.relu.default", "torch.os.system", "torch.os.system"),
        ("torch.ops.aten.relu.default", "_operator.call", "_operator.call"),
        ("torch.ops.aten.relu.default", "torch.ops.aten.from_file.default", "from_file"),
        ("Symbol('s", "exit() or Symbol('s", "exit"),
    ],
)
def test_a_program_that_does_more_than_compute_is_refused(tmp_path, model, old, new, said):
    dynamic = {"x": {0: torch.export.Dim("rows", min=2, max=9)}}
    path = exported(model, tmp_path / "m.pt2", dynamic_shapes=dynamic)

    def replaced(data):
        assert old.encode() in data
        return data.replace(old.encode(), new.encode())

    changed(path, tmp_path / "evil.pt2", "models/model.json", replaced)
    assert zoo.build(str(path), "cpu")
    with pytest.raises(zoo.ModelFileError, match=f"{said}.*--trust"):
        zoo.build(str(tmp_path / "evil.pt2"), "cpu")


def test_what_is_no_model_is_refused_by_what_it_is(tmp_path, model):
    torch.save(model.state_dict(), tmp_path / "weights.pt")
    (tmp_path / "text.pt").write_text("hello")
    (tmp_path / "empty.pt2").touch()
    for name, message in (
        ("weights.pt", "a dictionary of 2 entries, such as a state_dict, and no model"),
        ("text.pt", "does not hold a model that torch can read"),
        ("empty.pt2", "does not hold a model that torch can read"),
        ("wieghts.pt", r"there is no file .*Did you mean 'weights\.pt'"),
    ):
        with pytest.raises(zoo.ModelFileError, match=message):
            zoo.build(str(tmp_path / name), "cpu")
    with pytest.raises(zoo.ModelFileError, match="expected sizes"):
        zoo.build(str(tmp_path / "text.pt"), "cpu", inputs=["2,x"])
    with pytest.raises(zoo.UnknownModelError, match="is not a file"):
        zoo.build("simple", "cpu", trust=True)
