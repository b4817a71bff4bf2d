"""YOLOv8 and YOLO11 put together from their blocks, at every published scale.

A backbone makes maps of strides 8, 16 and 32; the neck passes meaning down to the fine maps (FPN) and places back up to
the coarse ones (PAN); the head reads all three. Sources: the model configurations `yolov8.yaml` and `yolo11.yaml` of
Ultralytics, which list depth, width and largest number of channels of each scale, and parameters of the whole.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn

from fxopt_workbench.zoo.yolo.blocks import C2PSA, SPPF, C2f, C3k2, Conv
from fxopt_workbench.zoo.yolo.head import Detect

CLASSES = 80
"""Of the COCO data set, to which the published figures refer."""


Channels = tuple[int, int, int]
"""Of three maps, the finest first."""

Maps = tuple[torch.Tensor, torch.Tensor, torch.Tensor]

Mix = Callable[[int, int], nn.Module]
"""Makes a block from so many channels to so many."""


@dataclass(frozen=True)
class Scale:
    """How deep and wide one member of the family is.

    Attributes:
        depth: factor on the number of blocks in a chain.
        width: factor on channels.
        most: channels of the widest layer before that factor.
    """

    depth: float
    width: float
    most: int

    def channels(self, base: int) -> int:
        """Channels where the family's description says `base`: scaled, up to a multiple of eight."""
        scaled = min(base, self.most) * self.width
        return -int(-scaled // 8) * 8

    def repeats(self, base: int) -> int:
        """Blocks where the family's description says `base`: at least one."""
        return max(round(base * self.depth), 1)


YOLOV8_SCALES = {
    "n": Scale(0.33, 0.25, 1024),
    "s": Scale(0.33, 0.50, 1024),
    "m": Scale(0.67, 0.75, 768),
    "l": Scale(1.00, 1.00, 512),
    "x": Scale(1.00, 1.25, 512),
}
YOLO11_SCALES = {"n": Scale(0.50, 0.25, 1024), "s": Scale(0.50, 0.50, 1024), "m": Scale(0.50, 1.00, 512)}


class Backbone(nn.Module):
    """Stages that halve the edge of the map each; the last three give their maps away.

    Takes images `[batch, 3, height, width]`; gives maps of strides 8, 16 and 32.
    """

    def __init__(self, to_8: nn.Module, to_16: nn.Module, to_32: nn.Module) -> None:
        super().__init__()
        self.to_8, self.to_16, self.to_32 = to_8, to_16, to_32

    def forward(self, images: torch.Tensor) -> Maps:
        """The three maps, the finest first."""
        fine = self.to_8(images)
        middle = self.to_16(fine)
        return fine, middle, self.to_32(middle)


class Neck(nn.Module):
    """A path from the coarsest map to the finest and one back; on both, maps of one stride are joined and mixed.

    Takes and gives maps of strides 8, 16 and 32.

    Args:
        inputs: channels of the three maps that come.
        outputs: channels of the three maps that go.
        mix: makes the blocks that mix.
        mix_last: makes the last of them, of the coarsest map.
    """

    def __init__(self, inputs: Channels, outputs: Channels, mix: Mix, mix_last: Mix) -> None:
        super().__init__()
        fine, middle, coarse = outputs
        self.enlarge = nn.Upsample(scale_factor=2, mode="nearest")
        self.down_16 = mix(inputs[2] + inputs[1], middle)
        self.down_8 = mix(middle + inputs[0], fine)
        self.halve_8 = _halve(fine, fine)
        self.up_16 = mix(fine + middle, middle)
        self.halve_16 = _halve(middle, middle)
        self.up_32 = mix_last(middle + inputs[2], coarse)

    def forward(self, fine: torch.Tensor, middle: torch.Tensor, coarse: torch.Tensor) -> Maps:
        """The three maps for the head."""
        middle = self.down_16(torch.cat((self.enlarge(coarse), middle), 1))
        fine = self.down_8(torch.cat((self.enlarge(middle), fine), 1))
        middle = self.up_16(torch.cat((self.halve_8(fine), middle), 1))
        coarse = self.up_32(torch.cat((self.halve_16(middle), coarse), 1))
        return fine, middle, coarse


class Detector(nn.Module):
    """A whole detector.

    Takes images `[batch, 3, height, width]`, `float32`, edges multiples of 32; gives what `Detect` gives: in
    evaluation `[batch, 4 + classes, positions]`, at 640² 8400 positions.
    """

    def __init__(self, backbone: Backbone, neck: Neck, head: Detect) -> None:
        super().__init__()
        self.backbone, self.neck, self.head = backbone, neck, head

    def forward(self, images: torch.Tensor) -> torch.Tensor | list[torch.Tensor]:
        """Boxes and scores of all positions; in training the raw maps."""
        return self.head(*self.neck(*self.backbone(images)))


def _halve(inputs: int, outputs: int) -> Conv:
    """A convolution that halves the edge of a map."""
    return Conv(inputs, outputs, kernel=3, stride=2)


def yolov8(scale: Scale, classes: int = CLASSES) -> Detector:
    """YOLOv8 with random weights."""
    c64, c128, c256, c512, c1024 = (scale.channels(base) for base in (64, 128, 256, 512, 1024))
    three, six = scale.repeats(3), scale.repeats(6)
    to_4 = nn.Sequential(_halve(3, c64), _halve(c64, c128), C2f(c128, c128, three, shortcut=True))
    to_8 = nn.Sequential(to_4, _halve(c128, c256), C2f(c256, c256, six, shortcut=True))
    to_16 = nn.Sequential(_halve(c256, c512), C2f(c512, c512, six, shortcut=True))
    to_32 = nn.Sequential(_halve(c512, c1024), C2f(c1024, c1024, three, shortcut=True), SPPF(c1024))
    mix = partial(C2f, repeats=three, shortcut=False)
    outputs = (c256, c512, c1024)
    neck = Neck(outputs, outputs, mix, mix)
    return Detector(Backbone(to_8, to_16, to_32), neck, Detect(outputs, classes, depthwise=False))


def yolo11(scale: Scale, classes: int = CLASSES) -> Detector:
    """YOLO11 with random weights. From scale m on, all its chains are of the deep kind."""
    c64, c128, c256, c512, c1024 = (scale.channels(base) for base in (64, 128, 256, 512, 1024))
    two = scale.repeats(2)
    usual = partial(C3k2, repeats=two, deep=scale.width >= 1.0)
    deep = partial(C3k2, repeats=two, deep=True)
    to_4 = nn.Sequential(_halve(3, c64), _halve(c64, c128), usual(c128, c256, expansion=0.25))
    to_8 = nn.Sequential(to_4, _halve(c256, c256), usual(c256, c512, expansion=0.25))
    to_16 = nn.Sequential(_halve(c512, c512), deep(c512, c512))
    to_32 = nn.Sequential(_halve(c512, c1024), deep(c1024, c1024), SPPF(c1024), C2PSA(c1024, two))
    outputs = (c256, c512, c1024)
    neck = Neck((c512, c512, c1024), outputs, usual, deep)
    return Detector(Backbone(to_8, to_16, to_32), neck, Detect(outputs, classes, depthwise=True))
