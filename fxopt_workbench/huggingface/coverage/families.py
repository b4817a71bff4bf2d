"""Families of models that need a word about their configuration or arguments that the names do not say."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch

from fxopt_workbench.huggingface.coverage.shrinking import HEADS, WIDTH

Change = Callable[[Any], None]


def setting(**values: Any) -> Change:
    """A change that sets attributes."""

    def change(config: Any) -> None:
        for name, value in values.items():
            setattr(config, name, value)

    return change


Shape = Callable[[Any], torch.Tensor]
"""What makes an argument, from a `Maker` (see `inputs`)."""


def _image_features(maker: Any) -> torch.Tensor:
    return maker.floats(16, maker.config.encoder_hidden_size)


def _places(maker: Any) -> torch.Tensor:
    return maker.places()


def _half_image(maker: Any) -> torch.Tensor:
    """Two of these, one on the other, have the size of an image."""
    height, width = maker.edges()
    return maker.floats(3, height // 2, width)


def _strip_of_patches(maker: Any) -> torch.Tensor:
    """All patches beside each other, (1, channels, edge, edge * patches)."""
    return maker.patches().unflatten(1, (3, -1, maker.config.patch_size)).movedim(0, 2).flatten(2, 3)[None]


def _first(maker: Any, count: int) -> torch.Tensor:
    """1 for the first tokens of each text, (batch, length)."""
    return (torch.arange(maker.sizes.length) < count).long().repeat(maker.sizes.batch, 1)


FAMILIES: tuple[tuple[str, Change], ...] = (
    # With more or longer blocks the example is so short that all its tokens attend to all.
    ("big_bird|bigbird_pegasus", setting(block_size=2, num_random_blocks=1)),
    ("longt5", setting(local_radius=3, global_block_size=4)),
    ("reformer", setting(local_attn_chunk_length=4, lsh_attn_chunk_length=4)),
    ("canine", setting(local_transformer_stride=4)),
    ("bamba", setting(attn_layer_indices=[1], mamba_d_head=2 * WIDTH // HEADS)),
    ("blt", setting(use_cache=False)),  # the configuration lacks what its own cache asks for
    ("chameleon", setting(vocabulary_map={"<image>": 90})),
    ("clap_audio_model", setting(patch_embeds_hidden_size=16, hidden_size=128)),  # it doubles from stage to stage
    ("cohere_compass_text", setting(rope_parameters={"full_attention": {"rope_type": "default", "rope_theta": 1e4}})),
    ("dbrx", lambda config: setting(rope_theta=10000.0, clip_qkv=8.0)(config.attn_config)),
    ("deepseek_ocr2_text", setting(mlp_layer_types=["dense", "sparse"])),
    (
        "efficientnet|align_vision_model",  # it rounds all widths after a coefficient, those written in its code too
        setting(
            width_coefficient=0.25,
            depth_coefficient=1.0,
            in_channels=[32, 16, 24, 40, 80, 112, 192],
            out_channels=[16, 24, 40, 80, 112, 192, 320],
            hidden_dim=320,
        ),
    ),
    ("emu3", setting(vocabulary_map={"<image>": 90, "<|extra_200|>": 91})),
    ("granitemoehybrid", setting(layer_types=["linear_attention", "full_attention"])),
    ("jamba", setting(attn_layer_period=2, attn_layer_offset=1, expert_layer_period=2, expert_layer_offset=1)),
    ("esm", setting(pad_token_id=1, mask_token_id=2)),
    ("gemma3n_text|gemma4_unified_assistant", setting(num_kv_shared_layers=0)),
    ("kosmos-2", setting(latent_query_num=4)),
    ("lfm2_moe", setting(layer_types=["conv", "full_attention"], num_dense_layers=1)),
    ("lw_detr", setting(projector_scale_factors=[1.0])),
    ("moonshine_streaming", setting(num_key_value_heads=HEADS)),
    ("qwen3_omni_moe_talker_text", setting(shared_expert_intermediate_size=2 * WIDTH)),
    (
        "qwen4_exp_text",
        setting(
            indexer_n_heads=4, indexer_kv_heads=1, indexer_head_dim=32, indexer_budget=16, indexer_compress_ratio=4
        ),
    ),
    ("seggpt", setting(image_size=[128, 64])),
    ("shieldgemma2", setting(mm_tokens_per_image=4, yes_token_index=20, no_token_index=21)),
    ("neucodec|xcodec2", setting(quantization_dim=2 * WIDTH)),
    ("t5gemma2_encoder", lambda config: setting(dropout_rate=0.0)(config.text_config)),
    ("tvp", setting(visual_prompt_size=8, num_frames=2)),
    ("vitmatte", lambda config: setting(fusion_hidden_sizes=list(config.fusion_hidden_sizes))(config)),
    ("xmod", setting(default_language="en_XX")),
    ("recurrent_gemma", setting(num_hidden_layers=3)),
    ("zamba", setting(num_hidden_layers=3, layers_block_type=["linear_attention", "hybrid", "hybrid"])),
)
"""Model types (a regular expression for the whole name), and what to change in their shrunk configurations."""

ARGUMENTS: tuple[tuple[str, dict[str, Shape]], ...] = (
    ("blip_2_qformer", {"query_embeds": lambda m: m.floats(5, m.hidden()), "encoder_hidden_states": _image_features}),
    (
        "decision_transformer",
        {
            "states": lambda m: m.floats(m.sizes.length, m.config.state_dim),
            "actions": lambda m: m.floats(m.sizes.length, m.config.act_dim),
            "rewards": lambda m: m.floats(m.sizes.length, 1),
            "returns_to_go": lambda m: m.floats(m.sizes.length, 1),
            "timesteps": lambda m: m.integers(50, m.sizes.length),
            "attention_mask": lambda m: m.mask(),
        },
    ),
    (
        "fun_asr_nano_encoder",
        {"input_features": lambda m: m.floats(m.frames(), m.mels() * m.config.num_stacked_frames)},
    ),
    ("granite_speech5_.*", {"input_features": lambda m: m.floats(m.frames(), 4 * m.mels())}),
    (
        "gemma3n_audio",  # its mask says what is padding
        {
            "audio_mel": lambda m: m.floats(m.frames(), m.mels()),
            "audio_mel_mask": lambda m: m.ones(m.frames()) == 0,
        },
    ),
    ("gemma4_audio", {"input_features": lambda m: m.floats(m.frames(), m.config.subsampling_conv_channels[0])}),
    (
        "gemma4_vision",
        {"pixel_values": lambda m: m.patches().unflatten(0, (m.sizes.batch, -1)), "pixel_position_ids": _places},
    ),
    (
        "idefics",
        {
            "input_ids": lambda m: m.tokens(),
            "attention_mask": lambda m: m.mask(),
            "pixel_values": lambda m: m.image(1),
            "image_attention_mask": lambda m: m.ones(m.sizes.length, 1),
        },
    ),
    (
        "kosmos-2",
        {
            "pixel_values": lambda m: m.image(),
            "image_embeds_position_mask": lambda m: _first(m, m.config.latent_query_num),
        },
    ),
    ("kyutai_speech_to_text", {"input_ids": lambda m: m.integers(90, m.sizes.length, m.config.num_codebooks + 1)}),
    (
        "minicpm_ocr_vision|minicpmv4_7_vision",
        {
            "pixel_values": _strip_of_patches,
            "target_sizes": lambda m: m.repeated(list(m.grid())),
        },
    ),
    (
        "musicgen.*",
        {
            "input_ids": lambda m: m.integers(90, m.config.num_codebooks, m.sizes.length).flatten(0, 1),
            "attention_mask": lambda m: m.mask(),
        },
    ),
    (
        "neucodec|xcodec2",
        {
            "input_values": lambda m: m.floats(1, m.samples()),
            "input_features": lambda m: m.floats(m.samples() // 320, m.mels()),
            "input_features_mask": lambda m: m.ones(m.samples() // 320),
        },
    ),
    ("oneformer", {"task_inputs": lambda m: m.floats(m.config.task_seq_len)}),
    (
        "pi0",
        {
            "input_ids": lambda m: m.tokens(),
            "attention_mask": lambda m: m.mask(),
            "pixel_values": lambda m: m.image(1),
            "pixel_attention_mask": lambda m: m.ones(1),
            "action_embeds": lambda m: m.floats(m.config.chunk_size, m.config.dit_config.hidden_size),
        },
    ),
    (
        "pix2struct.*",
        {
            "flattened_patches": lambda m: torch.cat(
                [m.places() + 1.0, m.floats(m.places().shape[1], m.find("patch_embed_hidden_size"))], -1
            )
        },
    ),
    ("pp_ocrv5_mobile_rec", {"pixel_values": lambda m: m.floats(3, 96, int(160 * m.sizes.scale[1]))}),
    ("seggpt", dict.fromkeys(("pixel_values", "prompt_pixel_values", "prompt_masks"), _half_image)),
    (
        "siglip2",
        {
            "pixel_values": lambda m: m.patches().unflatten(0, (m.sizes.batch, -1)),
            "pixel_attention_mask": lambda m: m.ones(m.grid()[0] * m.grid()[1]),
            "spatial_shapes": lambda m: m.repeated(list(m.grid())),
        },
    ),
    ("speech-encoder-decoder", {"inputs": lambda m: m.floats(m.samples())}),
    (
        "speecht5",
        {
            "input_values": lambda m: m.floats(m.sizes.length, m.hidden()),
            "decoder_input_values": lambda m: m.floats(m.sizes.length, m.hidden()),
        },
    ),
    (
        "timesfm",
        {
            "past_values": lambda m: m.series(),
            "past_values_padding": lambda m: torch.zeros(m.sizes.batch, m.series().shape[1]),
            "freq": lambda m: m.integers(3, 1),
        },
    ),
)
"""Model types, and the arguments that they are given in place of or besides what the names alone say."""


def without_timm(config: Any) -> None:
    """A ResNet of transformers in place of each backbone from the package timm, in place."""
    from transformers import ResNetConfig

    for name, inner in list(vars(config).items()):
        if getattr(inner, "model_type", None) == "timm_backbone":
            stages = [f"stage{index}" for index in getattr(inner, "out_indices", None) or (1, 2, 3, 4)]
            setattr(config, name, ResNetConfig(out_features=stages))
        elif hasattr(inner, "model_type"):
            without_timm(inner)


def adapt_config(config: Any) -> None:
    """Change what the configuration's family needs, and those inside it likewise, in place, after it is shrunk."""
    for pattern, change in FAMILIES:
        if re.fullmatch(pattern, config.model_type):
            change(config)
    for inner in list(vars(config).values()):
        if hasattr(inner, "to_dict") and hasattr(inner, "model_type"):
            adapt_config(inner)


def family_arguments(model_type: str) -> dict[str, Shape]:
    """The arguments that models of this type are given besides the usual ones, and what makes them."""
    return next((arguments for pattern, arguments in ARGUMENTS if re.fullmatch(pattern, model_type)), {})
