"""`torch.compile(model, backend="fxopt")`, without importing anything of fxopt."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest
import torch
from torch import nn

from fxopt_core.capture.lowering import lower
from fxopt_core.optimizer import GraphOptimizer, PipelineResult, dynamo_graph
from fxopt_core.passes import Analysis, GraphEditor, Opportunity, OptimizationPass


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch.cos(x)
        return (torch.sin(self.linear(x)) * torch.sin(self.linear(x))).sum()


def gradients(function: Any, model: Model, x: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
    model.zero_grad()
    loss = function(x)
    loss.backward()
    return loss.detach(), [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]


@pytest.fixture(autouse=True)
def _fresh_dynamo() -> None:
    torch._dynamo.reset()


@pytest.mark.parametrize("then", ["inductor", "aot_eager", "eager"])
def test_training_works_through_it(then: str) -> None:
    torch.manual_seed(0)
    model, x = Model(), torch.randn(3, 4)
    seen: list[PipelineResult] = []
    compiled = torch.compile(model, backend="fxopt", options={"then": then, "report": seen.append})
    loss, wanted = gradients(model, model, x)
    compiled_loss, found = gradients(compiled, model, x)
    torch.testing.assert_close(compiled_loss, loss)
    torch.testing.assert_close(found, wanted)
    rules = [rewrite.rule for result in seen for rewrite in result.rewrites]
    assert rules.count("dead_code") == 1
    assert rules.count("common_subexpressions") == 2


def test_sizes_may_vary() -> None:
    model = Model()
    compiled = torch.compile(model, backend="fxopt", options={"then": "eager"}, dynamic=True)
    for size in (2, 3, 7):
        x = torch.randn(size, 4)
        torch.testing.assert_close(compiled(x), model(x))


def test_it_is_there_without_an_import() -> None:
    code = (
        "import torch\n"
        "compiled = torch.compile(lambda x: x.sin() + x.sin(), backend='fxopt', options={'then': 'eager'})\n"
        "x = torch.randn(3)\n"
        "assert torch.equal(compiled(x), x.sin() + x.sin())\n"
        "import sys; assert 'fxopt_core.backend' in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("then", ["inductor", "aot_eager", "eager"])
def test_what_depends_on_no_input_is_computed_once(then: str) -> None:
    seen: list[PipelineResult] = []
    compiled = torch.compile(
        lambda x: x + torch.arange(4) * 2, backend="fxopt", options={"then": then, "report": seen.append}
    )
    x = torch.randn(3, 4)
    torch.testing.assert_close(compiled(x), x + torch.arange(4) * 2)
    torch.testing.assert_close(compiled(-x), -x + torch.arange(4) * 2)
    assert [rewrite.rule for rewrite in seen[0].rewrites if rewrite.rule != "dead_code"] == ["constant_folding"]


def normalised() -> nn.Sequential:
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.BatchNorm2d(4), nn.ReLU(),
        nn.ConvTranspose2d(4, 6, 2, groups=2, bias=False), nn.BatchNorm2d(6), nn.Flatten(), nn.Linear(150, 5),
        nn.BatchNorm1d(5),
    )  # fmt: skip
    for module in model:
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            assert module.running_mean is not None
            assert module.running_var is not None
            module.running_mean.normal_()
            module.running_var.uniform_(0.2, 3)
            nn.init.normal_(module.weight)
            nn.init.normal_(module.bias)
    return model.eval()


def change_all(model: nn.Sequential) -> Iterator[str]:
    """The ways in which people change weights."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    optimizer.step()
    yield "an optimiser's step"
    model.load_state_dict({name: torch.rand_like(value.float()) for name, value in model.state_dict().items()})
    yield "load_state_dict"
    model.load_state_dict({name: value.clone() + 1 for name, value in model.state_dict().items()}, assign=True)
    yield "load_state_dict with assign"
    model[0].weight.data.mul_(2)
    yield "data of a weight"
    model[1].running_var.data[0] = 7
    yield "data of a statistic"
    model[0].weight.detach().numpy()[0] = 3
    yield "memory shared with NumPy"
    model[0].bias = None
    yield "a bias less"
    model[0].weight = nn.Parameter(torch.randn(4, 3, 3, 3))
    yield "another parameter"
    model[1].eps = 0.3
    yield "another eps"


