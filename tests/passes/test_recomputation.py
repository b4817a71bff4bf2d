"""Less memory in training, within a budget, and the same gradients."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import fx, nn
from torch._dynamo.exc import BackendCompilerFailed
from torch.nn import functional

from fxopt_core.costs import record_allocations
from fxopt_core.optimizer import GraphOptimizer, OptimizationResult
from fxopt_core.passes import disabled, run_pass
from fxopt_core.passes.recomputation import BudgetError, Recomputation, RecomputedRegion
from fxopt_core.passes.recomputation.hazards import Hazards

BUDGETS = (1.0, 0.8, 0.6, 0.45)


class Block(nn.Module):
    """A residual block with dropout."""

    def __init__(self, width: int = 16, wide: int = 64) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.body = nn.Sequential(nn.Linear(width, wide), nn.GELU(), nn.Dropout(0.3), nn.Linear(wide, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = x + self.body(self.norm(x))
        return result


def blocks(count: int = 4) -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(*[Block() for _ in range(count)], nn.Linear(16, 3))


def inputs(*shape: int) -> tuple[torch.Tensor]:
    return (torch.randn(shape or (128, 16), generator=torch.Generator().manual_seed(5)),)


def backward(output: Any, **options: bool) -> None:
    """From gradients that are one, of every result."""
    results = [value for value in torch.utils._pytree.tree_leaves(output) if value.requires_grad]
    torch.autograd.backward(results, [torch.ones(()).expand_as(value) for value in results], **options)


def step(model: Any, args: tuple[Any, ...], run: Callable[..., None] = backward) -> list[torch.Tensor]:
    """After one training step from a fixed seed: gradients, buffers and the next random number."""
    torch.manual_seed(7)
    model.zero_grad()
    run(model(*args))
    gradients = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
    return [*gradients, *[buffer.clone() for buffer in model.buffers()], torch.rand(())]


def same(found: list[torch.Tensor], expected: list[torch.Tensor]) -> bool:
    return len(found) == len(expected) and all(map(torch.equal, found, expected))


def peak(model: Any, args: tuple[Any, ...]) -> int:
    """Measured apart from the code under test: live bytes less the gradients at the end."""
    model.zero_grad()
    backward(model(*args))
    model.zero_grad()
    _, record = record_allocations(lambda: backward(model(*args)))
    return record.peak_bytes(without=[p.grad for p in model.parameters() if p.grad is not None])


def recomputed(model: Any, args: Any, budget: float = 0.6, **options: Any) -> OptimizationResult:
    return GraphOptimizer(model, args, **options).optimize(["recomputation"], memory_budget=budget)


def regions(module: Any) -> list[RecomputedRegion]:
    return [part for part in module.modules() if isinstance(part, RecomputedRegion)]


@pytest.fixture(scope="module")
def optimizer() -> GraphOptimizer:
    return GraphOptimizer(blocks(), inputs())


def test_the_measured_peak_is_within_the_budget_and_falls_with_it(optimizer: GraphOptimizer) -> None:
    whole, peaks = peak(blocks(), inputs()), []
    for budget in BUDGETS:
        module = optimizer.optimize("recomputation", memory_budget=budget).module
        peaks.append(peak(module, inputs()))
        assert peaks[-1] <= budget * whole
        assert bool(regions(module)) is (budget < 1)
        if budget < 1:
            predicted = module.meta["recomputation"]
            assert predicted.unchanged == pytest.approx(whole, rel=1e-3)
            assert predicted.planned == pytest.approx(peaks[-1], rel=0.03)
    assert peaks == sorted(peaks, reverse=True)


def test_gradients_random_numbers_and_state_are_the_same_bit_for_bit(optimizer: GraphOptimizer) -> None:
    expected = step(blocks(), inputs())
    for budget in BUDGETS:
        result = optimizer.optimize(["dead_code", "recomputation"], memory_budget=budget)
        assert same(step(result.module, inputs()), expected)
        assert not result.report.refused


def test_a_budget_below_the_least_is_refused_with_it(optimizer: GraphOptimizer) -> None:
    with pytest.raises(BudgetError, match=r"the least that can be reached in this graph is 0\.\d+") as caught:
        optimizer.optimize("recomputation", memory_budget=0.01)
    least = caught.value.minimum
    assert least is not None
    assert optimizer.optimize("recomputation", memory_budget=least).module.meta["recomputation"].planned


@pytest.mark.parametrize("budget", [0, -0.5, 1.0001, float("nan"), float("inf"), True, "0.5", None])
def test_a_budget_out_of_range_is_refused(optimizer: GraphOptimizer, budget: Any) -> None:
    with pytest.raises(BudgetError, match="above 0 and at most 1"):
        optimizer.optimize(["recomputation"], memory_budget=budget)


def test_an_option_that_no_pass_takes_is_refused(optimizer: GraphOptimizer) -> None:
    with pytest.raises(ValueError, match="none of the passes dead_code takes the option 'memory_budget'"):
        optimizer.optimize(["dead_code"], memory_budget=0.5)


def test_a_second_run_changes_nothing() -> None:
    module = captured(blocks(2), *inputs())
    assert run_pass("recomputation", module, memory_budget=0.7).changed
    code = module.code
    again = run_pass("recomputation", module, memory_budget=0.7)
    assert not again.changed
    assert not again.refusals
    assert module.code == code


def test_nothing_is_recomputed_where_nothing_is_saved() -> None:
    model = blocks(1).requires_grad_(requires_grad=False)
    result = recomputed(model, inputs())
    assert not regions(result.module)
    assert "nothing is saved for backward" in result.report.refusals[0][1].reason


def test_the_result_can_be_copied_and_its_regions_pickled() -> None:
    result = recomputed(blocks(), inputs()).module
    twin = copy.deepcopy(result)
    assert peak(twin, inputs()) == peak(result, inputs())
    assert same(step(twin, inputs()), step(result, inputs()))
    assert not {p.data_ptr() for p in twin.parameters()} & {p.data_ptr() for p in result.parameters()}
    assert result.state_dict().keys() == blocks().state_dict().keys()
    region = regions(result)[0]
    twin = pickle.loads(pickle.dumps(region))
    assert twin.written == region.written
    targets = [
        [node.target for node in one.body[0].graph.nodes if node.op == "call_function"] for one in (twin, region)
    ]
    assert targets[0] == targets[1]


def test_without_gradients_a_region_runs_as_it_is(optimizer: GraphOptimizer) -> None:
    module, model = optimizer.optimize("recomputation", memory_budget=0.6).module, blocks()
    torch.manual_seed(1)
    with torch.no_grad():
        found = module(*inputs())
    torch.manual_seed(1)
    assert torch.equal(found, model(*inputs()))


# What could go wrong when something runs a second time: each is right, or refused in words.


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        parts = [[nn.Conv2d(3 if i == 0 else 8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.GELU()] for i in range(4)]
        self.layers = nn.Sequential(*[layer for part in parts for layer in part])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.layers(x)
        return result


def test_running_statistics_are_updated_once() -> None:
    images = inputs(4, 3, 16, 16)
    module, model = recomputed(Convolutions(), images, 0.7).module, Convolutions()
    assert any(region.written for region in regions(module)), "no BatchNorm is in a region"
    for _ in range(2):
        assert same(step(module, images), step(model, images))
    assert int(module.get_buffer("layers.1.num_batches_tracked")) == 2


class Nested(nn.Module):
    """Several results in containers, one of which nobody uses within, views among them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = blocks(2)[:2], nn.Linear(8, 8)

    def forward(self, pair: tuple[torch.Tensor, dict[str, torch.Tensor]]) -> Any:
        x, more = pair
        left, right = self.first(x).chunk(2, dim=1)
        mixed = self.last(left.sigmoid()).sin().t()
        _, kept = torch.stack([left.exp(), right.tanh()]).unbind()
        return mixed, (kept.view(-1), {"right": right, "sum": (kept * more["scale"]).sum()})


