"""What people do next with an optimised module: call it in their way, save, copy, train, move and load it."""

from __future__ import annotations

import copy
import io
import pickle
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch._dynamo.utils import counters

from fxopt_core.capture import CaptureError, RefusedInputError
from fxopt_core.graphs.editor import GraphEditor
from fxopt_core.optimizer import GraphOptimizer, OptimizationResult, VerificationError
from fxopt_core.passes import OptimizationPass, choose_passes
from fxopt_core.passes.base import Analysis, Opportunity

METHODS = ["export", "symbolic_trace", "dynamo"]
X = torch.linspace(-1, 2, 12).reshape(4, 3)


class Net(nn.Module):
    """Something to rewrite, state of every kind, and a mode that matters."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(3, 3)
        self.drop = nn.Dropout(0.5)
        self.weight = nn.Parameter(torch.arange(3.0))
        self.register_buffer("shift", torch.ones(3))
        self.register_buffer("table", torch.ones(3), persistent=False)
        self.unused = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor, scale: torch.Tensor | None = None) -> torch.Tensor:
        x = torch.sin(self.first(x)) + torch.sin(self.first(x))
        x = self.drop(x) - self.drop(x) + self.weight * 2 + self.shift * 2 + self.table + x
        return x if scale is None else x * scale


def optimized(capture: str = "export", preset: str = "inference", **options: Any) -> tuple[Net, nn.Module]:
    model = Net().eval()
    return model, GraphOptimizer(model, (X,), capture=capture, **options).optimize(preset).module


@pytest.mark.parametrize("capture", METHODS)
def test_it_is_called_by_position_or_by_name(capture: str) -> None:
    model, module = optimized(capture)
    torch.testing.assert_close(module(X), model(X))
    torch.testing.assert_close(module(x=X), model(X))
    torch.testing.assert_close(module(X, None), model(X))
    torch.testing.assert_close(module(scale=None, x=X), model(X))


@pytest.mark.parametrize("capture", METHODS)
def test_it_keeps_the_names_of_the_models_state(capture: str) -> None:
    model, module = optimized(capture)
    assert module.state_dict().keys() == model.state_dict().keys()
    assert {name for name, _ in module.named_parameters()} == {name for name, _ in model.named_parameters()}
    module.load_state_dict(module.state_dict())
    model.load_state_dict(module.state_dict())


@pytest.mark.parametrize("capture", METHODS)
@pytest.mark.parametrize("preset", ["exact", "inference", "training"])
def test_a_checkpoint_is_loaded_or_refused_and_never_ignored(capture: str, preset: str) -> None:
    model, module = optimized(capture, preset)
    other = Net().eval()
    with torch.no_grad():
        for tensor in (*other.parameters(), *other.buffers()):
            tensor.mul_(-3).add_(0.5)
    other.table = model.table  # is in no checkpoint
    if capture == "symbolic_trace":  # it bakes buffers in
        with pytest.raises(RuntimeError, match="may have gone into its constants"):
            module.load_state_dict(other.state_dict())
        torch.testing.assert_close(module(X), model(X))
    else:
        module.load_state_dict(other.state_dict())
        torch.testing.assert_close(module(X), other(X))


def test_a_buffer_that_tracing_baked_in_is_refused_by_name() -> None:
    model, module = optimized("symbolic_trace")
    with pytest.raises(RuntimeError, match=r"does not read shift, .*may have gone into its constants"):
        module.load_state_dict({name: tensor * 2 for name, tensor in model.state_dict().items()})
    module.load_state_dict(model.state_dict())


def test_weights_that_a_pass_folded_are_refused_when_they_would_change() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)).eval()
    x = torch.randn(2, 3, 8, 8)
    with torch.no_grad():
        model(x)
    result = GraphOptimizer(model, (x,)).optimize("inference")
    assert any(rewrite.rule == "conv_batchnorm_folding" for rewrite in result.report.rewrites)
    result.module.load_state_dict(model.state_dict())
    changed = {name: tensor + 1 for name, tensor in model.state_dict().items()}
    with pytest.raises(RuntimeError, match="may have gone into its constants"):
        result.module.load_state_dict(changed)
    with pytest.raises(RuntimeError, match="may have gone into its constants"):
        nn.ModuleDict({"inner": result.module}).load_state_dict({f"inner.{name}": one for name, one in changed.items()})
    torch.testing.assert_close(result.module(x), model(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("capture", ["export", "symbolic_trace"])
def test_the_captured_mode_is_kept_and_the_other_one_is_refused(capture: str) -> None:
    model, module = optimized(capture)
    assert module.eval() is module
    with pytest.raises(RuntimeError, match=r"captured in evaluation mode.*Call \.train\(\) on the model"):
        module.train()
    torch.testing.assert_close(module(X), model(X))
    model = Net().train()
    trained = GraphOptimizer(model, (X,), capture=capture).optimize("training").module
    with pytest.raises(RuntimeError, match=r"captured in training mode.*Call \.eval\(\) on the model"):
        trained.eval()
    torch.manual_seed(3)
    first = trained(X)
    torch.manual_seed(3)
    torch.testing.assert_close(first, model(X))


@pytest.mark.parametrize("attribute", ["", "drop"])
def test_a_mode_that_is_switched_by_hand_is_refused_when_it_is_called(attribute: str) -> None:
    _, module = optimized("symbolic_trace")
    module.get_submodule(attribute).training = True
    with pytest.raises(RuntimeError, match="captured in evaluation mode"):
        module(X)


def test_what_dynamo_captures_follows_the_mode() -> None:
    model, module = optimized("dynamo")
    module.train()
    model.train()
    torch.manual_seed(3)
    found = module(X)
    torch.manual_seed(3)
    torch.testing.assert_close(found, model(X))


@pytest.mark.parametrize("capture", METHODS)
@pytest.mark.parametrize("preset", ["exact", "inference"])
def test_it_is_copied_and_saved_with_everything_it_holds(capture: str, preset: str, tmp_path: Path) -> None:
    model, module = optimized(capture, preset)
    copied = copy.deepcopy(module)
    torch.save(module, tmp_path / "module.pt")
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.zero_()
    for other in (copied, torch.load(tmp_path / "module.pt", weights_only=False)):
        torch.testing.assert_close(other(X), model(X))
        assert other.state_dict().keys() == model.state_dict().keys()
        if capture != "dynamo":
            with pytest.raises(RefusedInputError, match="the dtype of x"):
                other(X.double())


def test_a_saved_module_holds_graphs_inside_its_graph() -> None:
    class Inner(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                half = x * 0.5
            return torch.cond(x.sum() > 0, lambda x: x + half, lambda x: x - half, (x,))

    result = GraphOptimizer(Inner(), (X,), capture="export").optimize("exact")
    stored = io.BytesIO()
    torch.save(result.module, stored)
    stored.seek(0)
    module = torch.load(stored, weights_only=False)
    for x in (X, -X):
        torch.testing.assert_close(module(x), Inner()(x))


def test_an_optimiser_trains_it() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
    module = GraphOptimizer(model, (X,)).optimize("training").module
    losses = []
    for one in (model, module):
        optimiser = torch.optim.SGD(one.parameters(), lr=0.1)
        for _ in range(5):
            optimiser.zero_grad()
            loss = one(X).square().mean()
            loss.backward()
            optimiser.step()
        losses.append(loss.detach())
    torch.testing.assert_close(losses[0], losses[1])


@pytest.mark.parametrize("capture", ["export", "symbolic_trace"])
@pytest.mark.parametrize("move", [{"dtype": torch.float64}, {"dtype": torch.bfloat16}, {"device": "meta"}])
def test_it_is_not_converted_and_says_so(capture: str, move: dict[str, Any]) -> None:
    model, module = optimized(capture)
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    with pytest.raises(RuntimeError, match=r"would become .* and the graph was captured with torch.float32 on cpu"):
        module.to(**move)
    assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())
    assert module.to("cpu", torch.float32) is module
    torch.testing.assert_close(module(X), model(X))


@pytest.mark.parametrize("capture", ["export", "symbolic_trace"])
def test_a_wrong_input_is_refused_in_plain_words(capture: str) -> None:
    _, module = optimized(capture)
    with pytest.raises(RefusedInputError, match=r"the dtype of x: expected torch.float32, .*got torch.float64"):
        module(X.double())
    with pytest.raises(RefusedInputError, match=r"the size of x in dimension 0: expected 4, .*got 2"):
        module(X[:2])
    with pytest.raises(RefusedInputError, match="scale: expected to be left out"):
        module(X, torch.ones(3))


@pytest.mark.parametrize("capture", ["auto", "export", "symbolic_trace", "dynamo"])
@pytest.mark.parametrize("dynamic", [True, {"x": {0: ("batch", 2, 16)}}])
def test_sizes_vary_where_dynamic_says_so(capture: str, dynamic: Any) -> None:
    model = Net().eval()
    optimizer = GraphOptimizer(model, (X,), capture=capture, dynamic=dynamic)
    result = optimizer.optimize("inference")
    assert result.report.nodes_after < result.report.nodes_before
    for size in (2, 3, 9):
        x = torch.randn(size, 3)
        torch.testing.assert_close(result.module(x), model(x))


def test_named_sizes_have_a_range() -> None:
    module = GraphOptimizer(Net().eval(), (X,), dynamic={"x": {0: ("batch", 2, 16)}}).optimize().module
    with pytest.raises(ValueError, match=r"dimension 'batch' .* is 17; expected 2 to 16"):
        module(torch.randn(17, 3))


def test_passes_are_compared_on_other_sizes_too() -> None:
    optimizer = GraphOptimizer(nn.Linear(3, 3), (X,), dynamic=True)
    cases = optimizer.optimize("exact").report.equivalence.cases
    assert cases[0] == "as given"
    assert any(case.startswith("more inputs") for case in cases)


class Watching(OptimizationPass):
    """Changes nothing, and counts how often it looks at a graph."""

    name = "watching"

    def __init__(self) -> None:
        self.looks = 0

    def analyze(self, editor: GraphEditor) -> Analysis:
        self.looks += 1
        return Analysis()

    def transform(self, editor: GraphEditor, opportunity: Opportunity) -> None:
        raise AssertionError("there is nothing to transform")


def test_dynamo_captures_the_same_class_as_often_as_one_likes() -> None:
    kept = []
    for _ in range(11):
        watching = Watching()
        optimizer = GraphOptimizer(Net().eval(), (X,), capture="dynamo")
        result = optimizer.optimize([*choose_passes("exact"), watching])
        assert result.report.nodes_before > result.report.nodes_after > 5
        kept.append((result, watching))

    def captured_by_a_call(result: OptimizationResult, watching: Watching) -> tuple[int, bool]:
        """How many graphs Dynamo captures in a call, and whether the passes see them."""
        graphs, looks = counters["stats"]["unique_graphs"], watching.looks
        torch.testing.assert_close(result.module(X), Net().eval()(X))
        return counters["stats"]["unique_graphs"] - graphs, watching.looks > looks

    # Each capture resets Dynamo, which then captures the results made before once more, at their next call: only then,
    # and through the passes again. The last result is not touched by that.
    once_more = [captured_by_a_call(*each) for each in kept]
    assert once_more == [(1, True)] * 10 + [(0, False)]
    assert [captured_by_a_call(*each) for each in kept] == [(0, False)] * 11
    # The report is that of `optimize`.
    assert all(len(result.report.graphs) == 1 for result, _ in kept)


def test_nothing_captured_is_no_success() -> None:
    class Hidden(nn.Module):
        @torch.compiler.disable
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.sin() + x.sin()

    with pytest.raises(CaptureError, match="Dynamo left the whole call to Python"):
        GraphOptimizer(Hidden(), (X,), capture="dynamo")
    with (
        torch.compiler.set_stance("force_eager"),
        pytest.raises(CaptureError, match="Dynamo left the whole call to Python"),
    ):
        GraphOptimizer(Net(), (X,), capture="dynamo")
    assert GraphOptimizer(lambda x: x, (X,), capture="dynamo").optimize("exact").report.nodes_before == 0


def test_auto_is_the_same_door_as_that_of_capture() -> None:
    optimizer = GraphOptimizer(Net().eval(), (X,))
    assert optimizer.captured.method == "export"
    assert [attempt.strategy for attempt in optimizer.attempts] == ["export"]
    assert [one.on for one in optimizer.captured.agreements][:2] == ["the example", "new values"]


@pytest.mark.parametrize(
    "model", [nn.Linear(3, 3), nn.Sequential(nn.Linear(3, 3), Net().eval(), Net().eval())], ids=["layer", "sequence"]
)
def test_dynamo_reads_modules_of_torch_too(model: nn.Module) -> None:
    result = GraphOptimizer(model, (X,), capture="dynamo").optimize("exact")
    assert len(result.report.graphs) == 1
    assert result.report.nodes_before > 0
    torch.testing.assert_close(result.module(X), model(X))


def test_a_module_with_open_sizes_says_why_it_is_not_saved() -> None:
    module = GraphOptimizer(nn.Linear(3, 3), (X,), dynamic=True).optimize().module
    with pytest.raises(pickle.PicklingError, match="a graph whose sizes may vary cannot be pickled"):
        torch.save(module, io.BytesIO())
    torch.testing.assert_close(copy.deepcopy(module)(X[:2]), module(X[:2]))


def test_a_parameter_under_two_names_is_one_parameter() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(5, 4)
            self.head = nn.Linear(4, 5, bias=False)
            self.head.weight = self.embedding.weight

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            return self.head(self.embedding(tokens))

    model, tokens = Tied(), torch.arange(5)
    for module in (optimised := GraphOptimizer(model, (tokens,)).optimize("training").module, copy.deepcopy(optimised)):
        assert module.get_parameter("head.weight") is module.get_parameter("embedding.weight")
        assert len(list(module.parameters())) == 1
        torch.testing.assert_close(module(tokens), model(tokens))


def test_layers_that_list_their_parameters_are_optimised() -> None:
    state = torch.zeros(1, 2, 5)
    lstm = nn.LSTM(4, 5, batch_first=True)
    result = GraphOptimizer(lstm, (torch.randn(2, 3, 4), (state, state))).optimize("exact")
    assert result.report.nodes_before > 0
    given = torch.randn(2, 3, 4), (torch.randn(1, 2, 5), torch.randn(1, 2, 5))
    torch.testing.assert_close(result.module(*given), lstm(*given))


@pytest.mark.parametrize("capture", METHODS)
def test_every_result_has_weights_of_its_own(capture: str) -> None:
    model = Net().eval()
    optimizer = GraphOptimizer(model, (X,), capture=capture)
    first, second = (optimizer.optimize("exact").module for _ in range(2))
    with torch.no_grad():
        for tensor in (*first.parameters(), *first.buffers()):
            tensor.zero_()
    torch.testing.assert_close(second(X), model(X))
    third = optimizer.optimize("exact")
    assert third.report.equivalence
    torch.testing.assert_close(third.module(X), model(X))
    torch.testing.assert_close(optimizer.optimize("exact", verify=False).module(X), model(X))


class Counts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return self.layer(x) * self.calls


@pytest.mark.parametrize("capture", ["auto", "dynamo"])
def test_a_later_result_begins_where_the_model_is_by_then(capture: str) -> None:
    model, x = Counts(), torch.ones(2, 3)
    optimizer = GraphOptimizer(model, (x,), capture=capture)
    first = optimizer.optimize("exact").module
    model(x)
    with torch.no_grad():
        model.layer.weight.mul_(3)
    second = optimizer.optimize("exact")
    assert second.report.equivalence
    assert second.module(x).equal(model(x))
    assert second.module.calls.item() == model.calls.item() == 2
    assert first.calls.item() == 0


def test_what_tracing_has_baked_in_is_told_when_the_model_has_other_values_by_then() -> None:
    model = Net().eval()
    optimizer = GraphOptimizer(model, (X,), capture="symbolic_trace")
    optimizer.optimize("exact")
    model.shift.mul_(2)
    with pytest.raises(VerificationError, match="the values of shift"):
        optimizer.optimize("exact")
    with pytest.raises(RefusedInputError, match="the values of shift"):
        optimizer.optimize("exact", verify=False).module(X)


def test_a_copy_warns_of_nothing() -> None:
    result = GraphOptimizer(Net().eval(), (X,)).optimize("exact").module
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        twin = copy.deepcopy(result)
    assert not seen
    torch.testing.assert_close(twin(X), result(X))


def test_a_model_of_another_dtype_by_then_is_told_by_the_comparison() -> None:
    model, x = nn.Linear(3, 3), torch.ones(1, 3)
    optimizer = GraphOptimizer(model, (x,))
    model.double()
    with pytest.raises((VerificationError, ValueError)):
        optimizer.optimize("exact")
