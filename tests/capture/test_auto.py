import random
from dataclasses import replace
from queue import SimpleQueue

import pytest
import torch
from capture_models import Counting
from torch import fx, nn
from torch.multiprocessing.reductions import StorageWeakRef

from fxopt_core.capture import CapturedGraph, CaptureError, agreement, auto, capture, capture_methods, extensions
from fxopt_core.capture.running import Replay, Runner
from fxopt_workbench.capture_extension import EXTENSION
from fxopt_workbench.capturing.symbolic import capture_with_symbolic_trace

EXAMPLE = (torch.linspace(-1, 1, 12).reshape(3, 4),)


def test_the_most_faithful_way_that_agrees_is_taken_and_its_trials_are_told():
    captured = capture(nn.Linear(4, 2), EXAMPLE, "auto")
    assert (captured.method, captured.level, len(captured.partitions)) == ("export", "aten", 1)
    (attempt,) = captured.attempts
    assert (attempt.strategy, attempt.failure) == ("export", "")
    assert [one.on for one in captured.agreements] == ["the example", "new values", "mirrored values"]
    assert all(one.agrees and one.difference <= 1e-6 for one in captured.agreements)
    assert (captured.specialised, captured.adaptations) == ((), ())


class Watched(nn.Module):
    """Shows whether what it computes inside is still held, which gradients need."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        hidden = self.layer(x).exp()
        INSIDE.put(StorageWeakRef(hidden.untyped_storage()))
        return {"out": hidden * 2}


INSIDE: SimpleQueue = SimpleQueue()
"""What a queue keeps to itself is not put back after a call."""


def test_the_models_own_results_are_kept_without_what_was_computed_inside():
    trials = list(agreement.references(Watched(), EXAMPLE, {}, [("other values", (EXAMPLE[0] + 1,), {})]))
    assert [one.on for one in trials] == ["the example", "other values"]
    inside = [INSIDE.get() for _ in range(INSIDE.qsize())]
    assert len(inside) == 6  # the example four times in a row, the others, and the example after them
    assert all(one.expired() for one in inside)
    assert trials[0].outputs.keys() == {"out"}


@torch.library.custom_op("fxopt_test_auto::unwritten", mutates_args=())
def unwritten(x: torch.Tensor) -> torch.Tensor:
    """Like an operator that leaves memory as it found it where it is given what it was not made for."""
    return x * random.SystemRandom().random() if x.mean() > 3 else x * 2


@unwritten.register_fake
def _(x):
    return torch.empty_like(x)


class Unwritten(nn.Module):
    def forward(self, x):
        return unwritten(x)


def test_inputs_on_which_the_model_disagrees_with_itself_are_no_trial():
    example = (torch.tensor([5.0, *[1.0] * 11]),)
    captured = capture(Unwritten(), example, "auto")
    assert captured.method == "export"
    assert [one.on for one in captured.agreements] == ["the example", "new values"]
    assert captured.specialised == ()
    for method in ("export", "symbolic_trace"):
        captured = capture(Unwritten(), example, method)
        assert all(one.agrees for one in captured.agreements)
        assert "mirrored values" not in [one.on for one in captured.agreements]
    # Of the example it is said, since nothing holds without it.
    with pytest.raises(CaptureError, match=r"the example(, called again)?: DIFFERS"):
        capture(Unwritten(), (6 - example[0],), "auto")


def test_the_model_is_called_no_more_often_where_the_graph_agrees(monkeypatch):
    asked = []
    known = agreement.Reference.repeats.func
    monkeypatch.setattr(agreement.Reference, "repeats", property(lambda self: asked.append(self.on) or known(self)))
    capture(nn.Linear(4, 2), EXAMPLE, "auto")
    assert asked == []
    # A graph that is wrong where the model does agree with itself is wrong.
    captured = capture(Whole(), (torch.linspace(-1, 2, 12),), "jit.trace")
    assert asked
    assert [one.on for one in captured.agreements if not one.agrees] == asked


class Whole(nn.Module):
    def forward(self, x):
        return x + int(x.max())


def test_a_branch_on_data_leaves_partitions_and_every_attempt_with_its_reason():
    class Branch(nn.Module):
        def forward(self, x):
            return x + 1 if x.sum() > 5 else x - 1

    captured = capture(Branch(), (torch.linspace(-1, 2, 12),), "auto")
    assert [one.strategy for one in captured.attempts] == [
        "export",
        "export, real values",
        "dynamo, fullgraph",
        "recorder",
        "dynamo, partitions",
    ]
    assert all(one.failure for one in captured.attempts[:4])
    assert len(captured.graphs) == 2
    assert captured.run(torch.ones(12)).tolist() == [2.0] * 12
    with pytest.raises(CaptureError, match="another graph"):
        captured.run(-torch.ones(12))


class Branch(nn.Module):
    def forward(self, x):
        return x + 1 if x.sum() > -0.1 else x - 1


class Repeats(nn.Module):
    def forward(self, x, times):
        for _ in range(int(times)):
            x = x * 2
        return x


@pytest.mark.parametrize(
    ("model", "inputs", "other"),
    [
        (Branch(), (torch.linspace(-1, 2, 12),), (-torch.ones(12),)),
        (Repeats(), (torch.ones(4), torch.tensor(3)), (torch.ones(4), torch.tensor(2))),
    ],
)
def test_what_python_reads_from_values_becomes_a_guard_that_refuses(model, inputs, other):
    captured = capture(model, inputs, "auto")
    assert captured.attempts[-1].strategy == "export, real values"
    assert len(captured.graphs) == 1
    assert any(guard.kind == "VALUE" for guard in captured.guards)
    torch.testing.assert_close(captured.run(*inputs), model(*inputs), rtol=0, atol=0)
    with pytest.raises(AssertionError, match="the value that the model reads from"):
        captured.run(*other)


class Length(nn.Module):
    """Python's `len` of a tensor, which only a number satisfies."""

    def forward(self, x):
        return x.reshape(len(x), -1) * len(x)


