"""Linear layers and the activation after them become one operator, which is faster only where it is right."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import pytest
import torch
from passes.programs import aten, operations
from recorded_operators import Recorder
from torch import fx, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.fx.passes.fake_tensor_prop import FakeTensorProp
from torch.nn import functional

from fxopt_core.graphs.fused_operators import ACTIVATIONS, linear_activation
from fxopt_core.optimizer import GraphOptimizer
from fxopt_core.passes import PRESETS, run_pass

FUSED = "linear_activation"
KERNEL = "mkldnn::_linear_pointwise"
ROWS = {"none": 512, "tanh": 256}
"""As many rows as make fusing worthwhile with 256 features, by the algorithm of gelu."""


@contextmanager
def uses_kernel(expected: bool) -> Iterator[None]:
    with Recorder() as recorder:
        yield
    assert (KERNEL in recorder.called) is expected


def tensors(rows: int = 256, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, ...]:
    """Input, weight and bias from 64 to 256 features."""
    torch.manual_seed(0)
    return tuple(torch.randn(*shape, dtype=dtype) for shape in ((rows, 64), (256, 64), (256,)))


def as_written(model: Callable[..., Any], *inputs: torch.Tensor) -> fx.GraphModule:
    """The graph of a model, call by call, with example values. Modules stay calls of modules."""
    graph_module = fx.symbolic_trace(model)
    copied = copy.deepcopy(graph_module)
    FakeTensorProp(copied, FakeTensorMode(allow_non_fake_inputs=True)).propagate(*inputs)
    for node, known in zip(graph_module.graph.nodes, copied.graph.nodes, strict=True):
        if "val" in known.meta:
            node.meta["val"] = known.meta["val"]
    return graph_module


WRITTEN: dict[str, Callable[..., torch.Tensor]] = {
    "aten.linear": lambda x, w, b, a: aten.gelu.default(aten.linear.default(x, w, b), approximate=a),
    "aten.linear without bias": lambda x, w, b, a: aten.gelu.default(aten.linear.default(x, w), approximate=a),
    "aten.addmm": lambda x, w, b, a: aten.gelu.default(
        aten.addmm.default(b, x, aten.permute.default(w, [1, 0])), approximate=a
    ),
    "aten.mm": lambda x, w, b, a: aten.gelu.default(aten.mm.default(x, aten.t.default(w)), approximate=a),
    "functional": lambda x, w, b, a: functional.gelu(functional.linear(x, w, b), approximate=a),
    "functional without bias": lambda x, w, b, a: functional.gelu(
        functional.linear(x, bias=None, weight=w), approximate=a
    ),
}


class Written(nn.Module):
    """One way of writing a layer, with its weights."""

    def __init__(self, name: str, approximate: str) -> None:
        super().__init__()
        _, weight, bias = tensors()
        self.weight, self.bias = nn.Parameter(weight), nn.Parameter(bias)
        self.function, self.approximate = WRITTEN[name], approximate

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x, self.weight, self.bias, self.approximate)


class Layer(nn.Module):
    """A layer as a module, followed by gelu as a module or as a function."""

    def __init__(self, approximate: str, *, bias: bool, function: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.fc = nn.Linear(64, 256, bias=bias)
        self.activation = nn.GELU(approximate)
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.function:
            return functional.gelu(self.fc(x), approximate=self.activation.approximate)
        return self.activation(self.fc(x))


MODELS: dict[str, Callable[[str], nn.Module]] = {
    **{name: lambda approximate, name=name: Written(name, approximate) for name in WRITTEN},
    "module": lambda approximate: Layer(approximate, bias=True, function=False),
    "module without bias": lambda approximate: Layer(approximate, bias=False, function=False),
    "module and function": lambda approximate: Layer(approximate, bias=True, function=True),
}


@pytest.mark.parametrize("approximate", ROWS)
@pytest.mark.parametrize("name", MODELS)
def test_every_way_of_writing_it_is_fused(name: str, approximate: str) -> None:
    model, (x, *_) = MODELS[name](approximate), tensors(ROWS[approximate])
    module = as_written(model, x)
    result = run_pass("linear_activation_fusion", module)
    assert [rewrite.rule.partition("/")[0] for rewrite in result.rewrites] == ["linear_activation_fusion"]
    assert operations(module)[-1] == FUSED
    assert not {"gelu.default", "gelu", "activation", "fc", "linear", "linear.default"} & set(operations(module))
    assert not run_pass("linear_activation_fusion", module).changed
    with torch.no_grad():
        expected = model(x)
        with uses_kernel(True):
            found = module(x)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5 * float(expected.abs().max()))
    assert (found.stride(), found.shape) == (expected.stride(), expected.shape)
    node = list(module.graph.nodes)[-2]
    assert (node.meta["val"].shape, node.meta["val"].stride()) == (found.shape, found.stride())


@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_those_of_the_two_operators(name: str) -> None:
    model, (x, *_) = MODELS[name]("tanh"), tensors()
    module = as_written(model, x)
    assert run_pass("linear_activation_fusion", module).changed
    x.requires_grad_()
    for found, expected in zip(_derivatives(module, x), _derivatives(model, x), strict=True):
        assert (found is None) is (expected is None)
        assert found is None or torch.equal(found, expected)


def _derivatives(model: nn.Module, x: torch.Tensor) -> list[torch.Tensor | None]:
    return list(torch.autograd.grad(model(x).square().sum(), [x, *model.parameters()], allow_unused=True))


class Subclass(torch.Tensor):
    """A tensor of a class of the user's."""