@pytest.mark.parametrize("then", ["inductor", "eager"])
def test_folded_weights_are_never_stale(then: str) -> None:
    torch.manual_seed(0)
    model, x, seen = normalised(), torch.randn(2, 3, 6, 6), list[PipelineResult]()
    compiled = torch.compile(model, backend="fxopt", options={"then": then, "report": seen.append})
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-4)
        assert rules(seen[0]) == {"conv_batchnorm_folding": 3}
        # The last ways are captured anew, which takes Inductor a quarter of a minute.
        for way in islice(change_all(model), 6 if then == "inductor" else None):
            difference = (compiled(x) - model(x)).abs().max() / model(x).abs().max()
            assert difference < 1e-4, way
    training = copy.deepcopy(model).train()
    model.train()
    torch.testing.assert_close(compiled(x), training(x), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(model.state_dict(), training.state_dict(), rtol=1e-4, atol=1e-4)
    model.eval()
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-4)


def rules(result: PipelineResult) -> Counter[str]:
    return Counter(rewrite.rule.partition("/")[0] for rewrite in result.rewrites)


def test_gradients_reach_the_weights_that_are_folded() -> None:
    torch.manual_seed(0)
    model, x, seen = normalised(), torch.randn(2, 3, 6, 6), list[PipelineResult]()
    options = {"passes": "inference", "then": "aot_eager", "report": seen.append, "verify": True}
    compiled = torch.compile(model, backend="fxopt", options=options)
    compiled(x).square().sum().backward()
    assert rules(seen[0])["conv_batchnorm_folding"] == 3
    found = [parameter.grad for parameter in model.parameters()]
    model.zero_grad()
    model(x).square().sum().backward()
    torch.testing.assert_close(found, [parameter.grad for parameter in model.parameters()], rtol=1e-3, atol=1e-3)


def test_half_precision_is_folded_within_its_tolerance() -> None:
    torch.manual_seed(0)
    model, x = normalised()[:3].bfloat16(), torch.randn(2, 3, 6, 6, dtype=torch.bfloat16)
    seen: list[PipelineResult] = []
    compiled = torch.compile(model, backend="fxopt", options={"then": "eager", "report": seen.append, "verify": True})
    with torch.no_grad():
        assert compiled(x).dtype == torch.bfloat16
        exact = copy.deepcopy(model).double()(x.double())
        assert (compiled(x).double() - exact).abs().max() < 0.03 * exact.abs().max()
    assert rules(seen[0])["conv_batchnorm_folding"] == 1


