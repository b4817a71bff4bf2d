"""Published models from HuggingFace in their true size with random weights; the device `meta` builds them without.

The defaults of most configurations in transformers are those of a published model; a row states what differs.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from fxopt_workbench.zoo import huggingface as small
from fxopt_workbench.zoo.huggingface import NO_CACHE, Example, InputMaker, Settings, image, masked_text, text
from fxopt_workbench.zoo.recipe import Recipe

LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
LABELS = {"num_labels": 1000}
COCO = {"num_labels": 91}
"""The largest number of a class in COCO is 90; DETR and YOLOS count up to there."""

STAGES = {"backbone_config": {"model_type": "resnet", "out_features": ["stage4"]}}


def _gpt2(width: int, layers: int, heads: int) -> Settings:
    return NO_CACHE | {"n_embd": width, "n_layer": layers, "n_head": heads}


SHORT, LONG, SQUARE = Example(tokens=128), Example(tokens=1024), Example(pixels=(224, 224))

Row = tuple[str, Settings, InputMaker, Example]
PUBLISHED: dict[str, Row] = {
    "bert-base": ("BertModel", {}, masked_text, SHORT),
    "bert-large": ("BertModel", LARGE, masked_text, SHORT),
    "gpt2-small": ("GPT2LMHeadModel", _gpt2(768, 12, 12), text, LONG),
    "gpt2-medium": ("GPT2LMHeadModel", _gpt2(1024, 24, 16), text, LONG),
    "gpt2-large": ("GPT2LMHeadModel", _gpt2(1280, 36, 20), text, LONG),
    "gpt2-xl": ("GPT2LMHeadModel", _gpt2(1600, 48, 25), text, LONG),
    "vit-b16": ("ViTForImageClassification", LABELS, image, SQUARE),
    "vit-l16": ("ViTForImageClassification", LABELS | LARGE, image, SQUARE),
    "resnet50": ("ResNetForImageClassification", LABELS, image, SQUARE),
    "resnet101": ("ResNetForImageClassification", LABELS | {"depths": [3, 4, 23, 3]}, image, SQUARE),
    # Most images of COCO are 480 × 640, which DETR enlarges to a short side of 800.
    "detr-r50": ("DetrForObjectDetection", small.WITHOUT_TIMM | COCO | STAGES, image, Example(pixels=(800, 1066))),
    "rt-detr-r50": ("RTDetrForObjectDetection", {"num_labels": 80}, image, Example(pixels=(640, 640))),
    "yolos-base": ("YolosForObjectDetection", COCO | {"image_size": [800, 1344]}, image, Example(pixels=(800, 1344))),
    "t5-small": ("T5ForConditionalGeneration", NO_CACHE, small.text_pair, Example(tokens=512)),
    "whisper-tiny": ("WhisperForConditionalGeneration", NO_CACHE, small.speech, Example(tokens=448)),
    "clip-b32": ("CLIPModel", {}, small.image_and_text, Example(tokens=77, pixels=(224, 224))),
    "llama-7b": ("LlamaForCausalLM", NO_CACHE, text, LONG),
    "mixtral-8x7b": ("MixtralForCausalLM", NO_CACHE, text, LONG),
    # The recurrence of Mamba runs token by token where its kernels are not installed: a short text.
    "mamba-130m": ("MambaForCausalLM", NO_CACHE | {"num_hidden_layers": 24}, text, Example(tokens=64)),
}


def _recipe(name: str, row: Row) -> Recipe:
    example: Any = row[-1]
    height, width = example.pixels
    given = [f"{example.tokens} tokens"] * bool(example.tokens) + [f"an image of {height} × {width}"] * bool(height)
    said = f"The published {name} from HuggingFace ({row[0]}) with random weights; {' and '.join(given)}."
    return Recipe(partial(small.make, *row), said, "published")


RECIPES = {name: _recipe(name, row) for name, row in PUBLISHED.items()}
