"""One door to every method of capture."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any

from fxopt_core.capture.errors import CaptureError
from fxopt_core.capture.isolation import (
    ExampleInputs,
    Model,
    private_copy,
    same_random_state,
    split_example_inputs,
)
from fxopt_core.capture.methods.dynamo import capture_with_dynamo
from fxopt_core.capture.result import Captured

METHODS: dict[str, Callable[[Model, tuple[Any, ...], dict[str, Any], bool | None], Captured]] = {
    "dynamo": capture_with_dynamo,
}


def capture(
    model: Model, example_inputs: ExampleInputs, method: str = "dynamo", *, dynamic: bool | None = None
) -> Captured:
    """Capture the graphs that a model computes on example inputs.

    A copy of the model runs on a copy of the inputs; neither they nor the random state change.

    Args:
        model: a module or a function of tensors.
        example_inputs: positional arguments (a tuple or list) or keyword arguments (a dictionary).
        method: one of `METHODS`.
        dynamic: whether sizes are captured as symbols; `None` leaves it to the method.

    Raises:
        CaptureError: the method is unknown, or it cannot capture this model; the message says why and what to try.
        TypeError: `example_inputs` is neither a tuple, a list nor a dictionary.
    """
    if method not in METHODS:
        near = difflib.get_close_matches(method, METHODS, n=1)
        advice = f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(METHODS)}."
        raise CaptureError(method, f"no method is called {method!r}.", advice)
    args, kwargs = split_example_inputs(example_inputs)
    with same_random_state(model, args, kwargs):
        private_model, args, kwargs = private_copy(model, args, kwargs, method)
        return METHODS[method](private_model, args, kwargs, dynamic)
