"""How to get a graph out of a model."""

from fxopt_core.capture.capturing import capture
from fxopt_core.capture.extractor import GraphExtractor, Partition
from fxopt_core.capture.result import Captured, CaptureError, GraphBreak, Guard

__all__ = ["CaptureError", "Captured", "GraphBreak", "GraphExtractor", "Guard", "Partition", "capture"]
