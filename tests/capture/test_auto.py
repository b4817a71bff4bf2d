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
from fxopt_workbench.capturing import search
from fxopt_workbench.capturing.symbolic import capture_with_symbolic_trace
from fxopt_workbench.huggingface.conversions import leave_converted_modules
from fxopt_workbench.huggingface.every_expert import go_through_every_expert

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


@pytest.fixture
def gpt2():
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(vocab_size=50, n_embd=16, n_layer=1, n_head=2, n_positions=32)
    model = transformers.GPT2LMHeadModel(config).eval()
    tokens = torch.randint(0, 50, (2, 7))
    return model, {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}


def test_the_cache_of_a_language_model_is_switched_off_on_a_copy(gpt2):
    model, inputs = gpt2
    before, names = model.config.to_dict(), set(inputs)
    with torch.no_grad():
        captured = capture(model, inputs, "auto")
    assert len(captured.graphs) == 1
    assert captured.adaptations == ("use_cache=False (the result lacks past_key_values)",)
    assert "DynamicCache" in captured.attempts[0].failure
    assert "a padded mask" in [one.on for one in captured.agreements]
    assert all(one.agrees for one in captured.agreements)
    assert model.config.to_dict() == before
    assert model.config._attn_implementation == "sdpa"
    assert set(inputs) == names


def test_batch_and_length_of_a_language_model_may_vary(gpt2):
    model, inputs = gpt2
    dynamic = {"input_ids": {0: ("batch", 2, 8), 1: ("length", 2, 32)}, "attention_mask": {0: "batch", 1: "length"}}
    with torch.no_grad():
        captured = capture(model, inputs, "auto", dynamic=dynamic)
        tokens = torch.randint(0, 50, (5, 19))
        mask = torch.ones_like(tokens)
        mask[1, 12:] = 0
        # The example gave both by name; so does nobody who calls the model like this.
        result = captured.run(tokens, attention_mask=mask)
        expected = model(input_ids=tokens, attention_mask=mask, use_cache=False)
    assert torch.allclose(result["logits"], expected["logits"], atol=1e-5)
    assert [one.name for one in captured.symbols] == ["batch", "length"]


def test_experts_that_python_goes_through_become_one_operator():
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 16, "intermediate_size": 8, "num_attention_heads": 2, "num_key_value_heads": 1}
    config = transformers.MixtralConfig(vocab_size=50, num_hidden_layers=1, num_local_experts=4, **sizes)
    model = transformers.MixtralForCausalLM(config).eval()
    model.set_experts_implementation("eager")
    tokens = torch.randint(0, 50, (2, 7))
    with torch.no_grad():
        captured = capture(model, {"input_ids": tokens}, "auto", dynamic=True)
        assert captured.adaptations[1:] == ('experts implementation "grouped_mm"',)
        assert not captured.specialised
        tokens = torch.full((3, 5), 7)  # to the same two experts
        expected = model(input_ids=tokens)["logits"]
        torch.testing.assert_close(captured.run(input_ids=tokens)["logits"], expected, rtol=1e-4, atol=1e-5)
    assert model.config._experts_implementation == "eager"


def mixture_of_dbrx(transformers):
    feed_forward = {"ffn_hidden_size": 16, "moe_num_experts": 4, "moe_top_k": 2, "hidden_size": 16}
    attention = {"kv_n_heads": 2, "clip_qkv": 8, "rope_theta": 10000.0}
    sizes = {"d_model": 16, "n_heads": 2, "n_layers": 1, "max_seq_len": 32, "vocab_size": 50}
    config = transformers.DbrxConfig(**sizes, ffn_config=feed_forward, attn_config=attention)
    return transformers.DbrxForCausalLM(config)


def mixture_of_longcat(transformers):
    sizes = {"hidden_size": 16, "num_layers": 1, "num_attention_heads": 2, "ffn_hidden_size": 16, "vocab_size": 50}
    ranks = dict.fromkeys(("q_lora_rank", "kv_lora_rank"), 8)
    ranks |= dict.fromkeys(("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "head_dim"), 8)
    experts = {"n_routed_experts": 3, "zero_expert_num": 1, "moe_topk": 2, "expert_ffn_hidden_size": 8}
    return transformers.LongcatFlashForCausalLM(transformers.LongcatFlashConfig(**sizes, **ranks, **experts))


def mixture_of_switches(transformers):
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_heads": 2, "num_layers": 2, "num_sparse_encoder_layers": 1}
    config = transformers.SwitchTransformersConfig(vocab_size=50, num_experts=4, expert_capacity=64, **sizes)
    return transformers.SwitchTransformersEncoderModel(config)


@pytest.mark.parametrize("make", [mixture_of_dbrx, mixture_of_longcat, mixture_of_switches])
def test_experts_that_no_operator_holds_are_gone_through_every_one(make):
    transformers = pytest.importorskip("transformers")
    model = make(transformers).eval()
    tokens = torch.randint(0, 50, (2, 7), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        captured = capture(model, with_mask(tokens), "auto", dynamic=True)
        assert captured.adaptations[-1] == "every expert is gone through"
        assert len(captured.partitions) == 1
        assert not captured.specialised
        # To the same two experts: the others get no token.
        for tokens in (torch.full((3, 5), 7), torch.full((1, 4), 11)):
            expected = model(**with_mask(tokens))[0]
            given = captured.run(**with_mask(tokens))
            torch.testing.assert_close(next(iter(given.values())), expected, rtol=0, atol=0)
    assert not any({"forward", "to"} & vars(module).keys() for module in model.modules())


def with_mask(tokens):
    return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}


def test_a_module_is_converted_where_that_changes_anything():
    transformers = pytest.importorskip("transformers")
    model = mixture_of_switches(transformers)
    assert leave_converted_modules(model)
    assert not leave_converted_modules(nn.Linear(2, 2))
    (router,) = (one.classifier for one in model.modules() if hasattr(one, "classifier"))
    weight = router.weight
    assert router.to(torch.float32) is router
    assert router.to(dtype=torch.float32, device="cpu").weight is weight
    assert weight.dtype == torch.float32
    assert router.to("meta").weight.is_meta
    assert router.to(torch.float64).weight.dtype == torch.float64


def test_a_model_whose_source_nobody_knows_is_adapted_as_far_as_it_goes():
    written = {"nn": nn}
    exec("class Experts(nn.Module):\n    def forward(self, x):\n        return x[(x > 0).nonzero()]", written)
    experts = written["Experts"]()
    assert not leave_converted_modules(experts)
    assert not go_through_every_expert(experts)
    transformers = pytest.importorskip("transformers")
    assert go_through_every_expert(mixture_of_dbrx(transformers))
    assert not go_through_every_expert(nn.Linear(2, 2))


def test_further_adaptations_follow_when_the_first_do_not_help(gpt2, monkeypatch):
    def only_eager(model, args, kwargs, dynamic):
        if model.config._attn_implementation != "eager" or not isinstance(model(*args, **kwargs), tuple):
            raise ValueError("not yet")
        return search_export(model, args, kwargs, dynamic)

    search_export = search.STRATEGIES["export"]
    monkeypatch.setattr(search, "STRATEGIES", {"picky": only_eager})
    with torch.no_grad():
        captured = capture(*gpt2, "auto")
    assert captured.adaptations[1:] == ("return_dict=False", 'attention implementation "eager"')
    assert [one.failure[:10] for one in captured.attempts] == ["the result", "ValueError", "ValueError", ""]
    assert gpt2[0].config._attn_implementation == "sdpa"
    assert "forward" not in vars(gpt2[0])
    assert isinstance(captured.run(**gpt2[1]), tuple)


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
