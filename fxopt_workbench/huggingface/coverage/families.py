"""Families of models whose configurations need a word that the names of the sizes do not say."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from fxopt_workbench.huggingface.coverage.shrinking import HEADS, WIDTH

Change = Callable[[Any], None]


def setting(**values: Any) -> Change:
    """A change that sets attributes."""

    def change(config: Any) -> None:
        for name, value in values.items():
            setattr(config, name, value)

    return change


FAMILIES: tuple[tuple[str, Change], ...] = (
    ("bamba", setting(attn_layer_indices=[1], mamba_d_head=2 * WIDTH // HEADS)),
    ("dbrx", lambda config: setting(rope_theta=10000.0, clip_qkv=8.0)(config.attn_config)),
    ("jamba", setting(attn_layer_period=2, attn_layer_offset=1, expert_layer_period=2, expert_layer_offset=1)),
    ("esm", setting(pad_token_id=1, mask_token_id=2)),
    ("gemma3n_text|gemma4_unified_assistant", setting(num_kv_shared_layers=0)),
    ("xmod", setting(default_language="en_XX")),
    ("recurrent_gemma", setting(num_hidden_layers=3)),
)
"""Model types (a regular expression for the whole name), and what to change in their shrunk configurations."""


def without_timm(config: Any) -> None:
    """A ResNet of transformers in place of each backbone from the package timm, in place."""
    from transformers import ResNetConfig

    for name, inner in list(vars(config).items()):
        if getattr(inner, "model_type", None) == "timm_backbone":
            stages = [f"stage{index}" for index in getattr(inner, "out_indices", None) or (1, 2, 3, 4)]
            setattr(config, name, ResNetConfig(out_features=stages))  # type: ignore[call-arg]
        elif hasattr(inner, "model_type"):
            without_timm(inner)


def adapt_config(model_type: str, config: Any) -> None:
    """Change what the model's family needs, in place, after it is shrunk."""
    for pattern, change in FAMILIES:
        if re.fullmatch(pattern, model_type):
            change(config)