def _requires_grad(index: int) -> Callable[[], Any]:
    return lambda: tuple(t.requires_grad_(number == index) for number, t in enumerate(tensors()))


SLOW: dict[str, tuple[Callable[[], Any], Callable[[], AbstractContextManager[Any]]]] = {
    "gradients by the input": (_requires_grad(0), nullcontext),
    "gradients by the weight": (_requires_grad(1), nullcontext),
    "gradients by the bias": (_requires_grad(2), nullcontext),
    "autocast": (tensors, lambda: torch.autocast("cpu", torch.bfloat16)),
    "oneDNN switched off": (tensors, lambda: torch.backends.mkldnn.flags(enabled=False)),
    "double precision": (lambda: tensors(dtype=torch.float64), nullcontext),
    "half precision": (lambda: tensors(dtype=torch.bfloat16), nullcontext),
    "a weight of another class": (lambda: (tensors()[0], tensors()[1].as_subclass(Subclass), None), nullcontext),
    "a bias that is broadcast": (lambda: (*tensors()[:2], torch.ones(1)), nullcontext),
    "a bias for each row": (lambda: (*tensors()[:2], torch.randn(256, 256)), nullcontext),
    "a weight that is a vector": (lambda: (tensors()[0], tensors()[1][0], None), nullcontext),
    "no rows": (lambda: tensors(rows=0), nullcontext),
    "sums of nothing": (lambda: (torch.randn(256, 0), torch.randn(256, 0), tensors()[2]), nullcontext),
    "another device": (lambda: tuple(tensor.to("meta") for tensor in tensors()), nullcontext),
    "a sparse weight": (lambda: (tensors()[0], tensors()[1].to_sparse_csr(), None), nullcontext),
}


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("name", SLOW)
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_the_kernel_is_left_out_where_it_would_be_wrong(name: str, activation: tuple[str, str]) -> None:
    make, mode = SLOW[name]
    given = make()
    with mode():
        expected = ACTIVATIONS[activation](functional.linear(*given))
        with uses_kernel(False):
            found = linear_activation(*given, *activation)
    assert (found.dtype, found.shape, found.requires_grad) == (expected.dtype, expected.shape, expected.requires_grad)
    assert found.is_meta or torch.equal(found, expected)