class Root(nn.Module):
    """Takes any square image, but its Python arithmetic with the size is more than torch.export reasons about."""

    def forward(self, x):
        if x.shape[2] % 0.5 != 0:
            raise ValueError("not this size")
        return x.flatten(1).cumsum(1)


@pytest.mark.parametrize(
    ("model", "inputs", "strategy"),
    [(Length(), (torch.rand(3, 4, 2),), "export"), (Root(), (torch.rand(3, 4, 6, 6),), "")],
)
def test_all_sizes_vary_as_far_as_the_model_lets_them(model, inputs, strategy):
    captured = capture(model, inputs, "auto", dynamic=True)
    assert captured.attempts[-1].strategy == (strategy or "export, batch and length"), captured.attempts
    for size in (2, 5):
        other = torch.rand(size, *inputs[0].shape[1:])
        torch.testing.assert_close(captured.run(other), model(other), rtol=0, atol=0)


def test_sizes_that_a_graph_refuses_are_found_and_told():
    class Recurrent(nn.Module):
        def forward(self, x):
            state = x[:, 0]
            for step in x.unbind(1):
                state = (state + step).tanh()
            return state

    captured = capture(Recurrent(), (torch.rand(3, 4),), "auto", dynamic=True)
    assert captured.specialised == ("other sizes: dimension 1 of x = 5",)
    assert captured.run(torch.ones(7, 4)).shape == (7,)
    with pytest.raises(AssertionError, match="the sizes of the inputs"):
        captured.run(torch.ones(3, 5))


def test_a_model_that_does_not_run_is_told_from_one_that_cannot_be_captured():
    with pytest.raises(CaptureError, match="the model itself fails on these example inputs"):
        capture(nn.Linear(4, 2), (torch.ones(3, 5),), "auto")


def record(model, args, kwargs, dynamic):
    """A strategy that remembers the example's results: right on nothing else."""
    remembered = model(*args, **kwargs)
    captured = capture_with_symbolic_trace(model, args, kwargs, dynamic)
    return replace(captured, runner=Runner(lambda *_: remembered))


def refuse_all(model, args, kwargs, dynamic):
    def refuse(*_):
        raise ValueError("not these")

    return replace(capture_with_symbolic_trace(model, args, kwargs, dynamic), runner=Runner(refuse))


def test_a_strategy_that_is_wrong_on_new_values_is_not_taken(monkeypatch):
    monkeypatch.setattr(auto, "STRATEGIES", {"remembering": record, "refusing": refuse_all})
    monkeypatch.setattr(auto, "extensions", tuple)
    captured = capture(nn.Linear(4, 2), EXAMPLE, "auto")
    remembering, refusing, taken = captured.attempts
    assert remembering.agreements[0].agrees
    assert remembering.failure.startswith("new values: DIFFERS")
    assert "refused (ValueError" in refusing.failure
    assert taken.strategy == "dynamo, partitions"


def test_when_nothing_agrees_the_error_tells_every_attempt(monkeypatch):
    monkeypatch.setattr(auto, "STRATEGIES", {"remembering": record})
    monkeypatch.setattr(auto, "extensions", tuple)
    monkeypatch.setattr(auto, "capture_with_dynamo", record)
    with pytest.raises(CaptureError, match=r"remembering: new values: DIFFERS.*partitions: new values: DIFFERS"):
        capture(nn.Linear(4, 2), EXAMPLE, "auto")


def test_a_count_fixed_to_the_examples_makes_a_specialised_graph():
    class Steps(nn.Module):
        def forward(self, x, steps):
            for _ in range(int(steps.item())):
                x = torch.relu(x)
            return x

    captured = capture(Steps(), (torch.randn(3), torch.tensor(2)), "auto")
    assert len(captured.graphs) == 1
    assert captured.specialised == ("other whole numbers",)
    assert any("refuses other whole numbers" in caveat for caveat in captured.caveats)


