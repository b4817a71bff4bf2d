"""Models of very different kinds become small, run, and still show an error in their output."""

from __future__ import annotations

import inspect
import re

import pytest
import torch
from transformers import AutoConfig

from fxopt_workbench.huggingface.coverage.building import build, build_and_plan
from fxopt_workbench.huggingface.coverage.checks import CHECKS, EXAMPLE, Sizes
from fxopt_workbench.huggingface.coverage.inputs import SHAPES, Maker, inner_configs, make_inputs
from fxopt_workbench.huggingface.coverage.outputs import named_tensors
from fxopt_workbench.huggingface.coverage.shrinking import VOCABULARY, WINDOW, Shrinker, rebuilt
from fxopt_workbench.huggingface.coverage.types import model_class, model_types
from fxopt_workbench.huggingface.coverage.variants import optional_masks, variants
from fxopt_workbench.huggingface.coverage.worker import run_eagerly

DIVERSE = {
    "bert": {"input_ids", "attention_mask"},
    "gemma3_text": {"input_ids", "attention_mask"},
    "mamba": {"input_ids", "attention_mask"},
    "mixtral": {"input_ids", "attention_mask"},
    "deepseek_v3": {"input_ids", "attention_mask"},
    "t5": {"input_ids", "attention_mask", "decoder_input_ids", "decoder_attention_mask"},
    "layoutlm": {"input_ids", "attention_mask", "bbox"},
    "vit": {"pixel_values"},
    "swin": {"pixel_values"},
    "detr": {"pixel_values", "pixel_mask"},
    "whisper": {"input_features", "decoder_input_ids", "decoder_attention_mask"},
    "wav2vec2": {"input_values", "attention_mask"},
    "clip": {"input_ids", "attention_mask", "pixel_values"},
    "sam_hq": {"pixel_values", "input_masks"},
    "sam3_tracker": {"pixel_values", "input_masks"},
    "slanet": {"pixel_values"},
    "timesfm2_5": {"past_values"},
    "big_bird": {"input_ids", "attention_mask"},
    "longformer": {"input_ids", "attention_mask", "global_attention_mask"},
    "dinov2": {"pixel_values", "bool_masked_pos"},
    "qwen2_vl": {"input_ids", "attention_mask", "pixel_values", "image_grid_thw", "mm_token_type_ids"},
}
"""Model type → the arguments that it is called with."""


@pytest.mark.parametrize("model_type", DIVERSE)
def test_shrunk_models_run_and_depend_on_their_inputs(model_type):
    model, level, plan = build_and_plan(model_type)
    assert level == 0
    assert sum(parameter.numel() for parameter in model.parameters()) < 25_000_000
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
    inputs = make_inputs(model.config, plan, Sizes(padding="right"))
    assert inputs["attention_mask"].tolist() == [[1] * 20, [1] * 14 + [0] * 6]
    with torch.no_grad():
        padded = model(**inputs).last_hidden_state[1, 0]
        whole = model(**inputs | {"attention_mask": torch.ones(2, 20).long()}).last_hidden_state[1, 0]
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


def _windows_of_swin():
    model, _, plan = build_and_plan("swin")
    seen = []
    for layer in model.encoder.layers:
        for block in layer.blocks:
            block.register_forward_pre_hook(lambda module, given: seen.append((given[1], module)))
    with torch.no_grad():
        model(**make_inputs(model.config, plan))
    return [(min(size), module.shift_size, module.window_size) for size, module in seen]


def test_swin_shifts_its_windows_in_every_stage_that_is_larger_than_one():
    blocks = _windows_of_swin()
    assert len(blocks) == 8
    for plain, shifted in zip(blocks[::2], blocks[1::2], strict=True):
        assert plain[1] == 0
        # A stage that is one window cannot shift it.
        assert (shifted[1] > 0) == (shifted[0] > shifted[2])
    assert sum(shift > 0 for _, shift, _ in blocks) == 3


@pytest.mark.parametrize("model_type", ["big_bird", "bigbird_pegasus"])
def test_big_bird_attends_to_blocks(model_type):
    model, _, plan = build_and_plan(model_type)
    with torch.no_grad():
        model(**make_inputs(model.config, plan))
    encoder = model.encoder
    assert getattr(model, "attention_type", None) == "block_sparse" or encoder.attention_type == "block_sparse"


def test_the_example_is_longer_than_every_window():
    assert EXAMPLE.length > 2 * WINDOW
    for model_type in ("mistral", "gemma3_text", "modernbert", "gpt_neo", "recurrent_gemma", "longformer", "led"):
        config = AutoConfig.for_model(model_type)
        Shrinker(0).shrink(config)
        windows = [
            one
            for name, value in vars(config).items()
            if re.search(r"window|local_attention", name)
            for one in (value if isinstance(value, (list, tuple)) else [value])
            if isinstance(one, int)
        ]
        assert windows
        assert max(windows) <= WINDOW


def test_a_mask_is_given_only_if_the_model_heeds_it():
    model, _, plan = build_and_plan("whisper")
    assert "attention_mask" in inspect.signature(model.forward).parameters
    assert [name for name, _ in plan.choices if "mask" in name] == ["decoder_attention_mask"]
    assert optional_masks(model, plan) == ["attention_mask"]


def test_a_recording_has_a_mask_of_its_own_length():
    model, _, plan = build_and_plan("wav2vec2")
    inputs = make_inputs(model.config, plan)
    assert inputs["attention_mask"].shape == inputs["input_values"].shape == (2, 3200)


