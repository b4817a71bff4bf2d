"""Real architectures for tests of passes, whose attention is written out in plain operations."""

from typing import Any

from torch import nn

from fxopt_workbench import zoo

ARCHITECTURES = ("bert", "gpt2", "vit", "resnet", "detr", "t5")
"""Encoder, decoder, vision transformer, convolutional network, detector, encoder with decoder."""


def with_attention_written_out(name: str) -> tuple[nn.Module, dict[str, Any]]:
    """The tiny model of the zoo without the fused operator of attention, and keyword inputs for it."""
    chosen = zoo.build(name, "cpu")
    model: Any = chosen.model
    model.set_attn_implementation("eager")
    return model, dict(chosen.example_inputs)
