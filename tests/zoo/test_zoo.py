import sys

import pytest
import torch
from torch.utils._pytree import tree_leaves

from fxopt_core.devices import DeviceUnavailableError
from fxopt_workbench import zoo
from fxopt_workbench.zoo import registry

FROM_HUGGINGFACE = (
    "bert",
    "gpt2",
    "vit",
    "resnet",
    "detr",
    "t5",
    "rt-detr",
    "yolos",
    "whisper",
    "clip",
    "llama",
    "mixtral",
    "mamba",
)
SHAPES = {
    "simple": (2, 10),
    "control": (4, 4),
    "loops": (2, 8),
    "mlp": (4, 10),
    "cnn": (2, 10),
    "deep-cnn": (2, 10),
    "redundant": (4, 16),
    "bert": (2, 16, 64),
    "gpt2": (2, 16, 64),
    # One token of the class beside 8 × 8 patches.
    "vit": (2, 65, 64),
    # Stem and pooling divide the edge by four, the second stage by two.
    "resnet": (2, 128, 4, 4),
    # Ten queries.
    "detr": (2, 10, 64),
    "t5": (2, 16, 64),
    "rt-detr": (2, 10, 2),
    "yolos": (2, 10, 3),
    "whisper": (2, 16, 64),
    "clip": (2, 2),
    "llama": (2, 16, 1000),
    "mixtral": (2, 16, 1000),
    "mamba": (2, 16, 1000),
}
"""Of the first output."""


def call(chosen):
    with torch.no_grad():
        if isinstance(chosen.example_inputs, dict):
            return chosen.model(**chosen.example_inputs)
        return chosen.model(*chosen.example_inputs)


def first_output(chosen):
    output = call(chosen)
    return output if isinstance(output, torch.Tensor) else output[0]


@pytest.fixture(params=zoo.names("tiny"))
def name(request):
    if request.param in FROM_HUGGINGFACE:
        pytest.importorskip("transformers")
    return request.param


def test_names_are_told_apart_by_size():
    assert zoo.names("tiny") == tuple(SHAPES)
    assert "bert-moderate" in zoo.names("moderate")
    assert {"yolov8n", "gpt2-xl", "resnet50"} < set(zoo.names("published"))
    assert zoo.names() == zoo.names("tiny") + zoo.names("moderate") + zoo.names("published")
    assert len(set(zoo.names())) == len(zoo.names())


def test_models_run_on_their_example_inputs(name):
    chosen = zoo.build(name, "cpu")
    output = first_output(chosen)
    assert tuple(output.shape) == SHAPES[name]
    assert output.isfinite().all()
    assert not chosen.model.training
    assert chosen.description.endswith(".")


@pytest.mark.parametrize("size", ["moderate", "published"])
def test_models_of_other_sizes_can_be_built_without_weights(size):
    pytest.importorskip("transformers")
    for name in zoo.names(size):
        chosen = zoo.build(name, "meta")
        tensors = [*chosen.model.parameters(), *chosen.model.buffers(), *tree_leaves(chosen.example_inputs)]
        assert {tensor.device.type for tensor in tensors} == {"meta"}, name


def test_a_moderate_model_is_larger_and_runs():
    pytest.importorskip("transformers")
    chosen = zoo.build("vit-moderate", "cpu")
    assert first_output(chosen).shape == (1, 65, 384)


def test_the_seed_decides_weights_and_inputs_and_the_callers_random_state_stays(name):
    torch.manual_seed(3)
    before = torch.get_rng_state()
    first, again, other = zoo.build(name, "cpu"), zoo.build(name, "cpu"), zoo.build(name, "cpu", seed=1)
    assert torch.equal(torch.get_rng_state(), before)
    assert all(map(torch.equal, first.model.parameters(), again.model.parameters()))
    assert not all(map(torch.equal, first.model.parameters(), other.model.parameters()))
    assert all(map(torch.equal, tree_leaves(first.example_inputs), tree_leaves(again.example_inputs)))


