"""The blocks of YOLOv8 and YOLO11, under the names of their publication.

Every block takes and gives feature maps `[batch, channels, height, width]`. Source of the architecture: the model
configurations and block diagrams of Ultralytics YOLOv8 (2023) and YOLO11 (2024).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn


class Conv(nn.Module):
    """Convolution without bias, batch normalisation, SiLU.

    The edge of the map is divided by `stride`. `groups` as in `torch.nn.Conv2d`.
    """

    def __init__(
        self, inputs: int, outputs: int, kernel: int = 1, stride: int = 1, groups: int = 1, activation: bool = True
    ) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
        self.normalization = nn.BatchNorm2d(outputs, eps=1e-3, momentum=0.03)
        self.activation = nn.SiLU() if activation else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Convolved, normalised, activated."""
        return self.activation(self.normalization(self.convolution(x)))


class Bottleneck(nn.Module):
    """Two 3 × 3 convolutions, the first of `expansion` times the channels, around which the input may pass by."""

    def __init__(self, channels: int, shortcut: bool, expansion: float) -> None:
        super().__init__()
        hidden = int(channels * expansion)
        self.first = Conv(channels, hidden, 3)
        self.second = Conv(hidden, channels, 3)
        self.shortcut = shortcut

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The convolved map, plus the input if there is a shortcut."""
        convolved = self.second(self.first(x))
        return x + convolved if self.shortcut else convolved


class C3k(nn.Module):
    """YOLO11's inner block: two bottlenecks beside one 1 × 1 convolution, concatenated and mixed."""

    def __init__(self, channels: int, shortcut: bool) -> None:
        super().__init__()
        hidden = channels // 2
        self.enter = Conv(channels, hidden)
        self.beside = Conv(channels, hidden)
        self.bottlenecks = nn.Sequential(*(Bottleneck(hidden, shortcut, expansion=1.0) for _ in range(2)))
        self.leave = Conv(2 * hidden, channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The mixture of both branches."""
        return self.leave(torch.cat((self.bottlenecks(self.enter(x)), self.beside(x)), 1))


class SplitAndChain(nn.Module):
    """What C2f and C3k2 share: half of the channels go through a chain of blocks, and every link is kept and mixed.

    Args:
        inputs: channels.
        hidden: channels of each half.
        outputs: channels.
        chain: blocks from `hidden` to `hidden` channels.
    """

    def __init__(self, inputs: int, hidden: int, outputs: int, chain: Sequence[nn.Module]) -> None:
        super().__init__()
        self.enter = Conv(inputs, 2 * hidden)
        self.chain = nn.ModuleList(chain)
        self.leave = Conv((2 + len(chain)) * hidden, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The mixture of both halves and of what each block gave."""
        links = list(self.enter(x).chunk(2, 1))
        for block in self.chain:
            links.append(block(links[-1]))
        return self.leave(torch.cat(links, 1))


class C2f(SplitAndChain):
    """YOLOv8's block: a chain of `repeats` bottlenecks over half of the output's channels."""

    def __init__(self, inputs: int, outputs: int, repeats: int, shortcut: bool) -> None:
        half = outputs // 2
        super().__init__(inputs, half, outputs, [Bottleneck(half, shortcut, expansion=1.0) for _ in range(repeats)])


class C3k2(SplitAndChain):
    """YOLO11's block: a chain of `repeats` blocks, of the kind C3k where `deep`, else bottlenecks.

    The halves have `expansion` times the channels of the output.
    """

    def __init__(self, inputs: int, outputs: int, repeats: int, deep: bool, expansion: float = 0.5) -> None:
        hidden = int(outputs * expansion)
        chain = [
            C3k(hidden, shortcut=True) if deep else Bottleneck(hidden, shortcut=True, expansion=0.5)
            for _ in range(repeats)
        ]
        super().__init__(inputs, hidden, outputs, chain)


class SPPF(nn.Module):
    """Spatial pyramid pooling, fast: three poolings of 5 × 5 one after the other see 5, 9 and 13 positions wide."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        hidden = channels // 2
        self.enter = Conv(channels, hidden)
        self.pool = nn.MaxPool2d(kernel_size=5, stride=1, padding=2)
        self.leave = Conv(4 * hidden, channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The mixture of the map and its three poolings."""
        levels = [self.enter(x)]
        for _ in range(3):
            levels.append(self.pool(levels[-1]))
        return self.leave(torch.cat(levels, 1))


class PositionAttention(nn.Module):
    """Self-attention over the positions of a map; keys and queries are half as wide as values (64 a head).

    A depthwise convolution of the values stands for the encoding of positions.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.heads = channels // 64
        self.value_width = channels // self.heads
        self.key_width = self.value_width // 2
        self.qkv = Conv(channels, channels + 2 * self.heads * self.key_width, activation=False)
        self.positions = Conv(channels, channels, 3, groups=channels, activation=False)
        self.project = Conv(channels, channels, activation=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """What each position collects from all."""
        batch, channels, height, width = x.shape
        qkv = self.qkv(x).view(batch, self.heads, 2 * self.key_width + self.value_width, height * width)
        query, key, value = qkv.split((self.key_width, self.key_width, self.value_width), dim=2)
        weights = (query.transpose(-2, -1) @ key * self.key_width**-0.5).softmax(-1)
        collected = (value @ weights.transpose(-2, -1)).reshape(batch, channels, height, width)
        return self.project(collected + self.positions(value.reshape(batch, channels, height, width)))


class PSABlock(nn.Module):
    """Attention and a feed-forward network of 1 × 1 convolutions, each with its input added."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.attention = PositionAttention(channels)
        self.feed_forward = nn.Sequential(Conv(channels, 2 * channels), Conv(2 * channels, channels, activation=False))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The map after both."""
        attended = x + self.attention(x)
        return attended + self.feed_forward(attended)


class C2PSA(nn.Module):
    """YOLO11's attention stage: half of the channels go through `repeats` attention blocks, the other half past."""

    def __init__(self, channels: int, repeats: int) -> None:
        super().__init__()
        self.enter = Conv(channels, channels)
        self.blocks = nn.Sequential(*(PSABlock(channels // 2) for _ in range(repeats)))
        self.leave = Conv(channels, channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The mixture of both halves."""
        past, through = self.enter(x).chunk(2, 1)
        return self.leave(torch.cat((past, self.blocks(through)), 1))
