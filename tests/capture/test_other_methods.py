import copy
from collections import OrderedDict

import pytest
import torch
from capture_models import Counting, Nested, ThreeBreaks, line_of
from torch import nn
from transformers.modeling_outputs import BaseModelOutput

from fxopt_core.capture import CaptureError, capture, capture_methods


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 5), nn.Linear(5, 2)

    def forward(self, x):
        return torch.softmax(self.second(torch.relu(self.first(x))), dim=-1)


EXAMPLE = (torch.ones(3, 4),)


def test_symbolic_trace_calls_modules_and_knows_shapes():
    captured = capture(Small(), EXAMPLE, "symbolic_trace")
    assert captured.operation_counts() == {"Linear": 2, "relu": 1, "softmax": 1}
    assert (captured.level, captured.graph_breaks, captured.guards) == ("torch", (), ())
    shapes = [tuple(node.meta["tensor_meta"].shape) for node in captured.graphs[0].graph.nodes if node.op != "output"]
    assert shapes == [(3, 4), (3, 5), (3, 5), (3, 2), (3, 2)]
    assert captured.partitions[0].inputs[0].source == "x"


def test_finding_shapes_leaves_the_traced_buffers_as_they_were():
    captured = capture(nn.Sequential(nn.BatchNorm1d(4)).train(), (torch.randn(3, 4),), "symbolic_trace")
    state = captured.graphs[0].state_dict()
    assert state["0.num_batches_tracked"].item() == 0
    assert torch.equal(state["0.running_mean"], torch.zeros(4))


def test_export_gives_one_aten_graph_whose_inputs_are_weights_and_arguments():
    captured = capture(Small(), EXAMPLE, "export")
    assert captured.operation_counts() == {
        "aten.linear.default": 2,
        "aten.relu.default": 1,
        "aten.softmax.int": 1,
    }
    assert captured.level == "aten"
    kinds = [(one.source, one.kind) for one in captured.partitions[0].inputs]
    assert kinds == [
        ("first.weight", "parameter"),
        ("first.bias", "parameter"),
        ("second.weight", "parameter"),
        ("second.bias", "parameter"),
        ("x", "input"),
    ]
    assert any("Every size is fixed" in caveat for caveat in captured.caveats)


def test_export_with_symbols_for_sizes():
    captured = capture(Small(), EXAMPLE, "export", dynamic=True)
    (node,) = [node for node in captured.graphs[0].graph.nodes if node.name == "x"]
    assert isinstance(node.meta["val"].shape[0], torch.SymInt)
    assert not any("Every size is fixed" in caveat for caveat in captured.caveats)


def test_export_of_a_function_with_keyword_inputs():
    captured = capture(lambda x, scale: torch.relu(x) * scale, {"x": torch.ones(2), "scale": 3}, "export")
    assert captured.operation_counts() == {"aten.relu.default": 1, "aten.mul.Tensor": 1}
    assert torch.equal(captured.partitions[0].example_outputs[0], torch.full((2,), 3.0))


def test_aot_gives_forward_and_backward_and_knows_the_forward_inputs():
    captured = capture(Small(), EXAMPLE, "aot")
    assert [partition.role for partition in captured.partitions] == ["forward", "backward"]
    forward, backward = captured.operation_counts_by_partition()
    assert forward["aten.addmm.default"] == 2
    # One matrix product for each weight, and one for the input of the second layer; x wants no gradient.
    assert backward["aten.mm.default"] == 3
    assert {one.source for one in captured.partitions[0].inputs} >= {"self.first.weight", "self.second.bias", "x"}
    assert any("functional" in caveat for caveat in captured.caveats)


def test_aot_without_gradients_has_no_backward():
    with torch.no_grad():
        captured = capture(Small(), EXAMPLE, "aot")
    assert [partition.role for partition in captured.partitions] == ["forward"]


def test_aot_breaks_graphs_where_dynamo_does():
    with torch.no_grad():
        captured = capture(ThreeBreaks().eval(), (torch.ones(2, 4),), "aot")
    assert [one.line for one in captured.graph_breaks] == [line_of("PRINT"), line_of("ITEM"), line_of("BRANCH")]
    assert len(captured.graphs) == 4


@pytest.mark.parametrize("method", ["symbolic_trace", "export"])
def test_a_method_that_cannot_follow_names_the_line_and_what_to_try(method, capfd):
    class Branch(nn.Module):
        def forward(self, x):
            if x.sum() > 0:
                return x + 1
            return x - 1

    with pytest.raises(CaptureError) as raised:
        capture(Branch(), (torch.ones(3),), method)
    assert raised.value.method == method
    assert "if x.sum() > 0:" in raised.value.failure
    assert "test_other_methods.py" in raised.value.failure
    assert "dynamo" in raised.value.advice
    assert "\n" not in str(raised.value)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("method", capture_methods())