@pytest.mark.parametrize("shape", [(64,), (2, 64), (3, 2, 64), (1, 1, 1, 64)])
@pytest.mark.parametrize("layout", ["contiguous", "transposed", "every other"])
def test_the_kernel_takes_every_other_input(shape: tuple[int, ...], layout: str) -> None:
    _, weight, bias = tensors()
    x = torch.randn(*shape, 2)[..., 0] if layout == "every other" else torch.randn(shape)
    if layout == "transposed":
        x = torch.randn(shape[::-1]).permute(*reversed(range(len(shape))))
    with torch.no_grad():
        expected = functional.gelu(functional.linear(x, weight, bias))
        with uses_kernel(True):
            found = linear_activation(x, weight, bias, "gelu", "none")
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    assert (found.shape, found.stride()) == (expected.shape, expected.stride())


@pytest.mark.parametrize("shape", [(), (128, 63), (64, 128), (0,)])
def test_what_does_not_fit_is_refused_as_by_the_linear_layer(shape: tuple[int, ...]) -> None:
    _, weight, bias = tensors()
    with pytest.raises(Exception) as expected:  # noqa: PT011  whatever PyTorch raises
        functional.linear(torch.randn(shape), weight, bias)
    with pytest.raises(type(expected.value)) as found:
        linear_activation(torch.randn(shape), weight, bias, "gelu", "none")
    assert str(found.value) == str(expected.value)


def test_parameters_without_gradients_take_the_kernel_in_either_mode() -> None:
    with uses_kernel(True):
        linear_activation(*tensors(), "gelu", "tanh")
    with torch.no_grad(), uses_kernel(True):
        linear_activation(*(nn.Parameter(tensor) for tensor in tensors()), "gelu", "tanh")
    with torch.inference_mode(), uses_kernel(True):
        linear_activation(*tensors(), "gelu", "tanh")


def test_transforms_see_the_two_operators() -> None:
    x, weight, bias = tensors()

    def fused(value: torch.Tensor) -> torch.Tensor:
        return linear_activation(value, weight, bias, "gelu", "tanh")

    def written(value: torch.Tensor) -> torch.Tensor:
        return functional.gelu(functional.linear(value, weight, bias), approximate="tanh")

    for transform in (torch.func.vmap, torch.func.jacrev, lambda f: torch.func.grad(lambda value: f(value).sum())):
        with uses_kernel(False):
            found = transform(fused)(x[:2])
        torch.testing.assert_close(found, transform(written)(x[:2]))
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, torch.ones_like(x))
        with uses_kernel(False):
            found = forward_ad.unpack_dual(fused(dual)).tangent
        torch.testing.assert_close(found, forward_ad.unpack_dual(written(dual)).tangent)


def linear_and(activation: Callable[[torch.Tensor], Any]) -> Callable[..., Any]:
    return lambda x, w, b: activation(functional.linear(x, w, b))


def tanh_gelu(value: torch.Tensor) -> torch.Tensor:
    return functional.gelu(value, approximate="tanh")


STAY: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...], str]] = {
    "what relu takes is returned": (linear_and(lambda y: (y, functional.relu(y))), tensors(), "also used by"),
    "relu is also a mask": (linear_and(lambda y: functional.relu(y) * (y > 0)), tensors(), "also used by"),
    "a relu after two factors": (
        lambda x, w, b: aten.relu.default(aten.addmm.default(b, x, aten.t.default(w), beta=2)),
        tensors(),
        "has a factor",
    ),
    "a sum in the place of a bias": (
        lambda x, w, b: torch.relu(torch.addmm(x @ w.t(), x, w.t())),
        tensors(),
        "not known to be a bias",
    ),
    "what is between is returned": (linear_and(lambda y: (y, tanh_gelu(y))), tensors(), "also used by"),
    "too small for exact gelu": (linear_and(functional.gelu), tensors(), "65536 elements, and below 131072"),
    "too small": (linear_and(tanh_gelu), tensors(255), "65280 elements, and below 65536"),
    "double precision": (linear_and(tanh_gelu), tensors(dtype=torch.float64), "torch.float64 on cpu"),
    "another device": (linear_and(tanh_gelu), tuple(t.to("meta") for t in tensors()), "torch.float32 on meta"),
    "a weight stored transposed": (
        lambda x, w, b: tanh_gelu(functional.linear(x, w, b)),
        (tensors()[0], tensors()[1].t().contiguous().t(), tensors()[2]),
        "row by row",
    ),
    "a matrix of Conv1D": (
        lambda x, w, b: aten.gelu.default(aten.addmm.default(b, x, w), approximate="tanh"),
        (tensors()[0], tensors()[1].t().contiguous(), tensors()[2]),
        "row by row",
    ),
    "a factor": (
        lambda x, w, b: aten.gelu.default(aten.addmm.default(b, x, aten.t.default(w), alpha=2)),
        tensors(512),
        "has a factor",
    ),
    "a write in between": (
        lambda x, w, b: (lambda y, written: (tanh_gelu(y), written))(functional.linear(x, w, b), x.add_(1)),
        tensors(),
        "may write in between",
    ),
}