def test_second_derivatives() -> None:
    x = torch.randn(4, dtype=torch.float64, requires_grad=True)
    compiled = torch.compile(lambda x: (x.sin() * x.sin()).sum() + 0, backend="fxopt", options={"then": "eager"})
    (first,) = torch.autograd.grad(compiled(x), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    torch.testing.assert_close(second, 2 * torch.cos(2 * x))


class Wrong(OptimizationPass):
    """`sin(x)` becomes `cos(x)`, which is wrong."""

    name = "wrong"

    def analyze(self, editor: GraphEditor) -> Analysis:
        found = [node for node in editor.graph.nodes if node.target is torch.ops.aten.sin.default]
        return Analysis([Opportunity(node) for node in found])

    def transform(self, editor: GraphEditor, opportunity: Opportunity) -> None:
        node = opportunity.node
        editor.replace(node, editor.call(torch.ops.aten.cos.default, node.args[0], like=node))


def test_verification_takes_out_what_is_wrong_and_keeps_the_rest() -> None:
    seen: list[PipelineResult] = []
    function = lambda x, y: x.sin() + x.abs() + x.abs() + y.mul_(2)  # noqa: E731
    options = {"passes": ["common_subexpressions", Wrong()], "then": "eager", "report": seen.append}
    x, y = torch.randn(3), torch.ones(3)
    torch.testing.assert_close(
        torch.compile(function, backend="fxopt", options={**options, "verify": True})(x, y), function(x, torch.ones(3))
    )
    assert torch.equal(y, torch.full((3,), 2.0)), "comparing must not write the caller's tensors"
    assert rules(seen[0]) == {"common_subexpressions": 1}
    assert [refusal.node for refusal in seen[0].refusals["verification"]] == ["wrong@sin"]
    torch._dynamo.reset()
    unverified = torch.compile(function, backend="fxopt", options=options)(x, torch.ones(3))
    assert not torch.equal(unverified, function(x, torch.ones(3)))


def test_a_graph_that_is_lowered_wrongly_is_no_passs_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def lower_wrongly(graph_module: torch.fx.GraphModule) -> torch.fx.GraphModule:
        lowered = lower(graph_module)
        for node in lowered.graph.find_nodes(op="call_function", target=torch.ops.aten.sin.default):
            node.target = torch.ops.aten.cos.default
        lowered.recompile()
        return lowered

    monkeypatch.setattr(dynamo_graph, "lower", lower_wrongly)
    compiled = torch.compile(lambda x: x.sin() + x.sin(), backend="fxopt", options={"then": "eager", "verify": True})
    fault = "the graph of ATen operators differs from the one that Dynamo captured, before any pass: value of output"
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match=fault):
        compiled(torch.randn(3))