def test_a_model_that_fails_by_itself_is_told_from_one_that_cannot_be_captured(method):
    with pytest.raises(CaptureError, match="the model itself fails on these example inputs"):
        capture(nn.Linear(4, 2), (torch.ones(3, 5),), method)


@pytest.mark.parametrize("method", capture_methods())
def test_every_method_leaves_the_model_as_it_was(method):
    model = Counting().train()
    model.config = {"setting": [1]}
    model.register_forward_hook(lambda *_: None)
    hooks, parameters = dict(model._forward_hooks), copy.deepcopy(model.state_dict())
    example = torch.ones(3, 4)
    state = torch.get_rng_state()
    try:
        capture(model, (example,), method)
    except CaptureError:
        # Which methods can follow in-place changes is not the question here.
        assert method in ("symbolic_trace", "export", "jit.script")
    assert torch.equal(torch.get_rng_state(), state)
    assert model.calls.item() == 0
    assert model.norm.num_batches_tracked.item() == 0
    assert model.history == []
    assert model.config == {"setting": [1]}
    assert (model._forward_hooks, model.norm._forward_hooks) == (hooks, {})
    assert all(torch.equal(value, parameters[name]) for name, value in model.state_dict().items())
    assert "_is_torch_compile" not in vars(model)
    assert model.training
    assert torch.equal(example, torch.ones(3, 4))
    assert all(parameter.grad is None for parameter in model.parameters())


def test_symbolic_trace_fills_defaults_in_and_takes_keywords():
    inputs = {"x": torch.ones(1, 2), "mask": torch.tensor([[True, False]])}
    captured = capture(Nested(), inputs, "symbolic_trace")
    assert [one.source for one in captured.partitions[0].inputs] == ["x", "mask", "scale"]
    assert captured.partitions[0].example_outputs["more"][0].tolist() == [[0.0, 2.0]]


def test_symbolic_trace_refuses_variadic_models():
    class Variadic(nn.Module):
        def forward(self, *values):
            return values[0]

    with pytest.raises(CaptureError, match=r"takes \*values"):
        capture(Variadic(), (torch.ones(2),), "symbolic_trace")


def test_an_unknown_method_offers_the_near_one():
    with pytest.raises(ValueError, match="Did you mean 'dynamo'"):
        capture(nn.ReLU(), (torch.ones(2),), "dynamp")


@pytest.mark.parametrize(
    ("inputs", "message"), [(torch.ones(2), r"\(tensor,\)"), ("text", "type str"), ({1: torch.ones(2)}, r"keys \[1\]")]
)
def test_inputs_that_are_neither_positional_nor_keyword(inputs, message):
    with pytest.raises(TypeError, match=message):
        capture(nn.ReLU(), inputs)


@pytest.mark.parametrize("method", ["jit.trace", "jit.script"])
def test_a_method_that_knows_no_sizes_takes_no_dynamic(method):
    with pytest.raises(ValueError, match=f'"{method}" knows no sizes'):
        capture(nn.ReLU(), (torch.ones(2),), method, dynamic={"input": {0: ("batch", 2, 8)}})


def test_a_model_that_cannot_be_copied_is_refused():
    class Holding(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.values = iter(lambda: 1, 2)
            self.lock = __import__("threading").Lock()

        def forward(self, x):
            return x

    with pytest.raises(CaptureError, match="cannot be copied"):
        capture(Holding(), (torch.ones(2),))


class Pair(dict):  # type: ignore[type-arg]
    """A mapping of a class of its own."""


@pytest.mark.parametrize("kind", [OrderedDict, Pair, BaseModelOutput])
def test_symbolic_trace_refuses_results_whose_class_it_would_change(kind):
    def model(x):
        return kind(last_hidden_state=x * 2)

    with pytest.raises(CaptureError, match=f"a plain dictionary out of the class {kind.__name__}"):
        capture(model, (torch.ones(3),), "symbolic_trace")
    if kind is not Pair:  # which no pytree knows
        assert type(capture(model, (torch.ones(3),), "export").run(torch.ones(3))) is kind
    assert type(capture(lambda x: {"y": x * 2}, (torch.ones(3),), "symbolic_trace").run(torch.ones(3))) is dict


@pytest.mark.parametrize(("failure", "said"), [("no x", "no x."), ("no x.", "no x."), ("which x?", "which x?")])
def test_what_failed_is_a_sentence_before_the_advice(failure, said):
    assert str(CaptureError("export", failure, "ask.")) == f'capture(method="export") failed: {said} Try this: ask.'