def test_the_checks_of_a_text():
    model, _, plan = build_and_plan("bert")
    found = variants(model, plan)
    shapes = {check: tuple(inputs["input_ids"].shape) for check, inputs in found.items()}
    assert shapes["other_sizes"] == (3, 17)
    assert shapes["one_example"] == (1, 20)
    assert shapes["larger_sizes"] == (5, 47)
    right, left, boolean = (found[one]["attention_mask"] for one in ("padded_mask", "left_padding", "bool_mask"))
    assert right.tolist() == [[1] * 20, [1] * 14 + [0] * 6]
    assert left.tolist() == [[1] * 20, [0] * 6 + [1] * 14]
    assert boolean.dtype == torch.bool
    assert torch.equal(boolean, right.bool())


def test_other_images_are_tried_where_the_model_takes_them():
    taken, refused = (variants(model, plan) for model, _, plan in map(build_and_plan, ("dinov2", "vit")))
    assert tuple(taken["other_images"]["pixel_values"].shape) == (2, 3, 84, 84)
    assert tuple(taken["wide_images"]["pixel_values"].shape) == (2, 3, 84, 112)
    assert not {"other_images", "wide_images"} & set(refused)


def test_an_image_that_is_given_in_patches_gets_other_patches_and_tokens():
    model, _, plan = build_and_plan("qwen2_vl")
    example, other = make_inputs(model.config, plan), variants(model, plan)["wide_images"]
    assert example["image_grid_thw"].tolist() == [[1, 4, 4]] * 2
    assert other["image_grid_thw"].tolist() == [[1, 6, 8]] * 2
    assert len(other["pixel_values"]) == 3 * len(example["pixel_values"])
    image = model.config.image_token_id
    assert (other["input_ids"] == image).sum() == 3 * (example["input_ids"] == image).sum()
    assert torch.equal(other["mm_token_type_ids"] == 1, other["input_ids"] == image)


def test_on_the_left_the_padding_comes_before_the_image():
    model, _, plan = build_and_plan("qwen2_vl")
    inputs = variants(model, plan)["left_padding"]
    assert not (inputs["input_ids"][inputs["attention_mask"] == 0] == model.config.image_token_id).any()
    assert torch.equal(inputs["mm_token_type_ids"] == 1, inputs["input_ids"] == model.config.image_token_id)


BUILT_LATER = (*("granitemoehybrid", "siglip2", "t5gemma2_encoder", "zamba2", "musicgen", "lxmert", "pix2struct"),)
"""Types that once raised while their example was made, one of each kind: sizes that follow from others, patches,
parts of a composite configuration, a configuration for a part, codebooks of zeros, counts that are no numbers."""


@pytest.mark.parametrize("model_type", BUILT_LATER)
def test_types_that_once_did_not_build_do(model_type):
    row = run_eagerly(model_type)
    assert row.verdict == "runs"
    assert row.details["finite"]


def test_a_configuration_made_again_computes_what_follows_from_its_sizes():
    config = AutoConfig.for_model("zamba2")
    Shrinker(0).shrink(config)
    assert config.attention_hidden_size != 2 * config.hidden_size
    again = rebuilt(config)
    assert again.hidden_size == config.hidden_size == 128
    assert again.attention_hidden_size == 2 * 128
    assert again.layer_types == config.layer_types
    assert again.hybrid_layer_ids == [1]


@pytest.mark.parametrize("model_type", ["lw_detr", "rf_detr"])
def test_one_block_attends_within_windows_and_one_to_everything(model_type):
    config = AutoConfig.for_model(model_type)
    Shrinker(0).shrink(config)
    (windows,) = (
        value
        for one in inner_configs(config)
        for name, value in vars(one).items()
        if name.startswith("window_block_ind") and value
    )
    assert list(windows) == [0]


def test_a_window_of_two_sizes_keeps_both():
    config = AutoConfig.for_model("minicpm_ocr_vision")
    Shrinker(0).shrink(config)
    assert config.window_kernel_size == (2, 2)


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
        make_inputs(model.config, plan, sizes, seed) for sizes, seed in ((EXAMPLE, 0), (EXAMPLE, 1), (Sizes(3, 17), 0))
    )
    assert first["input_ids"].shape == new["input_ids"].shape == (2, 20)
    assert not torch.equal(first["input_ids"], new["input_ids"])
    assert other["decoder_input_ids"].shape == (3, 17)


def test_the_eager_row_says_whether_random_numbers_matter():
    assert run_eagerly("informer").details["random"]
    row = run_eagerly("bert")
    assert not row.details["random"]
    assert row.details["finite"]
    assert row.details["checks"] == [check for check in CHECKS if "images" not in check]
    assert row.details["masks_left_out"] == []


@pytest.mark.parametrize("name", [pattern for pattern, _ in SHAPES])
def test_every_shape_of_an_argument_is_made_for_any_sizes(name):
    config = AutoConfig.for_model("bert")
    config.visual_feat_dim = 16
    shapes = dict(SHAPES)[name]
    assert isinstance(shapes, tuple)
    for sizes in {one for candidates in CHECKS.values() for one in candidates}:
        for shape in shapes:
            made = shape(Maker(config, sizes, 0, image_tokens=4))
            assert isinstance(made, torch.Tensor)
            assert made.numel()


def test_every_type_has_a_class():
    types = model_types()
    assert len(types) > 400
    assert list(types) == sorted(types)
    assert model_class("bert").__name__ == "BertModel"
    assert model_class("trocr").__name__ == "TrOCRForCausalLM"
