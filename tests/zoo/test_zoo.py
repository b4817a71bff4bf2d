import sys

import pytest
import torch
from torch.utils._pytree import tree_leaves

from fxopt_core import zoo
from fxopt_core.devices import DeviceUnavailableError


def call(chosen):
    with torch.no_grad():
        if isinstance(chosen.example_inputs, dict):
            return chosen.model(**chosen.example_inputs)
        return chosen.model(*chosen.example_inputs)


SHAPES = {"simple": [(2, 10)], "control": [(4, 4)], "loops": [(2, 8)], "bert": [(2, 16, 64), (2, 64)]}


@pytest.fixture(params=zoo.names())
def name(request):
    if request.param == "bert":
        pytest.importorskip("transformers")
    return request.param


def test_the_names_are_those_of_the_quick_start():
    assert zoo.names() == ("simple", "control", "loops", "bert")


def test_models_run_on_their_example_inputs(name):
    chosen = zoo.build(name, "cpu")
    assert [tuple(output.shape) for output in tree_leaves(call(chosen))] == SHAPES[name]
    assert not chosen.model.training
    assert chosen.description.endswith(".")


def test_the_seed_decides_weights_and_inputs_and_the_callers_random_state_stays(name):
    torch.manual_seed(3)
    before = torch.get_rng_state()
    first, again, other = zoo.build(name, "cpu"), zoo.build(name, "cpu"), zoo.build(name, "cpu", seed=1)
    assert torch.equal(torch.get_rng_state(), before)
    assert all(map(torch.equal, first.model.parameters(), again.model.parameters()))
    assert not all(map(torch.equal, first.model.parameters(), other.model.parameters()))
    assert all(map(torch.equal, tree_leaves(first.example_inputs), tree_leaves(again.example_inputs)))


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


def test_padding_of_bert_is_not_attended_to():
    pytest.importorskip("transformers")
    chosen = zoo.build("bert", "cpu")
    hidden, _ = call(chosen)
    chosen.example_inputs["input_ids"][1, 11:] = 7
    changed, _ = call(chosen)
    assert torch.allclose(hidden[1, :11], changed[1, :11], atol=1e-6)


def test_an_unknown_name_offers_near_ones():
    with pytest.raises(zoo.UnknownModelError, match="Did you mean 'control'"):
        zoo.build("controll")
    with pytest.raises(ValueError, match="the models are simple, control, loops, bert"):
        zoo.build("resnet-152")


def test_an_absent_device_is_refused():
    with pytest.raises(DeviceUnavailableError, match="cuda:99"):
        zoo.build("simple", "cuda:99")


def test_without_transformers_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ModuleNotFoundError, match=r'pip install "fxopt\[hf\]"'):
        zoo.build("bert", "cpu")
