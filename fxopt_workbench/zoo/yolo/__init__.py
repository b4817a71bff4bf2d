"""YOLOv8 and YOLO11, object detectors, written from their published architecture with random weights."""

from fxopt_workbench.zoo.yolo.detector import YOLO11_SCALES, YOLOV8_SCALES, Detector, yolo11, yolov8
from fxopt_workbench.zoo.yolo.recipes import RECIPES

__all__ = ["RECIPES", "YOLO11_SCALES", "YOLOV8_SCALES", "Detector", "yolo11", "yolov8"]
