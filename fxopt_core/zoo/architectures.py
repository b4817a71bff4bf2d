"""Six architectures from HuggingFace, built from their configurations in two sizes: nothing is downloaded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

Inputs = dict[str, torch.Tensor]
WORDS = 1000
"""Size of the vocabularies."""


@dataclass(frozen=True)
class Size:
    """How large to build a model.

    Attributes:
        width: of the hidden states.
        layers: how many.
        tokens: length of texts.
        pixels: edge of images.
        batch: how many texts or images.
    """

    width: int
    layers: int
    tokens: int
    pixels: int
    batch: int

    @property
    def heads(self) -> int:
        """Attention heads: of width 64, or four where that is too wide."""
        return max(4, self.width // 64)


TINY = Size(width=32, layers=2, tokens=12, pixels=32, batch=2)
"""For tests: milliseconds a call."""

MODERATE = Size(width=384, layers=4, tokens=128, pixels=224, batch=1)
"""For benchmarks: tens of milliseconds a call on two cores."""


def _tokens(size: Size) -> torch.Tensor:
    return torch.randint(3, WORDS, (size.batch, size.tokens))


def _image(size: Size) -> torch.Tensor:
    return torch.randn(size.batch, 3, size.pixels, size.pixels)


def _bert(hf: Any, size: Size) -> tuple[nn.Module, Inputs]:
    config = hf.BertConfig(
        vocab_size=WORDS,
        hidden_size=size.width,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        intermediate_size=4 * size.width,
        attn_implementation="eager",
    )
    mask = torch.ones(size.batch, size.tokens, dtype=torch.int64)
    # A mask of ones only would be left out by the model while it is captured.
    mask[-1, -2:] = 0
    return hf.BertModel(config), {"input_ids": _tokens(size), "attention_mask": mask}


def _gpt2(hf: Any, size: Size) -> tuple[nn.Module, Inputs]:
    config = hf.GPT2Config(
        vocab_size=WORDS,
        n_embd=size.width,
        n_layer=size.layers,
        n_head=size.heads,
        use_cache=False,
        attn_implementation="eager",
        bos_token_id=1,
        eos_token_id=2,
    )
    return hf.GPT2Model(config), {"input_ids": _tokens(size)}


def _vit(hf: Any, size: Size) -> tuple[nn.Module, Inputs]:
    config = hf.ViTConfig(
        hidden_size=size.width,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        intermediate_size=4 * size.width,
        image_size=size.pixels,
        patch_size=size.pixels // 8,
        attn_implementation="eager",
    )
    return hf.ViTModel(config), {"pixel_values": _image(size)}


def _resnet(hf: Any, size: Size) -> tuple[nn.Module, Inputs]:
    widths = [size.width, 2 * size.width]
    config = hf.ResNetConfig(
        embedding_size=size.width // 4, hidden_sizes=widths, depths=[size.layers] * 2, layer_type="bottleneck"
    )
    return hf.ResNetModel(config), {"pixel_values": _image(size)}


def _detr(hf: Any, size: Size) -> tuple[nn.Module, Inputs]:
    backbone = hf.ResNetConfig(
        embedding_size=size.width // 4,
        hidden_sizes=[size.width // 4, size.width // 2],
        depths=[1, 1],
        out_features=["stage2"],
    )
    config = hf.DetrConfig(
        use_timm_backbone=False,
        use_pretrained_backbone=False,
        backbone=None,
        backbone_config=backbone,
        d_model=size.width,
        encoder_layers=size.layers // 2,
        decoder_layers=size.layers // 2,
        encoder_attention_heads=size.heads,
        decoder_attention_heads=size.heads,
        encoder_ffn_dim=2 * size.width,
        decoder_ffn_dim=2 * size.width,
        num_queries=10,
    )
    return hf.DetrModel(config), {"pixel_values": _image(size)}


def _t5(hf: Any, size: Size) -> tuple[nn.Module, Inputs]:
    config = hf.T5Config(
        vocab_size=WORDS,
        d_model=size.width,
        d_kv=size.width // size.heads,
        d_ff=4 * size.width,
        num_layers=size.layers,
        num_heads=size.heads,
        use_cache=False,
    )
    return hf.T5Model(config), {"input_ids": _tokens(size), "decoder_input_ids": _tokens(size)}


ARCHITECTURES: dict[str, Callable[[Any, Size], tuple[nn.Module, Inputs]]] = {
    "bert": _bert,
    "gpt2": _gpt2,
    "vit": _vit,
    "resnet": _resnet,
    "detr": _detr,
    "t5": _t5,
}
"""Encoder, decoder, vision transformer, convolutional network, detector, encoder with decoder."""


def build_architecture(name: str, size: Size = TINY, seed: int = 0) -> tuple[nn.Module, Inputs]:
    """A model in evaluation mode on the CPU, and keyword inputs for it. The caller's random state is put back.

    Args:
        name: a key of `ARCHITECTURES`.
        size: how large.
        seed: of weights and inputs.

    Raises:
        ValueError: there is no such architecture.
        ModuleNotFoundError: transformers is not installed; the message says what to install.
    """
    if name not in ARCHITECTURES:
        raise ValueError(f"there is no architecture {name!r}; expected one of {', '.join(ARCHITECTURES)}.")
    try:
        import transformers
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f'the model {name!r} needs transformers ({error}). Install it with: pip install "fxopt[hf]"',
            name=error.name,
        ) from error
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model, inputs = ARCHITECTURES[name](transformers, size)
    return model.eval(), inputs
