"""One door to every method of capture."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import nn

from fxopt_core.capture.dynamo import capture_by_dynamo
from fxopt_core.capture.result import Captured, CaptureError

METHODS: dict[str, Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Captured]] = {
    "dynamo": capture_by_dynamo,
}


def capture(
    model: nn.Module | Callable[..., Any],
    example_inputs: Sequence[Any] | Mapping[str, Any],
    method: str = "dynamo",
) -> Captured:
    """Capture the graphs that a model computes on example inputs. The model itself is not changed.

    Args:
        model: a module or a function of tensors.
        example_inputs: positional arguments (a sequence) or keyword arguments (a mapping).
        method: one of `METHODS`.

    Raises:
        CaptureError: the method is unknown, or it cannot capture this model; the message says why and what to try.
    """
    if method not in METHODS:
        near = difflib.get_close_matches(method, METHODS, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise CaptureError(f"no capture method is called {method!r}; there are {', '.join(METHODS)}.{hint}")
    if isinstance(example_inputs, Mapping):
        return METHODS[method](model, (), dict(example_inputs))
    return METHODS[method](model, tuple(example_inputs), {})
