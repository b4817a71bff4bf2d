"""The concrete recorder: right where its guards hold, loud where they do not."""

import gc
import random
import subprocess
import sys

import numpy
import pytest
import torch
from torch import fx, nn

from fxopt_core.capture import CaptureError, auto, capture
from fxopt_core.capture.dimensions import NOTHING_DYNAMIC
from fxopt_core.costs import analyze_graph
from fxopt_core.costs.counting import Counter
from fxopt_core.verification.isolation import private_copy
from fxopt_workbench.capturing import search
from fxopt_workbench.explorer import explore
from fxopt_workbench.recording import capture_with_recorder, recorder
from fxopt_workbench.standalone import save_standalone

X = torch.linspace(-1, 2, 12).reshape(3, 4)
MASK = torch.ones(3, dtype=torch.long)
OTHER = torch.tensor([1, 0, 1])


@pytest.fixture(autouse=True, scope="module")
def _every_tensor_is_seen():
    """The recorder looks for tensors that were there before; what was frozen between files of tests is not listed."""
    gc.unfreeze()


def record(model, *args, **kwargs):
    # A strategy owns what it is given.
    return capture_with_recorder(*private_copy(model, args, kwargs), NOTHING_DYNAMIC)


READS = {
    "bool": lambda x, mask: x + 1 if mask.all() else x - 1,
    "item": lambda x, mask: x * int(mask.sum().item()),
    "float": lambda x, mask: x * float(mask.float().mean()),
    "index": lambda x, mask: x[: mask.sum()] * 2,
    "tolist": lambda x, mask: x * torch.tensor(mask.tolist())[:, None],
    "numpy": lambda x, mask: x * torch.from_numpy(mask.numpy() + 1)[:, None],
    "array": lambda x, mask: x * float(numpy.asarray(mask).sum()),
    "equal": lambda x, mask: x + 1 if torch.equal(mask, torch.ones_like(mask)) else x - 1,
    "contains": lambda x, mask: x + 1 if 0 in mask else x - 1,
    "iteration": lambda x, mask: x * max(mask.cumsum(0)),
    "list of tensors": lambda x, mask: x * torch.tensor([mask[0], mask[1]]).sum(),
    "text": lambda x, mask: x * len(f"{mask}".replace("0", "")),
    "nonzero": lambda x, mask: x[mask.nonzero().squeeze(1)],
    "boolean index": lambda x, mask: x[mask.bool()],
    "repeat_interleave": lambda x, mask: x.repeat_interleave(mask, 0),
    "unique": lambda x, mask: x.sum() + torch.unique(mask),
    "tensor_split": lambda x, mask: torch.tensor_split(x, mask[:2].cumsum(0))[0],
}
"""Ways in which Python, or the size of a result, learns a value."""


