"""A batch normalisation in evaluation becomes part of the layer before it, and stays where that would be wrong."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from passes.programs import aten, bits
from torch import fx, nn
from torch.fx.passes.shape_prop import ShapeProp
from torch.nn import functional

from fxopt_core.graphs.cloning import clone_graph_module
from fxopt_core.passes import GraphEditor, PassResult, make_pass, run_pass
from fxopt_core.passes.conv_batchnorm_folding import HALF, SINGLE
from fxopt_core.verification import check_equivalence

NAME = "conv_batchnorm_folding"
CONVOLUTIONS = {
    (dimensions, transposed): getattr(nn, f"Conv{'Transpose' if transposed else ''}{dimensions}d")
    for dimensions, transposed in product((1, 2, 3), (False, True))
}
NORMS = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}


def lived(model: nn.Module, seed: int = 0) -> nn.Module:
    """The model in evaluation, with statistics as after training: a channel that never varied, and one that hardly."""
    generator = torch.Generator().manual_seed(seed)
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.running_mean is not None:
            module.running_mean.normal_(generator=generator)
            module.running_var.uniform_(0.1, 3, generator=generator)
            module.running_var[0], module.running_var[1] = 0, 1e-12
            if module.affine:
                with torch.no_grad():
                    module.weight.normal_(generator=generator)
                    module.bias.normal_(generator=generator)
    return model.eval()


class Parallel(nn.Module):
    """Pairs of a layer and a normalisation, all on one input."""

    def __init__(self, pairs: list[tuple[nn.Module, nn.Module]]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layer for layer, _ in pairs)
        self.norms = nn.ModuleList(norm for _, norm in pairs)

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        return [norm(layer(x)) for layer, norm in zip(self.layers, self.norms, strict=True)]


class Functional(Parallel):
    """The same in functions of torch."""

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        return [self.norm(n, self.layer(m, x)) for m, n in zip(self.layers, self.norms, strict=True)]

    @staticmethod
    def layer(m: Any, x: torch.Tensor) -> torch.Tensor:
        if isinstance(m, nn.Linear):
            return functional.linear(x, m.weight, bias=m.bias)
        name = type(m).__name__.removeprefix("Conv").removeprefix("Transpose").lower()
        if m.transposed:
            call = getattr(torch, f"conv_transpose{name}")
            return call(x, m.weight, m.bias, m.stride, m.padding, m.output_padding, m.groups, m.dilation)
        call = getattr(functional, f"conv{name}")
        return call(x, weight=m.weight, bias=m.bias, stride=m.stride, dilation=m.dilation, groups=m.groups)

    @staticmethod
    def norm(n: Any, x: torch.Tensor) -> torch.Tensor:
        return functional.batch_norm(x, n.running_mean, n.running_var, n.weight, n.bias, eps=n.eps)


def shaped(model: nn.Module, x: torch.Tensor) -> fx.GraphModule:
    """The torch-level graph, with shapes."""
    module = fx.symbolic_trace(model)
    ShapeProp(module).propagate(x)
    return module


def functions(model: Parallel, x: torch.Tensor) -> fx.GraphModule:
    return shaped(Functional(list(zip(model.layers, model.norms, strict=True))), x)


LEVELS: dict[str, Callable[[Any, torch.Tensor], fx.GraphModule]] = {
    "modules": shaped,
    "functions": functions,
    "export": lambda model, x: torch.export.export(model, (x,)).module(),
    "native": lambda model, x: torch.export.export(model, (x,)).run_decompositions({}).module(),
    "core": lambda model, x: torch.export.export(model, (x,)).run_decompositions().module(),
}


def norms_left(module: fx.GraphModule) -> list[str]:
    return [
        node.name
        for node in module.graph.nodes
        if "batch_norm" in str(node.target)
        or (node.op == "call_module" and isinstance(module.get_submodule(node.target), nn.modules.batchnorm._BatchNorm))
    ]


def fold(module: fx.GraphModule, *inputs: torch.Tensor) -> PassResult:
    """Run the pass. It must shrink the graph, do the same, leave what is there alone, and find nothing again."""
    original = clone_graph_module(module)
    size, frozen = len(module.graph.nodes), state(module)
    with warnings.catch_warnings(action="error"):
        result = run_pass(NAME, module)
    assert len(module.graph.nodes) < size if result.changed else len(module.graph.nodes) == size
    assert frozen.items() <= state(module).items()
    assert not run_pass(NAME, module).changed
    assert check_equivalence(original, module, inputs, tolerance=SINGLE, gradients="inputs")
    return result


def state(module: nn.Module) -> dict[str, Any]:
    return {name: bits(tensor) for name, tensor in module.state_dict().items()}


def error_bound(layer: Any, norm: Any, x: torch.Tensor) -> torch.Tensor:
    """The bound of the pass's docstring, for each output."""
    size = copy.deepcopy(layer).double()
    with torch.no_grad():
        for parameter in size.parameters():
            parameter.abs_()
    products = layer.weight.numel() // norm.num_features
    ones = [1] * (x.dim() - 2)
    scale = torch.rsqrt(norm.running_var.double() + norm.eps) * (norm.weight.double().abs() if norm.affine else 1)
    shift = norm.bias.double().abs() if norm.affine else torch.zeros_like(scale)
    amount = size(x.double().abs()) + norm.running_mean.double().abs().view(-1, *ones)
    bound = scale.view(-1, *ones) * amount + shift.view(-1, *ones)
    return (products + 8) * torch.finfo(layer.weight.dtype).eps / 2 * bound.detach()