def test_views_unused_results_and_nested_containers_stay() -> None:
    args = ((inputs()[0], {"scale": torch.tensor(2.0, requires_grad=True)}),)
    torch.manual_seed(2)
    model = Nested()
    result = recomputed(model, args, 0.7)
    assert regions(result.module)
    assert same(step(result.module, args), step(model, args))


@pytest.mark.parametrize("twice", ["the same results again", "a second gradient"])
def test_several_backward_passes(twice: str) -> None:
    model, args = blocks(), inputs()
    args[0].requires_grad_()
    module = recomputed(model, args, 0.5).module

    def again(output: torch.Tensor) -> None:
        backward(output, retain_graph=True)
        backward(output)

    def second(output: torch.Tensor) -> None:
        (gradient,) = torch.autograd.grad(output.square().sum(), args, create_graph=True)
        gradient.square().sum().backward()

    run = again if twice == "the same results again" else second
    assert same(step(module, args, run), step(model, args, run))


def test_forward_mode_and_transforms_work() -> None:
    model, args = blocks(2).eval(), inputs()
    module = recomputed(model, args, 0.7).module
    assert regions(module)
    for function in (lambda m: torch.func.jvp(m, args, args)[1], lambda m: torch.func.vjp(m, *args)[1](m(*args))[0]):
        torch.testing.assert_close(function(module), function(model))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_the_second_run_has_the_autocast_state_of_the_first(dtype: torch.dtype) -> None:
    model, args = blocks(), inputs()
    module = captured(copy.deepcopy(model), *args)
    assert run_pass("recomputation", module, memory_budget=0.6).changed

    def autocast(function: Any) -> list[torch.Tensor]:
        torch.manual_seed(7)
        function.zero_grad()
        with torch.autocast("cpu", dtype, enabled=dtype is not torch.float32):
            output = function(*args)
        backward(output)
        return [parameter.grad for parameter in function.parameters()]

    assert same(autocast(module), autocast(model))


