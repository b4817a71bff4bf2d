"""The detection head: at every position of three maps a box and a score for each class, without anchor boxes."""

from __future__ import annotations

import torch
from torch import nn

from fxopt_workbench.zoo.yolo.blocks import Conv

BINS = 16
"""Each distance from a position to a side of its box is a distribution over 0 … 15 strides."""

STRIDES = (8, 16, 32)
"""Pixels between neighbouring positions of the three maps."""


class DistributionToDistance(nn.Module):
    """Expected values of distributions, as a fixed convolution (the "DFL" of the publications: 16 weights, 0 … 15).

    Takes `[batch, 4 * 16, positions]`, unnormalised; gives `[batch, 4, positions]` in strides.
    Source: Li et al., Generalized Focal Loss, 2020.
    """

    def __init__(self) -> None:
        super().__init__()
        self.expectation = nn.Conv2d(BINS, 1, 1, bias=False)
        values = torch.arange(BINS, dtype=torch.float32).view(1, BINS, 1, 1)
        self.expectation.weight = nn.Parameter(values, requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Distances to the left, upper, right and lower side."""
        batch, _, positions = x.shape
        return self.expectation(x.view(batch, 4, BINS, positions).transpose(1, 2).softmax(1)).view(batch, 4, positions)


def positions_of(maps: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """Centres of all positions, `[2, positions]` (x, y) in strides, and the stride of each, `[1, positions]`."""
    centres, strides = [], []
    for one, stride in zip(maps, STRIDES, strict=True):
        height, width = one.shape[-2:]
        x = torch.arange(width, device=one.device, dtype=one.dtype) + 0.5
        y = torch.arange(height, device=one.device, dtype=one.dtype) + 0.5
        centres.append(torch.stack((x.repeat(height), y.repeat_interleave(width))))
        strides.append(torch.full((1, height * width), stride, device=one.device, dtype=one.dtype))
    return torch.cat(centres, 1), torch.cat(strides, 1)


class Detect(nn.Module):
    """Two small networks a map, one for boxes and one for classes.

    In evaluation: `[batch, 4 + classes, positions]`, boxes as centre x, centre y, width, height in pixels, scores in
    0 … 1. In training: the three raw maps, `[batch, 4 * 16 + classes, height, width]`.

    Args:
        channels: of the three maps.
        classes: how many.
        depthwise: whether the class networks use depthwise convolutions (YOLO11) or full ones (YOLOv8).
    """

    def __init__(self, channels: tuple[int, int, int], classes: int, depthwise: bool) -> None:
        super().__init__()
        self.classes = classes
        box_width = max(BINS, channels[0] // 4, 4 * BINS)
        class_width = max(channels[0], min(classes, 100))
        self.boxes = nn.ModuleList(_branch(c, box_width, 4 * BINS, depthwise=False) for c in channels)
        self.scores = nn.ModuleList(_branch(c, class_width, classes, depthwise) for c in channels)
        self.distances = DistributionToDistance()

    def forward(self, *features: torch.Tensor) -> torch.Tensor | list[torch.Tensor]:
        """Boxes and scores of all positions; in training the raw maps."""
        maps = [
            torch.cat((boxes(x), scores(x)), 1)
            for boxes, scores, x in zip(self.boxes, self.scores, features, strict=True)
        ]
        if self.training:
            return maps
        raw_boxes, raw_scores = torch.cat([one.flatten(2) for one in maps], 2).split((4 * BINS, self.classes), 1)
        centres, strides = positions_of(maps)
        before, after = self.distances(raw_boxes).chunk(2, 1)
        boxes = torch.cat((centres + (after - before) / 2, before + after), 1) * strides
        return torch.cat((boxes, raw_scores.sigmoid()), 1)


def _branch(inputs: int, width: int, outputs: int, depthwise: bool) -> nn.Sequential:
    """Two convolutions of 3 × 3, each either full, or depthwise and then 1 × 1, and a last one of 1 × 1."""
    layers: list[nn.Module] = []
    for channels in (inputs, width):
        if depthwise:
            layers += [Conv(channels, channels, 3, groups=channels), Conv(channels, width)]
        else:
            layers.append(Conv(channels, width, 3))
    return nn.Sequential(*layers, nn.Conv2d(width, outputs, 1))
