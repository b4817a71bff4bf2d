"""Two plain convolutional classifiers, a small one and a deep one."""

from __future__ import annotations

import torch
from torch import nn

DESCRIPTION = "A convolutional classifier of grey images: two convolutions with pooling, two linear layers."
DEEP_DESCRIPTION = "A deep convolutional classifier: twelve convolutions with batch normalisation, one after the other."


def build() -> tuple[nn.Module, tuple[torch.Tensor]]:
    """The classifier, from `[batch, 1, 28, 28]` to `[batch, 10]`, `float32`, and two images."""
    first = [nn.Conv2d(1, 8, kernel_size=3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    second = [nn.Conv2d(8, 16, kernel_size=3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    network = nn.Sequential(*first, *second, nn.Flatten(), nn.Linear(16 * 7 * 7, 32), nn.ReLU(), nn.Linear(32, 10))
    return network, (torch.randn(2, 1, 28, 28),)


def build_deep() -> tuple[nn.Module, tuple[torch.Tensor]]:
    """The classifier, from `[batch, 3, height, width]` to `[batch, 10]`, `float32`, and two images of 32 × 32."""
    layers: list[nn.Module] = []
    channels = 3
    for width in (16, 32, 64):
        for step in range(4):
            stride = 2 if step == 0 else 1
            layers += [nn.Conv2d(channels, width, 3, stride, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
            channels = width
    network = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10))
    return network, (torch.randn(2, 3, 32, 32),)
