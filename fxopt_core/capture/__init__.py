"""How to get a graph out of a model, and everything that the graph does not say about it."""

from __future__ import annotations

import inspect
import sys
from types import ModuleType

from fxopt_core.capture.agreement import Agreement
from fxopt_core.capture.captured_graph import CapturedGraph, GraphInput
from fxopt_core.capture.capturing import capture, capture_methods
from fxopt_core.capture.dimensions import Dimension
from fxopt_core.capture.dynamo_log import GraphBreak, Guard
from fxopt_core.capture.errors import CaptureError, RefusedInputError
from fxopt_core.capture.methods.dynamo import GraphExtractor
from fxopt_core.capture.result import Attempt, Captured, Symbol

__all__ = [
    "Agreement",
    "Attempt",
    "CaptureError",
    "Captured",
    "CapturedGraph",
    "Dimension",
    "GraphBreak",
    "GraphExtractor",
    "GraphInput",
    "Guard",
    "RefusedInputError",
    "Symbol",
    "capture",
    "capture_methods",
]


class _Callable(ModuleType):
    """This package, which can be called like its `capture`: `from fxopt_core import capture` finds one or the other."""

    __call__ = staticmethod(capture)


sys.modules[__name__].__class__ = _Callable
__signature__ = inspect.signature(capture)