@pytest.mark.parametrize("method", ["auto", "export", "symbolic_trace", "jit.trace"])
def test_what_the_graph_does_not_write_is_named_and_what_it_writes_is_not(method):
    class Writes(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(()))
            self.calls = 0

        def forward(self, x):
            self.total += 1
            self.calls += 1
            return x + self.total

    captured = capture(Writes(), EXAMPLE, method)
    (told,) = [caveat for caveat in captured.caveats if "a call of the graph does not" in caveat]
    assert "self.calls" in told
    # Every trial began with the model's own state, and so does the first call.
    assert torch.equal(captured.run(EXAMPLE[0]), EXAMPLE[0] + 1)
    # symbolic_trace adds to a buffer while it traces, and never again.
    writes = method != "symbolic_trace"
    assert ("self.total" in told) is not writes
    assert torch.equal(captured.run(EXAMPLE[0]), EXAMPLE[0] + (2 if writes else 1))


def test_what_dynamo_leaves_to_python_is_named():
    captured = capture(Counting().train(), (torch.ones(3, 4),), "dynamo")
    (told,) = [caveat for caveat in captured.caveats if "Python does" in caveat]
    assert "self.history" in told
    assert "running_mean" not in told


def test_graphs_from_dynamo_run_from_the_state_that_the_model_has():
    model = nn.BatchNorm1d(4).train()
    captured = capture(model, EXAMPLE, "dynamo")
    captured.run(*EXAMPLE)
    assert captured.runner.module.num_batches_tracked.item() == 1
    assert model.num_batches_tracked.item() == 0


def test_random_draws_agree():
    assert all(one.agrees for one in capture(nn.Dropout(0.5).train(), EXAMPLE, "auto").agreements)


def test_a_draw_that_became_a_constant_is_noticed():
    class Draws(nn.Module):
        def forward(self, x):
            return x * random.random()

    told = capture(Draws(), EXAMPLE, "export").caveats
    assert any("On new values the graph is wrong" in caveat for caveat in told)
    captured = capture(Draws(), EXAMPLE, "auto")
    assert "DIFFERS" in captured.attempts[0].failure
    # What remains is Dynamo's, which guards the number that was drawn.
    assert captured.specialised == ("the example, called again", "new values", "mirrored values")
    assert all(one.agrees or one.refusal for one in captured.agreements)


def test_what_python_writes_around_dynamos_graphs_counts_as_written():
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.calls = 0

        def forward(self, x):
            self.calls += 1
            return x + 1 if x.sum() > 5 else x - 1

    captured = capture(Counts(), (torch.linspace(-1, 2, 12),), "auto")
    assert captured.method == "dynamo"
    assert not any("a call of the graph does not" in caveat for caveat in captured.caveats)
    assert any("self.calls: Python does" in caveat for caveat in captured.caveats)


def test_a_run_in_which_no_captured_graph_ran_is_refused():
    captured = capture(nn.Linear(4, 2), EXAMPLE, "dynamo")
    with torch.compiler.set_stance("force_eager"), pytest.raises(CaptureError, match="no captured graph ran"):
        captured.run(*EXAMPLE)
    assert captured.run(*EXAMPLE).shape == (3, 2)


def test_a_graph_of_the_same_text_with_another_constant_is_another_graph():
    def build(value):
        module = nn.Module()
        module.register_buffer("constant", torch.tensor(value))
        graph = fx.Graph()
        graph.output(graph.get_attr("constant"))
        return fx.GraphModule(module, graph)

    replay = Replay((CapturedGraph(build(1.0), ()),), "dynamo")
    assert replay(build(1.0), [])().item() == 1.0
    with pytest.raises(CaptureError, match="another graph"):
        replay(build(2.0), [])


def test_what_other_packages_add_is_loaded_once_and_must_be_an_extension(monkeypatch):
    class EntryPoint:
        name, value = "odd", "odd:odd"

        def load(self):
            random.random()
            return "no extension"

    assert EXTENSION in extensions.extensions()
    monkeypatch.setattr(extensions, "entry_points", lambda group: [EntryPoint()])
    extensions.extensions.cache_clear()
    before = random.getstate()
    try:
        with pytest.raises(TypeError, match=r"'odd' of fxopt\.capture_strategies loads 'no extension'; expected an"):
            extensions.extensions()
        # Importing rich draws numbers, for one: the caller's generators are none of theirs.
        assert random.getstate() == before
    finally:
        extensions.extensions.cache_clear()


def test_a_method_of_another_package_is_found_by_its_name():
    assert capture_methods()["jit.trace"] is EXTENSION.methods["jit.trace"]
    assert {"auto", "dynamo", "export"} <= set(capture_methods())