def test_the_dtype_is_that_of_weights_and_inputs_and_the_model_runs_in_it(name):
    chosen = zoo.build(name, "cpu", torch.bfloat16)
    assert {parameter.dtype for parameter in chosen.model.parameters()} == {torch.bfloat16}
    assert {tensor.dtype for tensor in tree_leaves(chosen.example_inputs)} <= {torch.bfloat16, torch.int64}
    assert first_output(chosen).shape == SHAPES[name]


def test_the_branch_of_control_depends_on_the_data():
    chosen = zoo.build("control", "cpu")
    weights = {"positive": 0, "otherwise": 0}
    chosen.model.when_positive.register_forward_hook(lambda *_: weights.update(positive=weights["positive"] + 1))
    chosen.model.otherwise.register_forward_hook(lambda *_: weights.update(otherwise=weights["otherwise"] + 1))
    chosen.model(torch.full((4, 16), 5.0))
    chosen.model(torch.full((4, 16), -5.0))
    assert weights == {"positive": 1, "otherwise": 1}


def test_the_loops_are_as_long_as_shape_and_data_say():
    chosen = zoo.build("loops", "cpu")
    calls = {"step": 0, "refine": 0}
    chosen.model.step.register_forward_hook(lambda *_: calls.update(step=calls["step"] + 1))
    chosen.model.refine.register_forward_hook(lambda *_: calls.update(refine=calls["refine"] + 1))
    chosen.model(torch.zeros(2, 7, 8), torch.tensor(4))
    assert calls == {"step": 7, "refine": 4}


def test_the_redundant_model_gives_what_two_layers_give():
    chosen = zoo.build("redundant", "cpu")
    layer, out = chosen.model.layer, chosen.model.out
    calls = []
    layer.register_forward_hook(lambda *_: calls.append("layer"))
    (x,) = chosen.example_inputs
    result = chosen.model(x)
    assert calls == ["layer", "layer"]
    torch.testing.assert_close(result, out(2 * torch.relu(layer(x))))


@pytest.mark.parametrize("name", ["bert", "llama", "mixtral"])
def test_padding_is_not_attended_to(name):
    pytest.importorskip("transformers")
    chosen = zoo.build(name, "cpu")
    padded = chosen.example_inputs["attention_mask"][1] == 0
    assert 0 < padded.sum() < 8
    hidden = first_output(chosen)
    chosen.example_inputs["input_ids"][1, padded] = 7
    changed = first_output(chosen)
    assert torch.allclose(hidden[1, ~padded], changed[1, ~padded], atol=1e-6)
    assert not torch.equal(hidden[1, padded], changed[1, padded])


def test_an_unknown_name_offers_near_ones():
    with pytest.raises(zoo.UnknownModelError, match="Did you mean 'control'"):
        zoo.build("controll")
    with pytest.raises(
        ValueError,
        match=r"The models are simple, control, loops, .*; name your own as module:factory, or as a file",
    ):
        zoo.build("alexnet")


def test_an_absent_device_is_refused():
    with pytest.raises(DeviceUnavailableError, match="cuda:99"):
        zoo.build("simple", "cuda:99")


def test_a_dtype_that_the_device_does_not_have_is_refused():
    with pytest.raises(ValueError, match="the device mps has no float64; choose float32"):
        zoo.build("simple", torch.device("mps"), torch.float64)


def test_a_model_that_does_not_fit_into_memory_is_refused_with_its_size(monkeypatch):
    monkeypatch.setattr("fxopt_workbench.zoo.registry._memory", lambda: 12_000_000)
    with pytest.raises(
        zoo.ModelTooLargeError, match=r"the weights of yolov8n need 0\.0126 GB, more than the 0\.012 GB"
    ):
        zoo.build("yolov8n", "cpu")
    assert zoo.build("yolov8n", "meta")
    monkeypatch.setattr("fxopt_workbench.zoo.registry._memory", lambda: 14_000_000)
    assert zoo.build("yolov8n", "cpu")


def test_the_memory_of_this_machine_is_plausible():
    assert 1e9 < registry._memory() < 1e14


def test_without_transformers_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ModuleNotFoundError, match=r'DetrModel needs transformers .*pip install "fxopt\[hf\]"'):
        zoo.build("detr", "cpu")
    assert zoo.build("yolov8n", "meta")
