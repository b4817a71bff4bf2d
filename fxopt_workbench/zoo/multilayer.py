"""A multilayer perceptron: nothing but linear layers and activations."""

from __future__ import annotations

import torch
from torch import nn

DESCRIPTION = "A multilayer perceptron: three linear layers with ReLU between them."


def build() -> tuple[nn.Module, tuple[torch.Tensor]]:
    """The network, from `[batch, 32]` to `[batch, 10]`, `float32`, and a batch of four rows."""
    network = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    return network, (torch.randn(4, 32),)