def test_weights_that_change_before_backward_are_noticed() -> None:
    model, args = blocks(2).eval(), inputs()
    for module in (recomputed(model, args, 0.7).module, traced(model, *args, budget=0.7)):
        assert regions(module)
        output = module(*args)
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            backward(output)


class Reversed(torch.autograd.Function):
    """Turns gradients round."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return -gradient


def test_a_custom_gradient_stays() -> None:
    parts = blocks()

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = parts

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for part in self.parts[:3]:
                x = part(x)
            result: torch.Tensor = self.parts[3:](Reversed.apply(x))
            return result

    model = Model()
    seen: list[Any] = []
    module = compiled(model, 0.7, "eager", seen)
    assert same(step(module, inputs()), step(model, inputs()))
    assert regions(seen[0].graph_module)


# Graphs made so that one condition is what stands in the way.


def captured(model: nn.Module, *args: torch.Tensor) -> fx.GraphModule:
    return torch.export.export(model, args).module()


def traced(model: Any, *args: torch.Tensor, budget: float | None = None) -> fx.GraphModule:
    """A torch-level graph that knows its inputs."""
    module = fx.symbolic_trace(model)
    for node, value in zip(module.graph.find_nodes(op="placeholder"), args, strict=True):
        node.meta["val"] = value
    if budget is not None:
        run_pass("recomputation", module, memory_budget=budget)
    return module


CALLS: list[int] = []


@fx.wrap
def counted(x: torch.Tensor) -> torch.Tensor:
    CALLS.append(1)
    return (x * len(CALLS)).exp()


class Wide(nn.Module):
    """The parts of a model on both sides of what a test is about."""

    def __init__(self, middle: Callable[[torch.Tensor], torch.Tensor] | None = None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.before, self.after = nn.Linear(16, 16), nn.Linear(16, 16)
        self.middle = middle

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.before(x)
        result: torch.Tensor = self.after(self.act(x).sin()).sin()
        return result

    def act(self, x: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError


class Unknown(Wide):
    def act(self, x: torch.Tensor) -> torch.Tensor:
        return counted(x)


class Hooked(Wide):
    """A hook of the caller's on a part."""

    def __init__(self) -> None:
        super().__init__()
        self.part = nn.GELU()
        self.part.register_forward_hook(lambda *call: CALLS.append(1))

    def act(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.part(x.exp())
        return result


class Statistics(Wide):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(16)

    def act(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.norm(x).exp()
        return result


class Overwritten(Wide):
    """What a stretch reads is written after it."""

    def act(self, x: torch.Tensor) -> torch.Tensor:
        part = x * 2
        y = (part + 1).sin().cos()
        part.mul_(0)
        return y


HAZARDS: dict[str, tuple[Callable[[], nn.Module], str, str]] = {
    "unknown": (Unknown, "the unknown runs once", "must not run twice"),
    "hook": (Hooked, "the unknown runs once", "must not run twice"),
    "statistics": (Statistics, "a module's statistics are updated once", "would change them twice"),
    "overwritten": (Overwritten, "what is read stays", "written by a later node"),
}
"""A model, the check that speaks against a second run, and words of its reason."""


def outcomes(build: Callable[[], nn.Module]) -> Iterator[list[torch.Tensor]]:
    """What a step gives, and how often `CALLS` were made: unchanged, then with each legal stretch as a region."""
    module = traced(build(), *inputs())
    hazards = Hazards(module.graph)
    count = len(hazards.nodes)
    pairs = [(first, end) for first in range(count) for end in range(first + 1, count + 1)]
    for stretches in [[], *([pair] for pair in pairs if hazards.legal(*pair))]:
        fresh = traced(build(), *inputs())
        CALLS.clear()
        try:
            found = step(Recomputation()._trial(fresh, hazards, stretches), inputs())
        except RuntimeError as error:
            # Autograd notices some.
            assert "modified by an inplace operation" in str(error)  # noqa: PT017
            found = []
        yield [*found, torch.tensor(len(CALLS))]


@pytest.mark.parametrize("hazard", HAZARDS)
def test_what_would_not_come_again_is_left_alone(hazard: str) -> None:
    build, check, words = HAZARDS[hazard]
    result = run_pass("recomputation", traced(build(), *inputs()), memory_budget=0.9)
    assert any(words in refusal.reason for refusal in result.refusals)
    expected, *found = outcomes(build)
    assert len(found) > 3
    assert all(same(one, expected) for one in found)
    with disabled(f"recomputation: {check}"):
        assert not all(same(one, expected) for one in outcomes(build)), "the refusal was not needed"


def test_modes_and_generators_of_their_own_are_no_part_of_a_region() -> None:
    graph = fx.Graph()
    x, generator = graph.placeholder("x"), graph.get_attr("generator")
    nodes = [
        graph.call_function(torch.sin, (x,)),
        graph.call_function(torch._C._set_grad_enabled, (False,)),
        graph.call_function(torch.cos, (x,)),
        graph.call_function(torch.bernoulli, (x,), {"generator": generator}),
        graph.call_function(torch.bernoulli, (x,)),
    ]
    graph.output(tuple(nodes))
    owner = nn.Module()
    owner.generator = torch.Generator()
    hazards = Hazards(fx.GraphModule(owner, graph).graph)
    assert [bool(hazards.legal(number, number + 1)) for number in range(5)] == [True, False, True, False, True]
    assert hazards.legal(0, 3) is None
    for check in ("modes are switched once", "draws come again"):
        with disabled(f"recomputation: {check}"):
            assert sum(reason is None for reason in Hazards(graph).barriers) == 4


def test_a_region_whose_inputs_overlap_with_what_it_writes_runs_once() -> None:
    """Its second run would read through one what the first has written through the other."""

    def body(total: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        read = (x + y).exp()
        return read.sin(), total.add_(1)

    region = RecomputedRegion(fx.symbolic_trace(body), (0,), draws=False)
    for overlap in (False, True):
        memory, y = torch.ones(8), torch.ones(8, requires_grad=True)
        total, x = memory[:4], (memory if overlap else torch.ones(8))
        region(total, x, y)[0].sum().backward()
        assert torch.equal(total, torch.full((4,), 2.0))
        assert y.grad is not None
        square = torch.full((8,), torch.e**2)
        assert torch.allclose(y.grad, square * square.cos())


def test_sizes_that_are_not_known_are_refused() -> None:
    module = fx.symbolic_trace(blocks(1))
    (refusal,) = run_pass("recomputation", module).refusals
    assert "the size of the input input_1 is not known" in refusal.reason


# Within torch.compile.


def compiled(model: nn.Module, budget: float, then: str, seen: list[Any]) -> Any:
    torch._dynamo.reset()
    options = {"passes": ["recomputation"], "memory_budget": budget, "then": then, "report": seen.append}
    return torch.compile(model, backend="fxopt", options=options, fullgraph=True)


@pytest.mark.parametrize("then", ["eager", "aot_eager"])
def test_torch_compile_recomputes_too(then: str) -> None:
    model, args, seen = blocks(), inputs(), []
    whole = peak(model, args)
    module = compiled(model, 0.5, then, seen)
    assert same(step(module, args), step(model, args))
    assert regions(seen[0].graph_module)
    assert peak(module, args) <= (0.5 if then == "eager" else 0.6) * whole


@pytest.mark.parametrize(("budget", "words"), [(0.01, r"in this graph is 0\.\d+"), (1.5, "above 0 and at most 1")])
def test_a_budget_that_cannot_be_kept_stops_the_compilation(budget: float, words: str) -> None:
    with pytest.raises(BackendCompilerFailed, match=words):
        compiled(blocks(1), budget, "eager", [])(*inputs())


def test_inductor_draws_the_same_numbers_again() -> None:
    """What was dropped has another value and another gradient than what was not, so both show what was drawn."""
    x = torch.ones(4096, requires_grad=True)

    def chain(x: torch.Tensor) -> torch.Tensor:
        for _ in range(4):
            x = functional.dropout(x.sin(), 0.3).exp().cos().exp()
        return x

    seen: list[Any] = []
    torch._dynamo.reset()
    options = {"passes": ["recomputation"], "memory_budget": 0.8, "report": seen.append}
    result = torch.compile(chain, backend="fxopt", options=options)(x)
    (gradient,) = torch.autograd.grad(result.sum(), x)
    assert regions(seen[0].graph_module)
    values = {(round(a, 3), round(b, 3)) for a, b in zip(result.tolist(), gradient.tolist(), strict=True)}
    assert len({value for value, _ in values}) > 3
    assert len(values) == len({value for value, _ in values}), "one result, two gradients"


@pytest.mark.parametrize("swap", [lambda weight: weight * 0.5, torch.clone], ids=["other values", "the same values"])
def test_weights_that_get_other_memory_before_backward_are_told(swap: Callable[[torch.Tensor], torch.Tensor]) -> None:
    module = recomputed(blocks(), inputs()).module
    assert regions(module)
    result = module(*inputs())
    for weight in module.parameters():
        weight.data = swap(weight.data)
    with pytest.raises(RuntimeError, match=r"was given other memory \(by \.data = …\) between the forward and the"):
        backward(result)
    module.zero_grad()
    backward(module(*inputs()))  # and with the new ones it goes on
