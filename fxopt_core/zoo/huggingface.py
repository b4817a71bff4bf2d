"""Architectures from HuggingFace, built from their configurations with random weights: nothing is downloaded.

Each is there in a tiny size, some in a moderate one, and the published models in their true size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from fxopt_core.zoo.recipe import Recipe, SizeName

Inputs = dict[str, torch.Tensor]
InputMaker = Callable[[Any], Inputs]
"""Makes example inputs that fit a configuration."""


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


TINY = Size(width=64, layers=2, tokens=16, pixels=32, batch=2)
MODERATE = Size(width=384, layers=4, tokens=128, pixels=224, batch=1)

WORDS = 1000
"""Size of the vocabularies where the size is not the published one."""


@dataclass(frozen=True)
class Blueprint:
    """One model of one size.

    Attributes:
        model: name of its class in transformers.
        settings: what its configuration has other than the defaults; these are mostly those of a published model.
        inputs: makes example inputs.
    """

    model: str
    settings: dict[str, Any]
    inputs: InputMaker

    def build(self) -> tuple[nn.Module, Inputs]:
        """The model and its inputs.

        Raises:
            ModuleNotFoundError: transformers is not installed; the message says what to install.
        """
        try:
            import transformers
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                f'the model {self.model} needs transformers ({error}). Install it with: pip install "fxopt[hf]"',
                name=error.name,
            ) from error
        model_class: Any = getattr(transformers, self.model)
        config = model_class.config_class(**self.settings)
        return model_class(config), self.inputs(config)


def _tokens(config: Any, batch: int, length: int) -> torch.Tensor:
    # Ids below three are special in most vocabularies: padding, beginning, end.
    return torch.randint(3, config.vocab_size, (batch, length))


def _text(batch: int, length: int) -> InputMaker:
    return lambda config: {"input_ids": _tokens(config, batch, length)}


def _masked_text(batch: int, length: int) -> InputMaker:
    def make(config: Any) -> Inputs:
        mask = torch.ones(batch, length, dtype=torch.int64)
        # A mask of ones only would be left out by the model while it is captured.
        mask[-1, length * 3 // 4 :] = 0
        return {"input_ids": _tokens(config, batch, length), "attention_mask": mask}

    return make


def _text_pair(batch: int, length: int) -> InputMaker:
    return lambda config: {
        "input_ids": _tokens(config, batch, length),
        "decoder_input_ids": _tokens(config, batch, length),
    }


def _image(batch: int, height: int, width: int) -> InputMaker:
    return lambda config: {"pixel_values": torch.randn(batch, 3, height, width)}


def _image_and_text(batch: int, pixels: int, length: int) -> InputMaker:
    return lambda config: {
        **_masked_text(batch, length)(config.text_config),
        **_image(batch, pixels, pixels)(config),
    }


def _speech(batch: int, length: int) -> InputMaker:
    return lambda config: {
        # The encoder's second convolution halves the number of frames.
        "input_features": torch.randn(batch, config.num_mel_bins, 2 * config.max_source_positions),
        "decoder_input_ids": _tokens(config, batch, length),
    }


def _encoder(size: Size) -> dict[str, Any]:
    return {
        "hidden_size": size.width,
        "num_hidden_layers": size.layers,
        "num_attention_heads": size.heads,
        "intermediate_size": 4 * size.width,
    }


def _bert(size: Size) -> Blueprint:
    return Blueprint("BertModel", {"vocab_size": WORDS, **_encoder(size)}, _masked_text(size.batch, size.tokens))


def _gpt2(size: Size) -> Blueprint:
    settings = {"vocab_size": WORDS, "n_embd": size.width, "n_layer": size.layers, "n_head": size.heads}
    special = {"bos_token_id": 1, "eos_token_id": 2, "use_cache": False}
    return Blueprint("GPT2Model", settings | special, _text(size.batch, size.tokens))


def _vit(size: Size) -> Blueprint:
    settings = {"image_size": size.pixels, "patch_size": size.pixels // 8, **_encoder(size)}
    return Blueprint("ViTModel", settings, _image(size.batch, size.pixels, size.pixels))


def _resnet(size: Size) -> Blueprint:
    settings = {
        "embedding_size": size.width // 4,
        "hidden_sizes": [size.width, 2 * size.width],
        "depths": [size.layers] * 2,
    }
    return Blueprint("ResNetModel", settings, _image(size.batch, size.pixels, size.pixels))


def _queries(size: Size) -> dict[str, Any]:
    """What DETR and RT-DETR call the same."""
    return {
        "d_model": size.width,
        "encoder_layers": size.layers // 2,
        "decoder_layers": size.layers // 2,
        "encoder_attention_heads": size.heads,
        "decoder_attention_heads": size.heads,
        "encoder_ffn_dim": 2 * size.width,
        "decoder_ffn_dim": 2 * size.width,
        "num_queries": 10,
    }


def _detr(size: Size) -> Blueprint:
    backbone = {
        "model_type": "resnet",
        "embedding_size": size.width // 4,
        "hidden_sizes": [size.width // 4, size.width // 2],
        "depths": [1, 1],
        "out_features": ["stage2"],
    }
    settings = {**WITHOUT_TIMM, "backbone_config": backbone, **_queries(size)}
    return Blueprint("DetrModel", settings, _image(size.batch, size.pixels, size.pixels))


def _rt_detr(size: Size) -> Blueprint:
    widths = [size.width // 4, size.width // 2, size.width, size.width]
    backbone = {
        "model_type": "rt_detr_resnet",
        "embedding_size": size.width // 4,
        "hidden_sizes": widths,
        "depths": [1, 1, 1, 1],
        "out_features": ["stage2", "stage3", "stage4"],
    }
    settings = {
        "backbone_config": backbone,
        "encoder_in_channels": widths[1:],
        "encoder_hidden_dim": size.width,
        "decoder_in_channels": [size.width] * 3,
        **_queries(size),
    }
    return Blueprint("RTDetrForObjectDetection", settings, _image(size.batch, 2 * size.pixels, 2 * size.pixels))


def _yolos(size: Size) -> Blueprint:
    settings = {
        "image_size": [size.pixels, size.pixels],
        "patch_size": size.pixels // 8,
        "num_detection_tokens": 10,
        **_encoder(size),
    }
    return Blueprint("YolosForObjectDetection", settings, _image(size.batch, size.pixels, size.pixels))


def _t5(size: Size) -> Blueprint:
    settings = {
        "vocab_size": WORDS,
        "d_model": size.width,
        "d_kv": size.width // size.heads,
        "d_ff": 4 * size.width,
        "num_layers": size.layers,
        "num_heads": size.heads,
        "use_cache": False,
    }
    return Blueprint("T5Model", settings, _text_pair(size.batch, size.tokens))


def _whisper(size: Size) -> Blueprint:
    settings = {
        "vocab_size": WORDS,
        "d_model": size.width,
        "encoder_layers": size.layers,
        "decoder_layers": size.layers,
        "encoder_attention_heads": size.heads,
        "decoder_attention_heads": size.heads,
        "encoder_ffn_dim": 4 * size.width,
        "decoder_ffn_dim": 4 * size.width,
        "max_source_positions": 4 * size.tokens,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "decoder_start_token_id": 1,
        "use_cache": False,
    }
    return Blueprint("WhisperModel", settings, _speech(size.batch, size.tokens))


def _clip(size: Size) -> Blueprint:
    settings = {
        "text_config": {"vocab_size": WORDS, **_encoder(size)},
        "vision_config": {"image_size": size.pixels, "patch_size": size.pixels // 8, **_encoder(size)},
        "projection_dim": size.width,
    }
    return Blueprint("CLIPModel", settings, _image_and_text(size.batch, size.pixels, size.tokens))


def _llama(size: Size) -> Blueprint:
    settings = {"vocab_size": WORDS, "num_key_value_heads": size.heads // 2, "use_cache": False, **_encoder(size)}
    return Blueprint("LlamaForCausalLM", settings, _masked_text(size.batch, size.tokens))


def _mixtral(size: Size) -> Blueprint:
    blueprint = _llama(size)
    return Blueprint("MixtralForCausalLM", blueprint.settings | {"num_local_experts": 4}, blueprint.inputs)


def _mamba(size: Size) -> Blueprint:
    settings = {"vocab_size": WORDS, "hidden_size": size.width, "num_hidden_layers": size.layers, "use_cache": False}
    return Blueprint("MambaForCausalLM", settings, _text(size.batch, size.tokens))


WITHOUT_TIMM = {"use_timm_backbone": False, "use_pretrained_backbone": False, "backbone": None}
"""DETR's backbone from transformers itself."""

