"""The detectors by name, with an image of the size to which the published figures refer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

from fxopt_workbench.zoo.recipe import Recipe
from fxopt_workbench.zoo.yolo.detector import YOLO11_SCALES, YOLOV8_SCALES, Detector, Scale, yolo11, yolov8

PIXELS = 640


def _build(make: Callable[[Scale], Detector], scale: Scale) -> tuple[Detector, tuple[torch.Tensor]]:
    return make(scale), (torch.randn(1, 3, PIXELS, PIXELS),)


RECIPES = {
    f"{family.lower()}{letter}": Recipe(
        partial(_build, make, scale),
        f"{family}{letter}, a convolutional detector of 80 classes, random weights; an image of {PIXELS}².",
        "published",
    )
    for family, make, scales in (("YOLOv8", yolov8, YOLOV8_SCALES), ("YOLO11", yolo11, YOLO11_SCALES))
    for letter, scale in scales.items()
}
"""YOLOv8 n, s, m, l, x and YOLO11 n, s, m."""
