"""Less memory in training, within a budget, and the same gradients."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import nn
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.backends.debugging import boxed_nop
from torch._dynamo.exc import BackendCompilerFailed
from torch._functorch import config
from torch._functorch.partitioners import min_cut_rematerialization_partition

from fxopt_core.costs import record_allocations
from fxopt_core.passes import disabled
from fxopt_core.passes.recomputation import (
    BudgetError,
    JointPoint,
    RecomputationPlanner,
    recomputation_backend,
    recompute,
    recompute_segments,
)
from fxopt_core.passes.recomputation.joint_graph import a_draw_comes_once
from fxopt_core.passes.recomputation.ladder import Prediction, ladder
from fxopt_core.passes.recomputation.segments import Segment, survey
from fxopt_core.passes.recomputation.training_step import TrainingStep


def total(output: torch.Tensor) -> torch.Tensor:
    return output.square().sum()


class Block(nn.Module):
    """A residual block with dropout, whose attention-like part keeps more than its result."""

    def __init__(self, width: int = 16, wide: int = 64) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.body = nn.Sequential(nn.Linear(width, wide), nn.GELU(), nn.Dropout(0.3), nn.Linear(wide, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = x + self.body(self.norm(x))
        return result


def blocks(count: int = 5, **sizes: int) -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(*[Block(**sizes) for _ in range(count)], nn.Linear(sizes.get("width", 16), 3))


def inputs(rows: int = 128, width: int = 16) -> tuple[torch.Tensor]:
    return (torch.randn(rows, width, generator=torch.Generator().manual_seed(5)),)


def gradients(model: nn.Module, args: tuple[Any, ...], loss: Callable[..., torch.Tensor] = total) -> list[torch.Tensor]:
    """The gradients of one step from a fixed seed, then what the model's state has become, then the next number."""
    torch.manual_seed(7)
    model.zero_grad()
    loss(model(*args)).backward()
    found = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
    return [*found, *[buffer.clone() for buffer in model.buffers()], torch.rand(())]


def peak(model: nn.Module, args: tuple[Any, ...], loss: Callable[..., torch.Tensor] = total) -> int:
    """Measured apart from the code under test: live bytes less the gradients at the end."""
    model.zero_grad()
    loss(model(*args)).backward()
    model.zero_grad()
    _, record = record_allocations(lambda: loss(model(*args)).backward())
    return record.peak_bytes(without=[p.grad for p in model.parameters() if p.grad is not None])


@pytest.fixture(scope="module")
def planner() -> RecomputationPlanner:
    return RecomputationPlanner(blocks(), inputs(), loss=total)


def test_the_measured_peak_is_within_the_budget_and_falls_with_it(planner: RecomputationPlanner) -> None:
    peaks = []
    for budget in (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, planner.minimum_budget):
        result = planner.choose(budget)
        peaks.append(peak(result.module, inputs()))
        assert peaks[-1] == result.point.measured_bytes
        assert peaks[-1] <= budget * result.baseline_bytes
    assert peaks == sorted(peaks, reverse=True)
    assert peaks[0] == peak(blocks(), inputs())
    assert planner.minimum_budget < 0.5


def test_gradients_random_numbers_and_state_are_the_same_bit_for_bit(planner: RecomputationPlanner) -> None:
    expected = gradients(blocks(), inputs())
    for point in planner.curve:
        found = gradients(planner.choose(point.budget).module, inputs())
        assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    assert planner.exact


def test_the_curve_has_no_point_that_another_beats(planner: RecomputationPlanner) -> None:
    curve = planner.curve
    assert curve[0].segments == ()
    assert curve[0].budget == 1
    assert len(curve) >= 5
    for above, below in pairwise(curve):
        assert below.measured_bytes < above.measured_bytes
        assert set(below.segments) > set(above.segments)
        assert below.budget == below.measured_bytes / planner.baseline_bytes
    for point in curve:
        assert point.seconds > 0
        assert point.predicted_bytes == pytest.approx(point.measured_bytes, rel=0.1)


