"""Architectures from HuggingFace in small sizes, from configurations with random weights: nothing is downloaded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn

from fxopt_workbench.zoo.recipe import Recipe

Inputs = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Example:
    """How large example inputs are.

    Attributes:
        batch: how many texts, images or recordings.
        tokens: length of texts.
        pixels: height and width of images.
    """

    batch: int = 1
    tokens: int = 0
    pixels: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class Size:
    """How large to build a model.

    Attributes:
        width: of the hidden states.
        layers: how many.
        example: how large its example inputs are.
    """

    width: int
    layers: int
    example: Example

    @property
    def heads(self) -> int:
        """Attention heads: of width 64, or four where that is too wide."""
        return max(4, self.width // 64)

    @property
    def edge(self) -> int:
        """Pixels along the side of an image."""
        return self.example.pixels[0]


TINY = Size(64, 2, Example(batch=2, tokens=16, pixels=(32, 32)))
MODERATE = Size(384, 4, Example(batch=1, tokens=128, pixels=(224, 224)))

Settings = dict[str, Any]
"""What a configuration has other than its defaults."""

InputMaker = Callable[[Any, Example], Inputs]
"""Makes inputs that fit a configuration."""


def make(model: str, settings: Settings, inputs: InputMaker, example: Example) -> tuple[nn.Module, Inputs]:
    """A model with random weights, and inputs for it.

    Args:
        model: name of its class in transformers.
        settings: of its configuration.
        inputs: makes them.
        example: how large they are.

    Raises:
        ModuleNotFoundError: transformers is not installed; the message says what to install.
    """
    try:
        import transformers
    except ModuleNotFoundError as error:
        hint = 'Install it with: pip install "fxopt[hf]"'
        raise ModuleNotFoundError(f"{model} needs transformers ({error}). {hint}", name=error.name) from error
    model_class: Any = getattr(transformers, model)
    config = model_class.config_class(**settings)
    return model_class(config), inputs(config, example)


def tokens(config: Any, example: Example) -> torch.Tensor:
    """Random tokens. Ids below three are special in most vocabularies: padding, beginning, end."""
    return torch.randint(3, config.vocab_size, (example.batch, example.tokens))


def text(config: Any, example: Example) -> Inputs:
    """Texts of one length."""
    return {"input_ids": tokens(config, example)}


def masked_text(config: Any, example: Example) -> Inputs:
    """Texts of which the last is padded by a quarter.

    A mask of ones only would be left out by the model while it is captured.
    """
    mask = torch.ones(example.batch, example.tokens, dtype=torch.int64)
    mask[-1, example.tokens * 3 // 4 :] = 0
    return {"input_ids": tokens(config, example), "attention_mask": mask}


def text_pair(config: Any, example: Example) -> Inputs:
    """Texts for an encoder and for a decoder."""
    return {"input_ids": tokens(config, example), "decoder_input_ids": tokens(config, example)}


def image(config: Any, example: Example) -> Inputs:
    """Images, normally distributed."""
    return {"pixel_values": torch.randn(example.batch, 3, *example.pixels)}


def image_and_text(config: Any, example: Example) -> Inputs:
    """As many images as texts."""
    return masked_text(config.text_config, example) | image(config, example)


def speech(config: Any, example: Example) -> Inputs:
    """Recordings as spectra, and texts for the decoder. The encoder's second convolution halves the frames."""
    spectra = torch.randn(example.batch, config.num_mel_bins, 2 * config.max_source_positions)
    return {"input_features": spectra, "decoder_input_ids": tokens(config, example)}


WORDS = {"vocab_size": 1000}
NO_CACHE = {"use_cache": False}
SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
WITHOUT_TIMM = {"use_timm_backbone": False, "use_pretrained_backbone": False, "backbone": None}
"""DETR's backbone from transformers itself."""


def _encoder(size: Size) -> Settings:
    heads = {"num_attention_heads": size.heads, "intermediate_size": 4 * size.width}
    return {"hidden_size": size.width, "num_hidden_layers": size.layers} | heads