def assert_close(model: Parallel, module: fx.GraphModule, x: torch.Tensor, results: list[torch.Tensor]) -> None:
    exact = copy.deepcopy(model).double()(x.double())
    for layer, norm, result, before, wanted in zip(model.layers, model.norms, results, model(x), exact, strict=True):
        assert result.shape == wanted.shape
        assert result.stride() == before.stride()
        assert result.requires_grad == before.requires_grad
        assert bool(((result - wanted).abs() <= error_bound(layer, norm, x)).all())
        assert float((result - before).detach().abs().max()) <= SINGLE.relative * float(before.detach().abs().max())


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("transposed", [False, True], ids=["plain", "transposed"])
@pytest.mark.parametrize("dimensions", [1, 2, 3])
@pytest.mark.parametrize("level", LEVELS)
def test_a_convolution_takes_in_the_normalisation_behind_it(
    level: str, dimensions: int, transposed: bool, groups: int
) -> None:
    torch.manual_seed(dimensions)
    convolution = CONVOLUTIONS[dimensions, transposed]
    pairs = [
        (
            convolution(4, 6, 3, stride=stride, groups=groups, bias=bias, dilation=dilation),
            NORMS[dimensions](6, affine=affine, eps=eps),
        )
        for bias, dilation, affine, stride, eps in product((False, True), (1, 2), (False, True), (1,), (1e-5,))
    ]
    pairs.append((convolution(4, 6, 2, stride=2, groups=groups), NORMS[dimensions](6, eps=0.1)))
    model = lived(Parallel(pairs))
    x = torch.randn(2, 4, *(7, 6, 5)[:dimensions])
    frozen = state(model)
    module = LEVELS[level](model, x)
    result = fold(module, x)
    assert len(result.rewrites) == len(pairs)
    assert result.refusals == []
    assert norms_left(module) == []
    assert_close(model, module, x, module(x))
    assert state(model) == frozen


@pytest.mark.parametrize("level", LEVELS)
def test_a_linear_layer_on_two_dimensions_takes_it_in(level: str) -> None:
    torch.manual_seed(0)
    pairs: list[Any] = [
        (nn.Linear(5, 4, bias=bias), nn.BatchNorm1d(4, affine=affine))
        for bias, affine in product((False, True), (False, True))
    ]
    model, x = lived(Parallel(pairs)), torch.randn(3, 5)
    module = LEVELS[level](model, x)
    result = fold(module, x)
    assert len(result.rewrites) == len(pairs)
    assert norms_left(module) == []
    assert_close(model, module, x, module(x))


X = torch.randn(2, 3, 6, 6, generator=torch.Generator().manual_seed(5))


def pair(**options: Any) -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(nn.Conv2d(3, 4, 3, **options), nn.BatchNorm2d(4))


class Residual(nn.Module):
    """A block of a residual network, with a projection beside it and a classifier that normalises."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.conv2, self.bn2 = nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.conv3, self.bn3 = nn.Conv2d(3, 8, 1, bias=False), nn.BatchNorm2d(8)
        self.linear, self.bn4 = nn.Linear(8, 4, bias=False), nn.BatchNorm1d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return self.bn4(self.linear(torch.relu(inner + self.bn3(self.conv3(x))).mean((2, 3))))


@pytest.mark.parametrize("level", ["modules", "export", "native", "core"])
def test_a_residual_block_is_folded_completely(level: str) -> None:
    torch.manual_seed(0)
    model = lived(Residual())
    module = LEVELS[level](model, X)
    result = fold(module, X)
    assert (len(result.rewrites), result.refusals, norms_left(module)) == (4, [], [])


class Chained(nn.Module):
    """Two normalisations behind one layer."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.first, self.second = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.BatchNorm2d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(self.conv(x)))


