"""Models of very different kinds become small, run, and still show an error in their output."""

from __future__ import annotations

import pytest
import torch
from transformers import AutoConfig

from fxopt_workbench.huggingface.coverage.building import build, build_and_plan
from fxopt_workbench.huggingface.coverage.inputs import EXAMPLE, Sizes, make_inputs
from fxopt_workbench.huggingface.coverage.outputs import named_tensors
from fxopt_workbench.huggingface.coverage.shrinking import VOCABULARY, Shrinker
from fxopt_workbench.huggingface.coverage.types import model_class, model_types
from fxopt_workbench.huggingface.coverage.worker import run_eagerly

DIVERSE = {
    "bert": {"input_ids", "attention_mask"},
    "gemma3_text": {"input_ids", "attention_mask"},
    "mamba": {"input_ids", "attention_mask"},
    "mixtral": {"input_ids", "attention_mask"},
    "deepseek_v3": {"input_ids", "attention_mask"},
    "t5": {"input_ids", "attention_mask", "decoder_input_ids"},
    "layoutlm": {"input_ids", "attention_mask", "bbox"},
    "vit": {"pixel_values"},
    "swin": {"pixel_values"},
    "detr": {"pixel_values"},
    "whisper": {"input_features", "decoder_input_ids"},
    "wav2vec2": {"input_values"},
    "clip": {"input_ids", "attention_mask", "pixel_values"},
    "sam_hq": {"pixel_values"},
    "sam3_tracker": {"pixel_values"},
    "slanet": {"pixel_values"},
    "timesfm2_5": {"past_values"},
    "qwen2_vl": {"input_ids", "attention_mask", "pixel_values", "image_grid_thw", "mm_token_type_ids"},
}
"""Model type → the arguments that it is called with."""


@pytest.mark.parametrize("model_type", DIVERSE)
def test_shrunk_models_run_and_depend_on_their_inputs(model_type):
    model, level, plan = build_and_plan(model_type)
    assert level == 0
    assert sum(parameter.numel() for parameter in model.parameters()) < 12_000_000
    assert not model.training
    inputs = make_inputs(model.config, plan)
    assert set(inputs) == DIVERSE[model_type]
    with torch.no_grad():
        first, again, other = (
            list(named_tensors(model(**make_inputs(model.config, plan, EXAMPLE, seed))).values()) for seed in (0, 0, 1)
        )
    assert all(value.isfinite().all() for value in first if value.is_floating_point())
    assert all(torch.equal(one, two) for one, two in zip(first, again, strict=True))
    assert float((first[0].float() - other[0].float()).abs().max()) > 1e-2


def test_weights_come_from_a_seed_and_leave_the_random_state_alone():
    state = torch.random.get_rng_state()
    one, two = build("gpt2", 0).state_dict(), build("gpt2", 0).state_dict()
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_a_padded_mask_reaches_the_output():
    model, _, plan = build_and_plan("bert")
    inputs = make_inputs(model.config, plan, Sizes(padded=True))
    assert inputs["attention_mask"].tolist() == [[1] * 12, [1] * 8 + [0] * 4]
    with torch.no_grad():
        padded = model(**inputs).last_hidden_state[1, 0]
        whole = model(**inputs | {"attention_mask": torch.ones(2, 12).long()}).last_hidden_state[1, 0]
    assert float((padded - whole).abs().max()) > 1e-2


def test_one_layer_of_each_kind_is_kept():
    config = AutoConfig.for_model("gemma3_text")
    kinds = list(dict.fromkeys(config.layer_types))
    assert len(kinds) == 2
    Shrinker(0).shrink(config)
    assert config.layer_types == kinds
    assert config.num_hidden_layers == 2


def test_of_sam2_some_blocks_attend_within_windows_and_one_to_everything():
    model, level, _ = build_and_plan("sam2_hiera_det_model")
    assert level == 0
    windows = [block.window_size for block in model.blocks]
    assert len(windows) == 7
    assert windows.count(0) == 1


def test_steps_of_a_decoder_are_few():
    config = AutoConfig.for_model("slanet")
    Shrinker(0).shrink(config)
    assert config.max_text_length == 8


def test_series_are_short():
    config = AutoConfig.for_model("timesfm2_5")
    Shrinker(0).shrink(config)
    assert config.context_length == 8 * config.patch_length


def test_special_tokens_stay_apart_and_within_the_vocabulary():
    config = AutoConfig.for_model("qwen2_vl")
    Shrinker(0).shrink(config)
    tokens = [config.image_token_id, config.video_token_id, config.vision_start_token_id, config.vision_end_token_id]
    assert len(set(tokens)) == 4
    assert all(token < VOCABULARY == config.text_config.vocab_size for token in tokens)


def test_gentler_shrinking_keeps_ratios():
    config = AutoConfig.for_model("mamba2")
    ratio = config.num_heads * config.head_dim / config.hidden_size
    Shrinker(1).shrink(config)
    assert config.hidden_size < 1000
    assert config.num_heads * config.head_dim / config.hidden_size == ratio


def test_inputs_vary_in_values_batch_and_length():
    model, _, plan = build_and_plan("t5")
    first, new, other = (
        make_inputs(model.config, plan, sizes, seed) for sizes, seed in ((EXAMPLE, 0), (EXAMPLE, 1), (Sizes(3, 20), 0))
    )
    assert first["input_ids"].shape == new["input_ids"].shape == (2, 12)
    assert not torch.equal(first["input_ids"], new["input_ids"])
    assert other["decoder_input_ids"].shape == (3, 20)


def test_the_eager_row_says_whether_random_numbers_matter():
    assert run_eagerly("informer").details["random"]
    row = run_eagerly("bert")
    assert not row.details["random"]
    assert row.details["finite"]
    assert row.details["checks"] == ["example", "new_values", "other_sizes", "padded_mask"]


def test_every_type_has_a_class():
    types = model_types()
    assert len(types) > 400
    assert list(types) == sorted(types)
    assert model_class("bert").__name__ == "BertModel"
    assert model_class("trocr").__name__ == "TrOCRForCausalLM"