@pytest.mark.parametrize("name", STAY)
def test_what_stays_and_why(name: str) -> None:
    function, inputs, reason = STAY[name]
    module = as_written(function, *inputs)
    result = run_pass("linear_activation_fusion", module)
    assert not result.changed
    assert [reason in refusal.reason for refusal in result.refusals] == [True], result.refusals


def test_without_examples_or_the_kernel_nothing_is_fused(monkeypatch: pytest.MonkeyPatch) -> None:
    result = run_pass("linear_activation_fusion", fx.symbolic_trace(linear_and(tanh_gelu)))
    assert not result.changed
    assert any("are not known" in refusal.reason for refusal in result.refusals)
    module = as_written(linear_and(tanh_gelu), *tensors())
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    result = run_pass("linear_activation_fusion", module)
    assert not result.changed
    assert any("without oneDNN" in refusal.reason for refusal in result.refusals)
    with uses_kernel(False):
        linear_activation(*tensors(), "gelu", "tanh")


def test_sizes_that_vary_count_as_one() -> None:
    model, (x, *_) = Layer("tanh", bias=True, function=False), tensors()
    program = torch.export.export(model, (x,), dynamic_shapes=({0: torch.export.Dim("rows", min=2)},))
    result = run_pass("linear_activation_fusion", program.module())
    assert any("256 elements" in refusal.reason for refusal in result.refusals)