@pytest.mark.parametrize("level", ["modules", "export", "native"])
def test_normalisations_in_sequence_become_one_layer(level: str) -> None:
    model = lived(Chained())
    module = LEVELS[level](model, X)
    assert len(fold(module, X).rewrites) == 1
    assert norms_left(module) == []


class Shared(nn.Module):
    """One convolution behind two normalisations, and once by itself; another tied to it; one pair used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.tied = nn.Conv2d(3, 4, 3), nn.Conv2d(3, 4, 3, bias=False)
        self.tied.weight = self.conv.weight
        self.norms = nn.ModuleList(nn.BatchNorm2d(4) for _ in range(3))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        one, two, three = self.norms
        return [self.conv(x), one(self.conv(x)), two(self.conv(y)), three(self.tied(x)), one(self.conv(y))]


@pytest.mark.parametrize("level", ["modules", "export"])
def test_shared_and_tied_weights_are_cloned_and_what_is_folded_alike_is_shared(level: str) -> None:
    torch.manual_seed(0)
    model, y = lived(Shared()), torch.randn(2, 3, 6, 6)
    module = fx.symbolic_trace(model) if level == "modules" else torch.export.export(model, (X, y)).module()
    result = fold(module, X, y)
    assert (len(result.rewrites), norms_left(module)) == (4, [])
    assert result.statistics["bytes added"] == 3 * (4 * 3 * 9 + 4) * 4


def test_strides_of_channels_last_weights_stay() -> None:
    model = lived(pair()).to(memory_format=torch.channels_last)
    x = X.to(memory_format=torch.channels_last)
    module = shaped(model, x)
    fold(module, x)
    assert next(module.get_submodule("_folded__0").parameters()).stride() == model[0].weight.stride()
    assert module(x).stride() == model(x).stride()


@pytest.mark.parametrize("frozen", [False, True])
def test_results_are_part_of_autograd_as_before(frozen: bool) -> None:
    model = lived(pair()).requires_grad_(not frozen)
    module = shaped(model, X)
    fold(module, X)
    assert module(X).requires_grad is not frozen
    # What is loaded would not reach the folded weights; that is said, not passed over.
    with pytest.raises(RuntimeError, match=r"Missing key.*_folded__0"):
        module.load_state_dict(model.state_dict())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_dtypes_have_a_tolerance_of_their_own(dtype: torch.dtype) -> None:
    model, x = lived(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))).to(dtype), X.to(dtype)
    module, folding = shaped(model, x), make_pass(NAME)
    editor = GraphEditor(module)
    assert folding.run(editor).changed
    editor.finish()
    assert folding.tolerance == HALF.get(dtype, SINGLE)
    assert module(x).dtype == dtype
    assert check_equivalence(model, module, (x,), tolerance=folding.tolerance, gradients="none", adversarial=False)
    assert make_pass(NAME).tolerance == SINGLE


def test_a_denied_rewrite_is_not_made_and_the_others_are() -> None:
    module = fx.symbolic_trace(lived(Shared()))
    original = clone_graph_module(module)
    editor = GraphEditor(module)
    result = make_pass(NAME).run(editor, denied=[f"{NAME}@norms_0"])
    editor.finish()
    assert len(result.rewrites) == 3
    assert norms_left(module) == ["norms_0"]
    assert check_equivalence(original, module, (X, X), tolerance=SINGLE, gradients="inputs")


def test_the_new_node_knows_where_it_comes_from_and_what_it_gives() -> None:
    module = torch.export.export(lived(pair()), (X,)).module()
    old = next(node for node in module.graph.nodes if "batch_norm" in node.name)
    trace = old.all_input_nodes[0].meta["stack_trace"]
    rewrite = fold(module, X).rewrites[0]
    new = module.graph.find_nodes(op="call_function", target=aten.conv2d.default)[0]
    assert new.meta["val"].shape == old.meta["val"].shape
    assert new.meta["stack_trace"] == trace
    assert rewrite.node == old.name
    assert "1e-05" in rewrite.exactness
    assert new.args[2].target in dict(module.named_parameters())


def test_a_graph_without_normalisation_is_left_alone() -> None:
    assert not run_pass(NAME, fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))).changed
