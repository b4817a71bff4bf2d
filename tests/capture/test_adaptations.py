"""What a model of transformers offers that makes it easier to capture is done to a copy of it."""

import pytest
import torch
from torch import nn

from fxopt_core.capture import capture
from fxopt_workbench.capturing import search
from fxopt_workbench.huggingface.conversions import leave_converted_modules
from fxopt_workbench.huggingface.every_expert import go_through_every_expert


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