@pytest.mark.parametrize("conditions", [torch.enable_grad, torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("read", READS)
def test_what_is_read_is_fixed_and_anything_else_is_refused(read, conditions):
    with conditions():
        captured = record(READS[read], X, MASK)
        torch.testing.assert_close(captured.run(X + 1, MASK), READS[read](X + 1, MASK), rtol=0, atol=0)
        with pytest.raises(AssertionError, match=r"this graph is for .*test_recorder\.py:\d+ in .*Capture again"):
            captured.run(X, OTHER)


class Counts(fx.Interpreter):
    """Runs a graph on real tensors and counts what each node costs."""

    def __init__(self, module):
        super().__init__(module)
        self.costs = {}

    def run_node(self, node):
        with Counter() as counter:
            value = super().run_node(node)
        self.costs[node.name] = counter.cost
        return value


@pytest.mark.parametrize("read", READS)
def test_the_costs_of_a_recorded_graph_are_those_of_a_real_run(read):
    graph_module = record(READS[read], X, MASK).graphs[0]
    counts = Counts(graph_module)
    counts.run(X, MASK)
    costs = {node.name: node.cost for node in analyze_graph(graph_module).nodes}
    assert costs == {name: counts.costs[name] for name in costs}
    assert {name for name, cost in counts.costs.items() if cost.bytes} <= costs.keys()
    explorer = explore(graph_module)
    assert explorer.costs.keys() == costs.keys()
    assert not any("No costs" in note for note in explorer.table.notes)


def test_a_size_that_depends_on_data_and_was_not_recorded_has_no_costs():
    (graph_module,) = capture(lambda x: x[x > 0] * 2, (X,), "export").graphs
    with pytest.raises(ValueError, match=r"the size of 'index' .*depends on data"):
        analyze_graph(graph_module)
    assert any("No costs: the size of 'index'" in note for note in explore(graph_module).table.notes)


def test_a_guard_says_what_was_read_where():
    captured = record(READS["bool"], X, MASK)
    (guard,) = [one for one in captured.guards if one.kind == "VALUE"]
    assert guard.expression.endswith("== True")
    assert "if mask.all()" in guard.source
    with pytest.raises(AssertionError, match=r"this graph is for True, .*if mask\.all\(\).*it is False now"):
        captured.run(X, OTHER)


def test_numbers_are_compared_to_the_last_bit_and_nan_is_itself():
    def scaled(x, factor):
        return x * factor.item()

    nan, zero = torch.tensor(float("nan")), torch.tensor(0.0)
    assert record(scaled, X, nan).run(X, nan).isnan().all()
    captured = record(scaled, X, zero)
    for other in (-zero, torch.tensor(1e-45), nan):
        with pytest.raises(AssertionError, match=r"this graph is for 0\.0"):
            captured.run(X, other)


class DropsFullMasks(nn.Module):
    """What transformers does with a mask that masks nothing."""

    def forward(self, x, attention_mask):
        if attention_mask.all():
            return x.softmax(-1)
        return x.masked_fill(attention_mask == 0, -1e9).softmax(-1)


def test_the_trap_of_the_padded_mask_is_a_refusal(monkeypatch):
    monkeypatch.setattr(search, "STRATEGIES", {})
    mask = torch.ones(3, 4, dtype=torch.long)
    captured = capture(DropsFullMasks(), {"x": X, "attention_mask": mask}, "auto")
    assert (captured.method, captured.specialised) == ("recorder", ("a padded mask",))
    assert torch.equal(captured.run(x=X + 1, attention_mask=mask), (X + 1).softmax(-1))
    mask[0, 3] = 0
    with pytest.raises(AssertionError, match=r"this graph is for True, .*if attention_mask\.all\(\)"):
        captured.run(x=X, attention_mask=mask)


def test_auto_takes_it_after_everything_else(monkeypatch):
    monkeypatch.setattr(search, "STRATEGIES", {"export": search.STRATEGIES["export"]})
    captured = capture(DropsFullMasks(), (X, torch.ones(3, 4, dtype=torch.long)), "auto")
    assert captured.attempts[-1].strategy == captured.method == "recorder"
    assert all(one.failure for one in captured.attempts)
    assert any("refuses a padded mask" in caveat for caveat in captured.caveats)


class GathersMarked(nn.Module):
    """As Longformer does: the tokens that a mask marks are gathered, so that sizes depend on how many there are."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(10, 4)

    def forward(self, tokens, marks_mask):
        x = self.embedding(tokens)
        if marks_mask.any():
            counts = marks_mask.sum(1)
            places = (torch.arange(counts.max()) < counts[:, None]).nonzero(as_tuple=True)
            marked = x.new_zeros(len(x), counts.max(), 4)
            marked[places] = x[marks_mask.nonzero(as_tuple=True)]
            if 2 * marked.shape[1] < x.shape[1]:
                x = x + marked.mean(1, keepdim=True)
        return x


def test_a_mask_that_decides_on_sizes_makes_a_graph_that_refuses_other_numbers_of_marks():
    model, tokens = GathersMarked(), torch.arange(12).reshape(2, 6) % 10
    mask = torch.tensor([[1, 0, 0, 0, 0, 0]] * 2)
    with torch.no_grad():
        captured = capture(model, {"tokens": tokens, "marks_mask": mask}, "auto")
        assert len(captured.graphs) == 1
        assert captured.specialised == ("new values", "mirrored values")
        for marks in (mask, mask.roll(2, 1)):
            given = {"tokens": tokens.flip(1), "marks_mask": marks}
            torch.testing.assert_close(captured.run(**given), model(**given), rtol=0, atol=0)
    with pytest.raises(AssertionError, match=r"marks_mask\.nonzero.*it is \[3, 2\] now|counts\.max\(\)"):
        captured.run(tokens=tokens, marks_mask=torch.tensor([[1, 1, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0]]))


def empty(value, recorded, read):
    """A guard that guards nothing."""


def test_without_its_guards_the_padded_mask_is_wrong_and_the_trial_says_so(monkeypatch):
    monkeypatch.setattr(recorder, "expect_value", empty)
    monkeypatch.setattr(search, "STRATEGIES", {})
    monkeypatch.setattr(auto, "capture_with_dynamo", capture_with_recorder)
    with pytest.raises(CaptureError, match=r"no way gave .*recorder: a padded mask: DIFFERS"):
        capture(DropsFullMasks(), (X, torch.ones(3, 4, dtype=torch.long)), "auto")


def test_dead_code_elimination_keeps_the_guards():
    graph_module = record(lambda x, mask: x + 1 if mask.all() else x, X, MASK).graphs[0]
    graph_module.graph.eliminate_dead_code()
    graph_module.recompile()
    with pytest.raises(AssertionError, match="this graph is for True"):
        graph_module(X, OTHER)


FORMS = {
    "shape": ((X[:2], MASK), {}),
    "dtype": ((X.double(), MASK), {}),
    "strides": ((X.t().contiguous().t(), MASK), {}),
    "storage offset": ((torch.cat([X, X])[3:], MASK), {}),
    "scale": ((X, MASK), {"scale": 3}),
    "scale of another type": ((X, MASK), {"scale": 2.0}),
    "arguments": ((X, MASK), {"more": [X]}),
    "nothing in a container": ((X, MASK), {"scale": 2, "more": []}),
    "shared memory": ((X, MASK), {"scale": 2, "other": X}),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_call_of_another_form_is_refused(form):
    def model(x, mask, scale=2, more=(), other=None):
        return x * scale + mask[:, None]

    kwargs = {"scale": 2, "other": X.clone()} if form == "shared memory" else {"scale": 2}
    captured = record(model, X, MASK, **kwargs)
    assert torch.equal(captured.run(x=X + 1, mask=MASK, **kwargs), model(X + 1, MASK))
    args, other = FORMS[form]
    with pytest.raises(CaptureError, match="the graph was recorded for"):
        captured.run(*args, **other)


def test_the_default_dtype_and_autocast_must_be_those_of_the_recording():
    def model(x):
        return x @ x.t() + torch.ones(3)

    captured = record(model, X)
    with torch.autocast("cpu", torch.bfloat16):
        with pytest.raises(CaptureError, match=r"autocast on cpu: off; got torch\.bfloat16"):
            captured.run(X)
        cast = record(model, X)
        assert torch.equal(cast.run(X + 1), model(X + 1))
    with pytest.raises(CaptureError, match=r"autocast on cpu: torch\.bfloat16; got off"):
        cast.run(X)
    torch.set_default_dtype(torch.float64)
    try:
        with pytest.raises(CaptureError, match="get_default_dtype"):
            captured.run(X)
    finally:
        torch.set_default_dtype(torch.float32)


OUTSIDE = torch.zeros(3)


def mutates_a_global(x):
    OUTSIDE.add_(1)
    return x + OUTSIDE.sum()


def writes_into_an_array(x):
    x.numpy()[0] = 7
    return x + 1


def writes_into_an_arrays_tensor(x):
    array = numpy.zeros(3)
    torch.from_numpy(array).add_(1)
    return x + array.sum()


def changes_a_constant_unseen(x):
    array = numpy.zeros(4)
    constant = torch.from_numpy(array)
    first = x + constant
    array += 1
    return first


def seeds(x):
    torch.manual_seed(0)
    return x + torch.rand(4)


def catches(x):
    try:
        return x + x.data_ptr() % 2
    except RuntimeError:
        return x + 3


REFUSED = {
    "refusal that is caught": (catches, "reaches the memory"),
    "apply": (lambda x: x.clone().apply_(lambda value: value + 1), "reaches the memory"),
    "data_ptr": (lambda x: x + x.data_ptr() % 2, "reaches the memory"),
    "storage": (lambda x: x + x.untyped_storage()[0], "reaches the memory"),
    "dlpack": (lambda x: torch.from_dlpack(x.__dlpack__()) + 1, "reaches the memory"),
    "unseen alias": (lambda x: torch.from_dlpack(torch.utils.dlpack.to_dlpack(x)) + 1, "no operator made"),
    "global": (mutates_a_global, "writes into a tensor that is neither"),
    "array's tensor": (writes_into_an_arrays_tensor, "writes into a tensor that is neither"),
    "constant": (changes_a_constant_unseen, "changes during the call"),
    "python's generator": (lambda x: x * random.random(), "Python's or NumPy's generator"),
    "numpy's generator": (lambda x: x * float(numpy.random.rand()), "Python's or NumPy's generator"),
    "seed": (seeds, "generator was seeded"),
    "own generator": (lambda x: x + torch.rand(4, generator=torch.Generator().manual_seed(0)), "takes a Generator"),
    "large read": (lambda x: x + len(torch.zeros(20_000).tolist()), "reads 20000 values"),
    "object": (lambda x: {"x": x, "object": object()}, "the result holds a object, which no graph returns"),
    "sparse": (lambda x: (x.to_sparse() * 2).to_dense(), "layout"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_a_graph_cannot_repeat_or_check_is_refused(what):
    model, message = REFUSED[what]
    before = torch.get_rng_state()
    with pytest.raises(CaptureError, match=message):
        record(model, X)
    torch.set_rng_state(before)


def test_an_array_cannot_be_written_to():
    with pytest.raises(ValueError, match="read-only"):
        record(writes_into_an_array, X)


def test_draws_come_in_order_and_anew_at_each_call():
    def model(x):
        noise = torch.randn(4)
        return nn.functional.dropout(x + noise, 0.5, True) * torch.rand(()), torch.randperm(5)

    captured = record(model, X)
    seen = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        expected = model(X)
        after = torch.get_rng_state()
        torch.manual_seed(seed)
        given = captured.run(X)
        assert all(torch.equal(one, other) for one, other in zip(given, expected, strict=True))
        assert torch.equal(torch.get_rng_state(), after)
        seen.append(given[0])
    assert not torch.equal(*seen)


class Writes(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(()))

    def forward(self, x):
        self.total += x.sum()
        x[0] = 0
        fresh = torch.tensor([1.0, 2.0, 3.0, 4.0])
        fresh += x[1]
        return x, x[1:], self.total * 2, fresh, fresh


def test_writes_and_aliases_are_those_of_the_model():
    model = Writes()
    captured = record(model, X.clone())
    assert model.total == 0
    theirs, mine = X.clone(), X.clone()
    for _ in range(2):
        expected, given = model(theirs), captured.run(mine)
        assert all(torch.equal(one, other) for one, other in zip(given, expected, strict=True))
        assert torch.equal(theirs, mine)
        assert given[0] is mine
        assert given[1].data_ptr() == mine[1:].data_ptr()
        assert given[3] is given[4]
        theirs += 1
        mine += 1
    assert torch.equal(captured.runner.module.total, model.total)


def test_memory_that_changes_hands_unseen_is_followed():
    def model(x):
        y = torch.zeros(3, 4)
        alias = y.data
        y.data = x * 2
        alias += 1
        return y + alias

    assert torch.equal(record(model, X).run(X + 1), model(X + 1))


def test_a_buffer_that_is_replaced_is_refused():
    class Replaces(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(()))

        def forward(self, x):
            self.total = self.total + 1
            return x + self.total

    with pytest.raises(CaptureError, match="replaces total"):
        record(Replaces(), X)


def test_inputs_are_nested_and_named_as_in_the_model_and_outputs_too():
    def model(pair, *, options):
        return {"sum": pair[0] + pair[1], "kept": (options["scale"], options["bias"])}

    pair, options = [X, X + 1], {"scale": 2, "bias": torch.ones(4)}
    captured = record(model, pair, options=options)
    assert [one.source for one in captured.partitions[0].inputs] == ["pair[0]", "pair[1]", "options['bias']"]
    given = captured.run(options=options, pair=pair)
    assert torch.equal(given["sum"], X + (X + 1))
    assert given["kept"][0] == 2
    assert given["kept"][1] is options["bias"]


def test_the_graph_has_operators_places_and_modules_and_the_callers_model_is_untouched():
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).train()
    captured = record(model, X)
    graph_module = captured.graphs[0]
    assert model[1].num_batches_tracked == 0
    assert {node.op for node in graph_module.graph.nodes} == {"placeholder", "get_attr", "call_function", "output"}
    linear = next(node for node in graph_module.graph.nodes if node.target is torch.ops.aten.addmm.default)
    assert list(linear.meta["nn_module_stack"].values())[-1] == ("0", "torch.nn.modules.linear.Linear")
    assert (linear.meta["val"].shape, linear.meta["val"].dtype) == (torch.Size([3, 4]), torch.float32)
    assert "test_recorder.py" in linear.meta["stack_trace"]
    fx.Graph.lint(graph_module.graph)
    assert captured.runner.module.get_buffer("1.num_batches_tracked") == 0


def test_a_standalone_file_takes_the_guards_along(tmp_path):
    captured = record(READS["boolean index"], X, MASK)
    path, _ = save_standalone(captured, tmp_path / "graph.py")
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "1 of 1 graphs agree" in done.stdout
    assert "import fxopt_core" not in path.read_text()
    broken = path.read_text().replace("'[3, 4]'", "'[2, 4]'")
    path.write_text(broken)
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "this graph is for the shape [2, 4]" in done.stderr