ARCHITECTURES: dict[str, tuple[Callable[[Size], Blueprint], str]] = {
    "bert": (_bert, "BERT, a text encoder; the second text is padded"),
    "gpt2": (_gpt2, "GPT-2, a text decoder"),
    "vit": (_vit, "ViT, an encoder of image patches"),
    "resnet": (_resnet, "ResNet, a convolutional network with bottleneck blocks"),
    "detr": (_detr, "DETR, a detector: convolutional backbone, transformer encoder and decoder"),
    "t5": (_t5, "T5, encoder and decoder of texts with relative positions"),
    "rt-detr": (_rt_detr, "RT-DETR, a detector with deformable attention over three maps"),
    "yolos": (_yolos, "YOLOS, a ViT with tokens that detect"),
    "whisper": (_whisper, "Whisper, encoder of speech and decoder of text"),
    "clip": (_clip, "CLIP, encoders of images and texts into one space"),
    "llama": (_llama, "Llama, a text decoder with rotary positions and grouped key and value heads"),
    "mixtral": (_mixtral, "Mixtral, a text decoder with a mixture of experts, two of four for each token"),
    "mamba": (_mamba, "Mamba, a text decoder with a state-space recurrence instead of attention"),
}
MODERATE_ONES = ("bert", "gpt2", "vit", "resnet", "detr", "t5")
"""Those that benchmarks run."""