def test_a_budget_below_the_minimum_is_refused_with_it(planner: RecomputationPlanner) -> None:
    least = planner.minimum_budget
    with pytest.raises(BudgetError, match=f"least that can be reached is {least:.4f}") as caught:
        planner.choose(least * 0.999)
    assert caught.value.minimum == least
    assert planner.choose(least).point is planner.curve[-1]


@pytest.mark.parametrize("budget", [0, -0.5, 1.0001, float("nan"), float("inf"), True, "0.5", None])
def test_a_budget_out_of_range_is_refused(budget: Any) -> None:
    with pytest.raises(BudgetError, match="above 0 and at most 1"):
        recompute(blocks(1), inputs(), budget, loss=total)


def test_the_callers_state_stays() -> None:
    model, args = blocks(), inputs()
    total(model(*args)).backward()
    optimizer = torch.optim.Adam(model.parameters())
    optimizer.step()
    before = copy.deepcopy((model.state_dict(), optimizer.state_dict(), args))
    kept = [(p, p.grad, p.grad.clone()) for p in model.parameters() if p.grad is not None]
    torch.manual_seed(11)
    expected = torch.rand(())
    torch.manual_seed(11)
    result = recompute(model, args, 1.0, loss=total, optimizer=optimizer)
    assert torch.equal(torch.rand(()), expected)
    after = (model.state_dict(), optimizer.state_dict(), args)
    torch.testing.assert_close(after, before, rtol=0, atol=0)
    assert all(p.grad is gradient and torch.equal(gradient, values) for p, gradient, values in kept)
    assert type(model) is nn.Sequential
    assert type(model[0]) is Block
    ours = {parameter.data_ptr() for parameter in result.module.parameters()}
    assert not ours & {parameter.data_ptr() for parameter in model.parameters()}


def test_an_optimisers_state_does_not_count_and_its_passing_memory_does() -> None:
    model, args = blocks(2, width=32, wide=512), inputs(4, 32)
    plain = RecomputationPlanner(model, args, loss=total)
    adam = RecomputationPlanner(model, args, loss=total, optimizer=torch.optim.Adam(model.parameters(), foreach=True))
    sgd = RecomputationPlanner(model, args, loss=total, optimizer=torch.optim.SGD(model.parameters(), foreach=False))
    size = sum(parameter.numel() * 4 for parameter in model.parameters())
    assert plain.baseline_bytes < size / 2
    assert sgd.baseline_bytes == plain.baseline_bytes
    assert size / 2 < adam.baseline_bytes < 2 * size, "temporaries of all parameters, without the two moments"


def test_the_module_is_used_like_the_model(planner: RecomputationPlanner) -> None:
    module = planner.choose(planner.minimum_budget).module
    assert isinstance(module[0], Block)
    assert module.state_dict().keys() == blocks().state_dict().keys()
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        other[0].body[0].weight.data.zero_()
        assert module[0].body[0].weight.any()
        assert peak(other, inputs()) == planner.curve[-1].measured_bytes
    with torch.no_grad():
        assert torch.equal(module.eval()(*inputs()), blocks().eval()(*inputs()))


