"""A small convolutional network: every capture method gets it whole."""

from __future__ import annotations

import torch
from torch import nn

DESCRIPTION = "A small convolutional network for images: convolutions, batch normalisation, pooling, one linear layer."


class SimpleNetwork(nn.Module):
    """Two convolutions with batch normalisation, global average pooling and a classifier of ten classes.

    Takes images `[batch, 3, height, width]`, `float32`; gives logits `[batch, 10]`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 16, kernel_size=3, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, kernel_size=3, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
        )
        self.classifier = nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits of the images `x`."""
        return self.classifier(torch.flatten(self.features(x), 1))


def build() -> tuple[nn.Module, tuple[torch.Tensor]]:
    """The network, and two images of 64 × 64."""
    return SimpleNetwork(), (torch.randn(2, 3, 64, 64),)