def _gpt2_published(width: int, layers: int, heads: int) -> Blueprint:
    settings = {"n_embd": width, "n_layer": layers, "n_head": heads, "use_cache": False}
    return Blueprint("GPT2LMHeadModel", settings, _text(1, 1024))


def _vit_published(**settings: int) -> Blueprint:
    return Blueprint("ViTForImageClassification", {"num_labels": 1000, **settings}, _image(1, 224, 224))


def _resnet_published(*depths: int, **settings: Any) -> Blueprint:
    return Blueprint(
        "ResNetForImageClassification",
        {"num_labels": 1000, "depths": list(depths), **settings},
        _image(1, 224, 224),
    )


LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
NO_CACHE = {"use_cache": False}

PUBLISHED: dict[str, tuple[Blueprint, str]] = {
    "bert-base": (Blueprint("BertModel", {}, _masked_text(1, 128)), "BERT-base; a text of 128 tokens"),
    "bert-large": (Blueprint("BertModel", LARGE, _masked_text(1, 128)), "BERT-large; a text of 128 tokens"),
    "gpt2-small": (_gpt2_published(768, 12, 12), "GPT-2 of 124 million parameters; a text of 1024 tokens"),
    "gpt2-medium": (_gpt2_published(1024, 24, 16), "GPT-2 of 355 million parameters; a text of 1024 tokens"),
    "gpt2-large": (_gpt2_published(1280, 36, 20), "GPT-2 of 774 million parameters; a text of 1024 tokens"),
    "gpt2-xl": (_gpt2_published(1600, 48, 25), "GPT-2 of 1.5 billion parameters; a text of 1024 tokens"),
    "vit-b16": (_vit_published(), "ViT-B/16, classifier of 1000 classes; an image of 224²"),
    "vit-l16": (_vit_published(**LARGE), "ViT-L/16, classifier of 1000 classes; an image of 224²"),
    "resnet18": (
        _resnet_published(2, 2, 2, 2, layer_type="basic", hidden_sizes=[64, 128, 256, 512]),
        "ResNet-18, classifier of 1000 classes; an image of 224²",
    ),
    "resnet50": (_resnet_published(3, 4, 6, 3), "ResNet-50, classifier of 1000 classes; an image of 224²"),
    "resnet101": (_resnet_published(3, 4, 23, 3), "ResNet-101, classifier of 1000 classes; an image of 224²"),
    "detr-r50": (
        Blueprint(
            "DetrForObjectDetection",
            {**WITHOUT_TIMM, "num_labels": 91, "backbone_config": {"model_type": "resnet", "out_features": ["stage4"]}},
            _image(1, 800, 1066),
        ),
        "DETR with ResNet-50 for COCO; an image of 800 × 1066, most usual there",
    ),
    "rt-detr-r50": (
        Blueprint("RTDetrForObjectDetection", {"num_labels": 80}, _image(1, 640, 640)),
        "RT-DETR with ResNet-50 for COCO; an image of 640²",
    ),
    "yolos-base": (
        Blueprint("YolosForObjectDetection", {"num_labels": 91, "image_size": [800, 1344]}, _image(1, 800, 1344)),
        "YOLOS-base for COCO; an image of 800 × 1344",
    ),
    "t5-small": (Blueprint("T5ForConditionalGeneration", NO_CACHE, _text_pair(1, 512)), "T5-small; 512 tokens each"),
    "whisper-tiny": (
        Blueprint("WhisperForConditionalGeneration", NO_CACHE, _speech(1, 448)),
        "Whisper tiny; 30 seconds of speech and 448 tokens",
    ),
    "clip-b32": (
        Blueprint("CLIPModel", {}, _image_and_text(1, 224, 77)),
        "CLIP ViT-B/32; an image of 224² and a text of 77 tokens",
    ),
    "llama-7b": (Blueprint("LlamaForCausalLM", NO_CACHE, _text(1, 2048)), "Llama 7B; a text of 2048 tokens"),
    "mixtral-8x7b": (Blueprint("MixtralForCausalLM", NO_CACHE, _text(1, 2048)), "Mixtral 8×7B; a text of 2048 tokens"),
    "mamba-130m": (
        Blueprint("MambaForCausalLM", {"num_hidden_layers": 24, **NO_CACHE}, _text(1, 1024)),
        "Mamba 130M; a text of 1024 tokens",
    ),
}
"""Published models in their true size. Build them on the device `meta` to analyse them without weights."""


def recipes(size: SizeName) -> dict[str, Recipe]:
    """The models of one size, by name: `bert`, `bert-moderate`, `bert-base`."""
    if size == "published":
        chosen = PUBLISHED
    elif size == "moderate":
        chosen = {
            f"{name}-moderate": (ARCHITECTURES[name][0](MODERATE), ARCHITECTURES[name][1]) for name in MODERATE_ONES
        }
    else:
        chosen = {name: (make(TINY), text) for name, (make, text) in ARCHITECTURES.items()}
    return {
        name: Recipe(blueprint.build, f"{text} (HuggingFace, from its configuration, random weights).", size)
        for name, (blueprint, text) in chosen.items()
    }