class Reversed(torch.autograd.Function):
    """Hands its input on, and the gradient with the other sign."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return -gradient


def test_the_optimizer_says_too_what_is_only_known_by_its_call() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        y = Reversed.apply(x.sin() + x.sin())
        torch._dynamo.graph_break()
        return y.cos() + y.cos()

    x = torch.zeros(3, requires_grad=True)
    result = GraphOptimizer(program, (x,), capture="dynamo").optimize("exact")
    ((name, refusal),) = result.report.refusals
    assert name == "lowering"
    assert "fwd_body_0, which the graph itself holds" in refusal.reason
    assert len(result.report.graphs) == 2
    assert {rewrite.rule for rewrite in result.report.rewrites} == {"common_subexpressions"}


def test_what_is_only_known_by_its_call_stays_as_dynamo_wrote_it() -> None:
    seen: list[PipelineResult] = []
    compiled = torch.compile(
        lambda x: Reversed.apply(x.sin() + x.sin()), backend="fxopt", options={"then": "eager", "report": seen.append}
    )
    x = torch.zeros(3, requires_grad=True)
    compiled(x).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [-2.0, -2.0, -2.0]
    (refusal,) = seen[0].refusals["lowering"]
    assert "fwd_body_0, which the graph itself holds" in refusal.reason
    assert rules(seen[0]) == {"common_subexpressions": 1}


def test_a_graph_that_no_pass_changes_is_handed_on_untouched() -> None:
    seen: list[PipelineResult] = []
    received: list[torch.fx.GraphModule] = []

    def last(graph_module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        received.append(graph_module)
        return graph_module.forward

    torch._dynamo.register_backend(last, name="fxopt_test_last")
    options = {"then": "fxopt_test_last", "report": seen.append}
    torch.compile(lambda x: x.sin(), backend="fxopt", options=options)(torch.randn(3))
    assert [node.target for node in received[0].graph.nodes if node.op == "call_method"] == ["sin"]
    torch.compile(lambda x: x.sin() + x.sin(), backend="fxopt", options=options)(torch.randn(3))
    assert torch.ops.aten.sin.default in [node.target for node in received[1].graph.nodes]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"then": "nope"}, "there is no backend 'nope' to hand on to.*Expected one of"),
        ({"then": "aot_eagr"}, "Did you mean 'aot_eager'"),
        ({"then": "fxopt"}, "there is no backend 'fxopt' to hand on to"),
        ({"then": None}, "then is None; expected the name of a backend"),
        ({"pases": "exact"}, "there is no option 'pases'. Did you mean 'passes'"),
        ({"passes": "inferense"}, "Did you mean 'inference'"),
        ({"verify": "yes"}, "verify is 'yes'; expected True or False"),
        ({"report": 3}, "report is 3; expected a function"),
        ({"then_options": [1]}, r"then_options is \[1\]; expected a dictionary"),
        ({"then_options": {"max_autotun": True}}, "Unexpected optimization option max_autotun"),
    ],
)
def test_bad_options_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(Exception, match=message):
        torch.compile(Model(), backend="fxopt", options=options)(torch.randn(3, 4))


def test_modes_and_options_reach_inductor(monkeypatch: pytest.MonkeyPatch) -> None:
    received: list[dict[str, Any]] = []

    def compile_fx(graph_module: torch.fx.GraphModule, inputs: list[Any], *, config_patches: Any, **_: Any) -> Any:
        received.append(config_patches)
        return graph_module.forward

    monkeypatch.setattr("torch._inductor.compile_fx.compile_fx", compile_fx)
    options = {"then_options": {"epilogue_fusion": False}, "mode": "max-autotune"}
    torch.compile(Model(), backend="fxopt", options=options)(torch.randn(3, 4))
    assert received[0]["epilogue_fusion"] is False
    assert received[0]["max_autotune"] is True
    torch.compile(Model(), backend="fxopt", mode="reduce-overhead")(torch.randn(3, 4))
    assert received[1]["triton.cudagraphs"] is True


def test_modes_belong_to_inductor() -> None:
    with pytest.raises(Exception, match="mode is 'max-autotune', which is one of Inductor's, and then is 'eager'"):
        torch.compile(Model(), backend="fxopt", options={"then": "eager", "mode": "max-autotune"})(torch.randn(3, 4))
    with pytest.raises(Exception, match="max-autotun"):
        torch.compile(Model(), backend="fxopt", mode="max-autotun")(torch.randn(3, 4))


def frozen_part(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    with torch.inference_mode():
        still = x.sin()
    return still.relu(), x * 1 * 2


def not_frozen_part(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    with torch.no_grad(), torch.inference_mode(False):
        still = x.sin()
    return still.relu(), x * 1 * 2


@pytest.mark.parametrize("then", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", [frozen_part, not_frozen_part])
def test_inference_mode_inside_of_a_model_stays(program: Callable[..., Any], then: str) -> None:
    seen: list[PipelineResult] = []
    options = {"passes": "exact", "then": then, "report": seen.append, "verify": then == "eager"}
    x = torch.arange(4.0).requires_grad_()
    found = torch.compile(program, backend="fxopt", options=options)(x)
    assert [one.requires_grad for one in found] == [one.requires_grad for one in program(x)]
    assert "switches a mode that recording leaves out" in seen[0].refusals["lowering"][0].reason
    assert rules(seen[0])["algebraic_simplification"] == 1


def other_default_dtype(x: torch.Tensor) -> torch.Tensor:
    torch.set_default_dtype(torch.float64)
    doubled = torch.ones(4) * 2
    torch.set_default_dtype(torch.float32)
    return doubled + x


def test_a_default_dtype_that_the_model_sets_is_that_of_its_constants() -> None:
    options = {"passes": "constant_folding", "then": "eager"}
    assert torch.compile(other_default_dtype, backend="fxopt", options=options)(torch.ones(4)).dtype == torch.float64
    result = GraphOptimizer(other_default_dtype, (torch.ones(4),)).optimize("exact", verify=False)
    assert result.module(torch.ones(4)).dtype == torch.float64
