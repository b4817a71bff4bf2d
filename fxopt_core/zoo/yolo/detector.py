"""YOLOv8 and YOLO11 put together from their blocks, at every published scale.

A backbone makes maps of strides 8, 16 and 32; the neck passes meaning down to the fine maps (FPN) and places back up to
the coarse ones (PAN); the head reads all three. Sources: the model configurations `yolov8.yaml` and `yolo11.yaml` of
Ultralytics, which list depth, width and largest number of channels of each scale, and parameters of the whole.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from fxopt_core.zoo.yolo.blocks import C2PSA, SPPF, C2f, C3k2, Conv
from fxopt_core.zoo.yolo.head import Detect

CLASSES = 80
"""Of the COCO data set, to which the published figures refer."""


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
        self.to_8 = to_8
        self.to_16 = to_16
        self.to_32 = to_32

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The three maps, the finest first."""
        fine = self.to_8(images)
        middle = self.to_16(fine)
        return fine, middle, self.to_32(middle)


class Neck(nn.Module):
    """A path from the coarsest map to the finest and one back; on both, maps of one stride are joined and mixed.

    Takes and gives maps of strides 8, 16 and 32.

    Args:
        down_16, down_8: mix the upsampled coarser map with the backbone's.
        halve_8, halve_16: halve the edge of a map.
        up_16, up_32: mix the halved finer map with the one of the way down.
    """

    def __init__(
        self,
        down_16: nn.Module,
        down_8: nn.Module,
        halve_8: nn.Module,
        up_16: nn.Module,
        halve_16: nn.Module,
        up_32: nn.Module,
    ) -> None:
        super().__init__()
        self.enlarge = nn.Upsample(scale_factor=2, mode="nearest")
        self.down_16, self.down_8 = down_16, down_8
        self.halve_8, self.up_16 = halve_8, up_16
        self.halve_16, self.up_32 = halve_16, up_32

    def forward(
        self, fine: torch.Tensor, middle: torch.Tensor, coarse: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
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
        self.backbone = backbone
        self.neck = neck
        self.head = head

    def forward(self, images: torch.Tensor) -> torch.Tensor | list[torch.Tensor]:
        """Boxes and scores of all positions; in training the raw maps."""
        return self.head(*self.neck(*self.backbone(images)))


def yolov8(scale: Scale, classes: int = CLASSES) -> Detector:
    """YOLOv8 with random weights."""
    c64, c128, c256, c512, c1024 = (scale.channels(base) for base in (64, 128, 256, 512, 1024))
    three, six = scale.repeats(3), scale.repeats(6)
    backbone = Backbone(
        to_8=nn.Sequential(
            Conv(3, c64, 3, stride=2),
            Conv(c64, c128, 3, stride=2),
            C2f(c128, c128, three, shortcut=True),
            Conv(c128, c256, 3, stride=2),
            C2f(c256, c256, six, shortcut=True),
        ),
        to_16=nn.Sequential(Conv(c256, c512, 3, stride=2), C2f(c512, c512, six, shortcut=True)),
        to_32=nn.Sequential(Conv(c512, c1024, 3, stride=2), C2f(c1024, c1024, three, shortcut=True), SPPF(c1024)),
    )
    neck = Neck(
        down_16=C2f(c1024 + c512, c512, three, shortcut=False),
        down_8=C2f(c512 + c256, c256, three, shortcut=False),
        halve_8=Conv(c256, c256, 3, stride=2),
        up_16=C2f(c256 + c512, c512, three, shortcut=False),
        halve_16=Conv(c512, c512, 3, stride=2),
        up_32=C2f(c512 + c1024, c1024, three, shortcut=False),
    )
    return Detector(backbone, neck, Detect((c256, c512, c1024), classes, depthwise=False))


def yolo11(scale: Scale, classes: int = CLASSES) -> Detector:
    """YOLO11 with random weights. From scale m on, all its chains are of the deep kind."""
    c64, c128, c256, c512, c1024 = (scale.channels(base) for base in (64, 128, 256, 512, 1024))
    two = scale.repeats(2)
    deep = scale.width >= 1.0
    backbone = Backbone(
        to_8=nn.Sequential(
            Conv(3, c64, 3, stride=2),
            Conv(c64, c128, 3, stride=2),
            C3k2(c128, c256, two, deep, expansion=0.25),
            Conv(c256, c256, 3, stride=2),
            C3k2(c256, c512, two, deep, expansion=0.25),
        ),
        to_16=nn.Sequential(Conv(c512, c512, 3, stride=2), C3k2(c512, c512, two, deep=True)),
        to_32=nn.Sequential(
            Conv(c512, c1024, 3, stride=2), C3k2(c1024, c1024, two, deep=True), SPPF(c1024), C2PSA(c1024, two)
        ),
    )
    neck = Neck(
        down_16=C3k2(c1024 + c512, c512, two, deep),
        down_8=C3k2(c512 + c512, c256, two, deep),
        halve_8=Conv(c256, c256, 3, stride=2),
        up_16=C3k2(c256 + c512, c512, two, deep),
        halve_16=Conv(c512, c512, 3, stride=2),
        up_32=C3k2(c512 + c1024, c1024, two, deep=True),
    )
    return Detector(backbone, neck, Detect((c256, c512, c1024), classes, depthwise=True))