RELU: dict[str, Callable[..., torch.Tensor]] = {
    "functional": lambda x, w, b: functional.relu(functional.linear(x, w, b)),
    "functional in place": lambda x, w, b: functional.relu(functional.linear(x, w, b), inplace=True),
    "method": lambda x, w, b: functional.linear(x, w, b).relu(),
    "method in place": lambda x, w, b: functional.linear(x, w, b).relu_(),
    "no bias": lambda x, w, b: torch.relu(functional.linear(x, w)) + b,
    "aten": lambda x, w, b: aten.relu.default(aten.linear.default(x, w, b)),
    "addmm": lambda x, w, b: torch.addmm(b, x, w.t()).relu(),
    "mm": lambda x, w, b: aten.relu.default(aten.mm.default(x, aten.t.default(w))) + b,
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("name", RELU)
def test_relu_keeps_every_bit_and_every_derivative(name: str, dtype: torch.dtype) -> None:
    """NaN, infinities and zeros of both signs too, small results as well as large ones."""
    function, (x, weight, bias) = RELU[name], tensors(5, dtype)
    module = as_written(function, x, weight, bias)
    result = run_pass("linear_activation_fusion", module)
    assert [str(rewrite.tolerance) for rewrite in result.rewrites] == ["bitwise"]
    assert FUSED in operations(module)
    for value in (1.0, torch.nan, torch.inf, -torch.inf, -0.0, torch.finfo(dtype).max):
        x[3, 4], bias[7] = value, value
        found, expected = module(x, weight, bias), function(x, weight, bias)
        assert torch.equal(found.nan_to_num(7), expected.nan_to_num(7))
        assert torch.equal(found.isnan(), expected.isnan())
        assert torch.equal(found.signbit(), expected.signbit())
    x, weight, bias = tensors(5, torch.float64)
    inputs = (x[:, :2].clone(), weight[:3, :2].clone(), bias[:3].clone())
    for tensor in inputs:
        tensor.requires_grad_()
    # Twice differentiable, and forwards.
    assert torch.autograd.gradcheck(module, inputs, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(module, inputs)
    mapped = torch.func.vmap(module, in_dims=(0, None, None))(x[:, None], weight, bias)
    torch.testing.assert_close(mapped, torch.func.vmap(function, in_dims=(0, None, None))(x[:, None], weight, bias))


class Network(nn.Module):
    """Two layers with gelu, as in a transformer, and one with relu."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(
            nn.Linear(64, 256), nn.GELU("tanh"), nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 8), nn.ReLU()
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.layers(x)
        return result


def optimized() -> tuple[nn.Module, nn.Module, torch.Tensor]:
    """A model, what the preset makes of it, and an input."""
    model, x = Network().eval(), torch.randn(512, 64)
    result = GraphOptimizer(model, (x,)).optimize("inference")
    assert result.report.equivalence
    # The error says that the comparison saw the kernel.
    assert result.report.equivalence.largest_error > 0
    assert operations(result.report.graphs[0].result.graph_module).count(FUSED) == 3
    return model, result.module, x


def test_the_preset_fuses_and_the_result_can_be_copied_exported_and_interpreted() -> None:
    assert "linear_activation_fusion" in PRESETS["inference"]
    model, module, x = optimized()
    with torch.no_grad():
        expected = model(x)
        for other in (module, copy.deepcopy(module), lambda x: fx.Interpreter(module).run(x)):
            with uses_kernel(True):
                found = other(x)
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    # What is exported may be run where gradients are wanted.
    program = torch.export.export(module, (x,))
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    buffer.seek(0)
    loaded = torch.export.load(buffer).module()
    for other in (program.module(), loaded):
        found = other(x)
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
        assert found.requires_grad


def test_a_graph_module_with_it_can_be_saved() -> None:
    model, (x, *_) = Layer("tanh", bias=True, function=False), tensors()
    module = as_written(model, x)
    assert run_pass("linear_activation_fusion", module).changed
    for node in module.graph.nodes:
        node.type = None  # torch cannot save annotations that are text, as this file has them
    module.recompile()
    buffer = io.BytesIO()
    torch.save(module, buffer)
    buffer.seek(0)
    loaded = torch.load(buffer, weights_only=False)
    with torch.no_grad(), uses_kernel(True):
        torch.testing.assert_close(loaded(x), model(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("then", ["eager", "aot_eager"])
def test_behind_dynamo(then: str) -> None:
    model, x = Network().eval(), torch.randn(512, 64)
    seen: list[Any] = []
    torch._dynamo.reset()
    options = {"passes": "inference", "then": then, "report": seen.append}
    compiled = torch.compile(model, backend="fxopt", options=options)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-5, atol=1e-5)
    assert operations(seen[0].graph_module).count(FUSED) == 3
    x.requires_grad_()
    found, expected = (torch.autograd.grad(function(x).sum(), x) for function in (compiled, model))
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("gradients", [False, True])
def test_dynamo_takes_the_result_whole_and_sees_the_two_operators(gradients: bool) -> None:
    captured: list[fx.GraphModule] = []

    def keep(graph_module: fx.GraphModule, inputs: Any) -> Any:
        captured.append(graph_module)
        return graph_module

    model = nn.Sequential(nn.Linear(64, 256), nn.GELU(approximate="tanh")).eval()
    (x, *_) = tensors()
    module = GraphOptimizer(model, (x,)).optimize("inference").module
    assert FUSED in operations(module)
    with torch.set_grad_enabled(gradients):
        result = torch.compile(module, backend=keep, fullgraph=True)(x)
        assert torch.equal(result, model(x))
    (graph_module,) = captured
    assert {functional.linear, functional.gelu} <= {node.target for node in graph_module.graph.nodes}
