"""Six architectures, small and from their configurations, with example inputs. Weights are random and seeded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

Built = tuple[nn.Module, dict[str, torch.Tensor]]
WORDS = 100
"""Size of the vocabulary."""


def tokens() -> torch.Tensor:
    return torch.randint(3, WORDS, (2, 12), generator=torch.Generator().manual_seed(0))


def image() -> torch.Tensor:
    return torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))


def bert() -> Built:
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=WORDS, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
        attn_implementation="eager",
    )  # fmt: skip
    mask = torch.ones(2, 12, dtype=torch.int64)
    mask[1, 8:] = 0
    return BertModel(config), {"input_ids": tokens(), "attention_mask": mask}


def gpt2() -> Built:
    from transformers import GPT2Config, GPT2Model

    config = GPT2Config(
        vocab_size=WORDS, n_embd=32, n_layer=2, n_head=4, use_cache=False, attn_implementation="eager",
        bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    return GPT2Model(config), {"input_ids": tokens()}


def vit() -> Built:
    from transformers import ViTConfig, ViTModel

    config = ViTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, image_size=32, patch_size=8
    )
    return ViTModel(config), {"pixel_values": image()}


def resnet() -> Built:
    from transformers import ResNetConfig, ResNetModel

    config = ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[2, 2], layer_type="basic")
    return ResNetModel(config), {"pixel_values": image()}


def detr() -> Built:
    from transformers import DetrConfig, DetrModel, ResNetConfig

    backbone = ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], out_features=["stage2"])
    config = DetrConfig(
        use_timm_backbone=False, use_pretrained_backbone=False, backbone=None, backbone_config=backbone, d_model=32,
        encoder_layers=1, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4,
        encoder_ffn_dim=64, decoder_ffn_dim=64, num_queries=5,
    )  # fmt: skip
    return DetrModel(config), {"pixel_values": image()}


def t5() -> Built:
    from transformers import T5Config, T5Model

    config = T5Config(vocab_size=WORDS, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, use_cache=False)
    return T5Model(config), {"input_ids": tokens(), "decoder_input_ids": tokens()}


MODELS: dict[str, Callable[[], Built]] = {
    "bert": bert, "gpt2": gpt2, "vit": vit, "resnet": resnet, "detr": detr, "t5": t5,
}  # fmt: skip


def build(name: str) -> tuple[nn.Module, dict[str, Any]]:
    """A model by its name."""
    torch.manual_seed(0)
    return MODELS[name]()
