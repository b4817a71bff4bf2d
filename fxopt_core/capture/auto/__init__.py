"""`method="auto"`: tries ways of capture from the most to the least faithful until one is verified."""

from fxopt_core.capture.auto.search import capture_automatically

__all__ = ["capture_automatically"]