def _patches(size: Size) -> Settings:
    return {"image_size": size.edge, "patch_size": size.edge // 8} | _encoder(size)


def _yolos(size: Size) -> Settings:
    return _patches(size) | {"image_size": size.example.pixels, "num_detection_tokens": 10}


def _both(size: Size, layers: int, feed_forward: int) -> Settings:
    """Encoder and decoder alike, under the names that DETR, RT-DETR and Whisper share."""
    each = {"layers": layers, "attention_heads": size.heads, "ffn_dim": feed_forward}
    parts = {f"{part}_{name}": value for part in ("encoder", "decoder") for name, value in each.items()}
    return {"d_model": size.width} | parts


def _gpt2(size: Size) -> Settings:
    return WORDS | NO_CACHE | SPECIAL | {"n_embd": size.width, "n_layer": size.layers, "n_head": size.heads}


def _backbone(kind: str, size: Size, *widths: int) -> Settings:
    """A convolutional backbone with one block a stage, which gives away the maps of its last stages."""
    outputs = [f"stage{number}" for number in range(2, len(widths) + 1)]
    depths = {"hidden_sizes": list(widths), "depths": [1] * len(widths), "out_features": outputs}
    return {"backbone_config": {"model_type": kind, "embedding_size": size.width // 4, **depths}}


def _detr(size: Size) -> Settings:
    backbone = _backbone("resnet", size, size.width // 4, size.width // 2)
    return WITHOUT_TIMM | backbone | _both(size, size.layers // 2, 2 * size.width) | {"num_queries": 10}


def _rt_detr(size: Size) -> Settings:
    widths = (size.width // 2, size.width, size.width)
    backbone = _backbone("rt_detr_resnet", size, size.width // 4, *widths)
    joined = {"encoder_hidden_dim": size.width, "encoder_in_channels": widths, "decoder_in_channels": [size.width] * 3}
    return backbone | joined | _both(size, size.layers // 2, 2 * size.width) | {"num_queries": 10}


def _t5(size: Size) -> Settings:
    heads = {"d_kv": size.width // size.heads, "num_heads": size.heads}
    return WORDS | NO_CACHE | heads | {"d_model": size.width, "d_ff": 4 * size.width, "num_layers": size.layers}


def _whisper(size: Size) -> Settings:
    frames = {"max_source_positions": 4 * size.example.tokens, "decoder_start_token_id": 1}
    return WORDS | NO_CACHE | SPECIAL | frames | _both(size, size.layers, 4 * size.width)


def _clip(size: Size) -> Settings:
    parts = {"text_config": WORDS | SPECIAL | _encoder(size), "vision_config": _patches(size)}
    return parts | {"projection_dim": size.width}


def _llama(size: Size) -> Settings:
    return WORDS | NO_CACHE | _encoder(size) | {"num_key_value_heads": size.heads // 2}


def _mixtral(size: Size) -> Settings:
    return _llama(size) | {"num_local_experts": 4}


def _resnet(size: Size) -> Settings:
    stages = {"hidden_sizes": [size.width, 2 * size.width], "depths": [size.layers] * 2}
    return {"embedding_size": size.width // 4} | stages


def _mamba(size: Size) -> Settings:
    return WORDS | NO_CACHE | {"hidden_size": size.width, "num_hidden_layers": size.layers}


SOURCE = "HuggingFace, from its configuration, random weights"

Row = tuple[str, Callable[[Size], Settings], InputMaker, str]
ARCHITECTURES: dict[str, Row] = {
    "bert": ("BertModel", lambda size: WORDS | _encoder(size), masked_text, "BERT, a text encoder"),
    "gpt2": ("GPT2Model", _gpt2, text, "GPT-2, a text decoder"),
    "vit": ("ViTModel", _patches, image, "ViT, an encoder of image patches"),
    "resnet": ("ResNetModel", _resnet, image, "ResNet, a convolutional network with bottleneck blocks"),
    "detr": ("DetrModel", _detr, image, "DETR, a detector: convolutional backbone, transformer encoder and decoder"),
    "t5": ("T5Model", _t5, text_pair, "T5, encoder and decoder of texts with relative positions"),
    "rt-detr": ("RTDetrForObjectDetection", _rt_detr, image, "RT-DETR, a detector with deformable attention"),
    "yolos": ("YolosForObjectDetection", _yolos, image, "YOLOS, a ViT with tokens that detect"),
    "whisper": ("WhisperModel", _whisper, speech, "Whisper, encoder of speech and decoder of text"),
    "clip": ("CLIPModel", _clip, image_and_text, "CLIP, encoders of images and texts into one space"),
    "llama": ("LlamaForCausalLM", _llama, masked_text, "Llama, a text decoder with rotary positions, grouped heads"),
    "mixtral": ("MixtralForCausalLM", _mixtral, masked_text, "Mixtral, a text decoder, two of four experts a token"),
    "mamba": ("MambaForCausalLM", _mamba, text, "Mamba, a text decoder with a state-space recurrence, no attention"),
}
MODERATE_ONES = ("bert", "gpt2", "vit", "resnet", "detr", "t5")
"""Those that benchmarks run."""


def _recipe(name: str, size: Size) -> Recipe:
    model, settings, inputs, description = ARCHITECTURES[name]
    build = partial(make, model, settings(size), inputs, size.example)
    return Recipe(build, f"{description} ({SOURCE}).", "tiny" if size is TINY else "moderate")


RECIPES = {name: _recipe(name, TINY) for name in ARCHITECTURES}
RECIPES |= {f"{name}-moderate": _recipe(name, MODERATE) for name in MODERATE_ONES}