def test_keyword_inputs_and_an_output_with_a_loss() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = blocks()

        def forward(self, *, x: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"loss": total(self.blocks(x))}

    result = recompute(Model(), {"x": inputs()[0]}, 0.6)
    assert result.point.measured_bytes <= 0.6 * result.baseline_bytes


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(*[self.layer(3 if i == 0 else 8) for i in range(4)])

    @staticmethod
    def layer(channels: int) -> nn.Sequential:
        return nn.Sequential(nn.Conv2d(channels, 8, 3, padding=1), nn.BatchNorm2d(8, momentum=None), nn.ReLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.layers(x)
        return result


def test_running_statistics_are_updated_once() -> None:
    torch.manual_seed(0)
    model, images = Convolutions(), (torch.randn(4, 3, 16, 16),)
    result = recompute(model, images, 0.8, loss=total)
    assert any("layers" in name for name in result.segments)
    expected = gradients(model, images)
    assert all(map(torch.equal, gradients(result.module, images), expected))
    assert int(result.module.layers[0][1].num_batches_tracked) == 1


class Counter(Block):
    """Counts its calls in a buffer, on which its result depends."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return super().forward(x) * self.calls


class Noted(Block):
    """Keeps a number of its own that torch does not see."""

    calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return super().forward(x * self.calls)


class Overwriting(nn.Module):
    """The input of its part is written before backward, which by itself does not need it."""

    class Part(Block):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x * 2)

    def __init__(self) -> None:
        super().__init__()
        self.part = self.Part()
        self.last = nn.Linear(16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + 0
        y = self.part(x)
        x.mul_(2)
        result: torch.Tensor = self.last(y)
        return result


class Cached(nn.Module):
    """Its parts append to a list that is passed around."""

    class Part(Block):
        def forward(self, x: torch.Tensor, cache: Any) -> torch.Tensor:
            cache.append(x)
            return super().forward(x * len(cache))

    class Cache(list[torch.Tensor]):
        """A type of its own, like the caches of keys and values in transformers."""

    def __init__(self) -> None:
        super().__init__()
        self.part = self.Part()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.part(x, self.Cache())
        return result


class Hooked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.part = Block()
        self.heard: list[int] = []
        self.part.norm.register_forward_hook(self.hear)

    def hear(self, *call: Any) -> None:
        HEARD.append(1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.part(x)
        return result


HEARD: list[int] = []

TRAPS: dict[str, tuple[Callable[[], nn.Module], str, str, str]] = {
    "buffer": (lambda: nn.Sequential(Counter(), nn.Linear(16, 3)), "0", "state stays", "changes calls"),
    "attribute": (lambda: nn.Sequential(Noted(), nn.Linear(16, 3)), "0", "state stays", "changes calls"),
    "input": (Overwriting, "part", "inputs stay", "input of it is written"),
    "cache": (Cached, "part", "arguments come again", "Cache"),
    "hook": (Hooked, "part", "hooks are heard once", "norm would be called twice"),
}
"""A model, its part that must not be recomputed, the check that says so, words of the reason."""


def segment_names(model: nn.Module) -> tuple[list[str], dict[str, str]]:
    found = survey(TrainingStep(model, inputs(), {}, total, None))
    return [segment.name for segment in found.segments], dict(found.refusals)


@pytest.mark.parametrize("trap", TRAPS)
def test_what_would_not_come_again_is_refused(trap: str) -> None:
    build, part, check, words = TRAPS[trap]
    names, refusals = segment_names(build())
    assert part not in names
    assert words in refusals[part]
    with disabled(f"recomputation: {check}"):
        names, _ = segment_names(build())
    assert part in names


@pytest.mark.parametrize("trap", TRAPS)
def test_each_refusal_is_needed(trap: str) -> None:
    """Recomputed all the same, the part gives other gradients or another state, or torch stops the step."""
    build, part, _, _ = TRAPS[trap]

    def outcome(names: list[str]) -> list[torch.Tensor]:
        torch.manual_seed(1)
        HEARD.clear()
        model = recompute_segments(build(), names)
        try:
            found = gradients(model, inputs())
        except RuntimeError as error:
            assert "modified by an inplace operation" in str(error)  # noqa: PT017  newer torch notices
            return [torch.tensor(torch.nan)]
        notes = [float(module.calls) for module in model.modules() if isinstance(module, Noted)]
        return [*found, torch.tensor([len(HEARD), *notes])]

    expected = outcome([])
    assert all(map(torch.equal, outcome([]), expected))
    assert not all(map(torch.equal, outcome([part]), expected))


def test_what_a_survey_cannot_see_is_found_by_running_it() -> None:
    calls = []

    class Sly(Block):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            calls.append(1)
            return super().forward(x * len(calls))

    class Same(nn.Module):
        """Begins anew in every step, so that steps are alike."""

        def __init__(self) -> None:
            super().__init__()
            self.parts = nn.ModuleList([Block(), Sly(), Block()])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            calls.clear()
            for part in self.parts:
                x = part(x)
            return x

    planner = RecomputationPlanner(Same(), inputs(), loss=total)
    assert planner.exact
    refused = dict(planner.refusals)
    assert "differs when it is recomputed" in refused["parts.1"]
    assert not any("parts.1" in point.segments for point in planner.curve)
    assert "parts.0" in planner.curve[-1].segments


def test_a_step_that_does_not_agree_with_itself_is_compared_with_a_tolerance() -> None:
    class Noisy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = blocks(2)
            self.noise = torch.Generator().manual_seed(0)

        def __deepcopy__(self, memo: Any) -> Any:
            twin = type(self)()
            twin.load_state_dict(self.state_dict())
            twin.noise = self.noise  # not copied: another draw in every trial
            return twin

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = self.blocks(x) + 1e-7 * torch.rand((), generator=self.noise)
            return result

    result = recompute(Noisy(), inputs(), 0.9, loss=total)
    assert not result.exact
    assert result.segments


@pytest.mark.parametrize(
    ("model", "args", "options", "words"),
    [
        (lambda x: x, inputs(), {}, "expected a torch.nn.Module"),
        (blocks(1), inputs()[0], {"loss": total}, r"Write \(tensor,\) instead"),
        (blocks(1), inputs(), {}, r"tensor of shape \(128, 3\); expected a scalar"),
        (blocks(1), inputs(), {"loss": lambda output: 3.0}, "the loss is float; expected a scalar"),
        (nn.ReLU(), inputs(), {"loss": total}, "no parameter of the model needs a gradient"),
    ],
)
def test_bad_input_is_named(model: Any, args: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises((TypeError, ValueError), match=words):
        recompute(model, args, 0.5, **options)


def test_a_loss_that_holds_the_model_is_refused_and_leaves_no_gradients() -> None:
    model = blocks(1)

    def loss(output: torch.Tensor) -> torch.Tensor:
        return total(output) + sum(parameter.square().sum() for parameter in model.parameters())

    with pytest.raises(ValueError, match="loss holds the model itself"):
        recompute(model, inputs(), 0.9, loss=loss)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_the_prediction_of_a_step_counted_by_hand() -> None:
    # Two parts of 10 bytes each, one within the first of 6, and at the end a loss of 5.
    live = [0, 6, 10, 20, 25, 20, 10, 4, 0]
    outer, inner, second = Segment("a", 9, 1, (2, 6)), Segment("a.b", 5, 1, (1, 7)), Segment("c", 9, 1, (3, 5))
    prediction = Prediction(live, [outer, inner, second])
    assert int(prediction.expected().max()) == 25
    assert prediction.choose(["a.b"]).predicted_bytes == 20
    assert prediction.choose(["a"]).predicted_bytes == 16, "within what is gone already, nothing more is saved"
    # Second is back at its backward; the first is still gone.
    assert prediction.choose(["c"]).predicted_bytes == 11
    assert prediction.choose([]).segments == ("a", "a.b", "c")


def test_blocks_that_bound_the_peak_alike_are_taken_together() -> None:
    # Three equal humps: one alone lowers nothing. The last part holds nothing at the peak.
    live = [0, *([1, 9, 1] * 3), 2, 0]
    humps = [Segment(f"h.{i}", 5, 1, (3 * i + 1, 3 * i + 3)) for i in range(3)]
    rungs = ladder(live, [*humps, Segment("last", 1, 1, (10, 11))], 8)
    assert [(rung.segments, rung.predicted_bytes) for rung in rungs] == [((), 9), (("h.0", "h.1", "h.2"), 4)]


def test_a_ladder_is_cut_to_its_length_and_keeps_both_ends() -> None:
    live = [0, *range(10, 110, 10), 0]
    parts = [Segment(f"p{i}", 10, 1 + i, (i, 11)) for i in range(1, 10)]
    whole = ladder(live, parts, 99)
    peaks = [rung.predicted_bytes for rung in whole]
    assert peaks == sorted(set(peaks), reverse=True)
    assert len(whole) > 4
    short = ladder(live, parts, 4)
    assert len(short) == 4
    assert (short[0], short[-1]) == (whole[0], whole[-1])
    assert set(short) <= set(whole)


def test_what_saves_most_for_its_cost_comes_first() -> None:
    live = [0, 50, 100, 50, 0]
    segments = [Segment("dear", 20, 10, (1, 3)), Segment("cheap", 15, 1, (1, 3))]
    assert [rung.segments for rung in ladder(live, segments, 9)] == [(), ("cheap",), ("dear", "cheap")]


def test_a_joint_graph_within_a_budget_has_the_gradients_of_eager_mode() -> None:
    """Torch's own partitioner draws dropout anew in backward at small budgets; ours never does."""
    model, args = blocks(4, width=32, wide=128), inputs(128, 32)
    expected, before = gradients(model, args), peak(model, args)
    seen: list[tuple[tuple[JointPoint, ...], JointPoint]] = []
    peaks = []
    for budget in (1.0, 0.8, 0.7):
        backend = recomputation_backend(budget, lambda curve, point: seen.append((curve, point)))
        torch._dynamo.reset()
        compiled = torch.compile(model, backend=backend, fullgraph=True)
        found = gradients(compiled, args)
        assert all(map(torch.equal, found[:-1], expected[:-1])), budget
        peaks.append(peak(compiled, args))
        point = seen[-1][1]
        assert point.predicted_bytes == pytest.approx(peaks[-1], rel=0.1)
        assert point.budget <= budget
        assert peaks[-1] <= budget * before
    assert peaks == sorted(peaks, reverse=True)
    assert peaks[-1] < peaks[0]
    for above, below in pairwise(seen[0][0]):
        assert below.predicted_bytes < above.predicted_bytes
        assert below.cost > above.cost
    assert seen[0][0] == seen[-1][0], "the curve does not depend on the budget"


def test_a_joint_graph_with_symbolic_sizes_is_cut_once_for_all_of_them() -> None:
    model, seen = blocks(2), []
    torch._dynamo.reset()
    backend = recomputation_backend(0.8, lambda curve, point: seen.append(point))
    compiled = torch.compile(model, backend=backend, fullgraph=True, dynamic=True)
    for batch in (6, 9):
        args = (torch.randn(batch, *inputs()[0].shape[1:]),)
        assert all(map(torch.equal, gradients(compiled, args)[:-1], gradients(model, args)[:-1])), batch
    assert len(seen) == 1, "the second size needed another graph"
    assert seen[0].predicted_bytes > 0


def test_a_joint_graph_refuses_what_it_cannot_reach() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(blocks(1), backend=recomputation_backend(0.01), fullgraph=True)
    with pytest.raises(BackendCompilerFailed, match=r"the least that can be reached in this joint graph is 0\.\d+"):
        compiled(*inputs())
    with pytest.raises(BudgetError, match="above 0 and at most 1"):
        recomputation_backend(1.5)


def test_a_draw_in_backward_is_refused() -> None:
    """With nothing saved at all, torch draws dropout anew, and the gradients are wrong."""
    x = torch.randn(2000, requires_grad=True)
    reasons: list[tuple[str | None, str | None]] = []

    def chain(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(x.sin(), 0.5).cos()

    def cut(joint: Any, inputs: Any, **options: Any) -> Any:
        with config.patch(activation_memory_budget=0.0):
            halves = min_cut_rematerialization_partition(joint, inputs, **options)
        with disabled("recomputation: a draw comes once"):
            unchecked = a_draw_comes_once(halves)
        reasons.append((a_draw_comes_once(halves), unchecked))
        return halves

    def gradient(function: Callable[..., torch.Tensor]) -> torch.Tensor:
        torch.manual_seed(0)
        return torch.autograd.grad(function(x).sum(), x)[0]

    torch._dynamo.reset()
    backend = aot_autograd(fw_compiler=boxed_nop, bw_compiler=boxed_nop, partition_fn=cut)
    assert not torch.allclose(gradient(torch.compile(chain, backend=backend)), gradient(chain))
    assert "anew" in (reasons[0][0] or "")
    assert reasons[0][1] is None
    torch._dynamo.reset()
    assert torch.equal(gradient(torch.compile(chain, backend=recomputation_backend(1.0))), gradient(chain))
