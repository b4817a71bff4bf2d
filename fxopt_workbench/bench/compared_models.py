"""The six models on which engines are compared: full width, and few layers where the whole would take long."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from fxopt_workbench.zoo import build, huggingface
from fxopt_workbench.zoo.huggingface import NO_CACHE, Example, InputMaker, Settings
from fxopt_workbench.zoo.published import STAGES

NAMES = ("cnn", "resnet50", "bert", "gpt2", "vit", "detr")
"""A small convolutional network, ResNet-50, and four transformers."""

TEXT, IMAGE, SCENE = Example(tokens=128), Example(pixels=(224, 224)), Example(pixels=(320, 320))
DETR = huggingface.WITHOUT_TIMM | STAGES | {"encoder_layers": 2, "decoder_layers": 2}

FULL: dict[str, tuple[str, Settings, InputMaker, Example]] = {
    "resnet50": ("ResNetModel", {}, huggingface.image, IMAGE),
    "bert": ("BertModel", {"num_hidden_layers": 4}, huggingface.masked_text, TEXT),
    "gpt2": ("GPT2Model", NO_CACHE | {"n_layer": 4}, huggingface.text, TEXT),
    "vit": ("ViTModel", {"num_hidden_layers": 4}, huggingface.image, IMAGE),
    "detr": ("DetrModel", DETR, huggingface.image, SCENE),
}
"""Class, what its configuration has other than the published model's, inputs and how large they are."""

TINY = {"cnn": "cnn", "resnet50": "resnet"}
"""Names in the zoo of the small versions, where they have another one."""


def compared_model(name: str, *, tiny: bool = False, attention: str = "eager") -> tuple[nn.Module, Any]:
    """One of the six, from the seed 0 and in evaluation mode, with example inputs.

    Args:
        name: one of `NAMES`.
        tiny: the small version, to see whether everything works.
        attention: how transformers computes it: `eager` (written out) or `sdpa`.

    Raises:
        ModuleNotFoundError: transformers is not installed.
    """
    if name == "cnn" or tiny:
        chosen = build(TINY.get(name, name) if tiny else "deep-cnn", "cpu")
        model, inputs = chosen.model, chosen.example_inputs
    else:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model, inputs = huggingface.make(*FULL[name])
    choose: Any = getattr(model, "set_attn_implementation", None)
    if choose is not None:
        choose(attention)
    return model.eval(), inputs
