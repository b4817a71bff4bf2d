"""How to get a graph out of a model."""

from fxopt_core.capture.breaks import GraphBreak
from fxopt_core.capture.capturing import capture
from fxopt_core.capture.errors import CaptureError
from fxopt_core.capture.extractor import GraphExtractor
from fxopt_core.capture.guards import Guard
from fxopt_core.capture.partition import Partition
from fxopt_core.capture.result import Captured

__all__ = ["CaptureError", "Captured", "GraphBreak", "GraphExtractor", "Guard", "Partition", "capture"]
