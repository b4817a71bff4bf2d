"""One door to every method of capture."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any

from fxopt_core.capture.failures import explain_failure
from fxopt_core.capture.isolation import (
    ExampleInputs,
    Model,
    private_copy,
    same_random_state,
    split_example_inputs,
)
from fxopt_core.capture.methods.aot import capture_with_aot_autograd
from fxopt_core.capture.methods.dynamo import capture_with_dynamo
from fxopt_core.capture.methods.exporting import capture_with_export
from fxopt_core.capture.methods.symbolic import capture_with_symbolic_trace
from fxopt_core.capture.result import Captured

Method = Callable[[Model, tuple[Any, ...], dict[str, Any], bool | None], Captured]

METHODS: dict[str, Method] = {
    "dynamo": capture_with_dynamo,
    "symbolic_trace": capture_with_symbolic_trace,
    "export": capture_with_export,
    "aot": capture_with_aot_autograd,
}
"""How a model can be captured, by the name that `capture` takes."""


def capture(
    model: Model, example_inputs: ExampleInputs, method: str = "dynamo", *, dynamic: bool | None = None
) -> Captured:
    """Turn one call of `model` into graphs.

    The model is called on the example inputs, but as a copy: parameters, buffers, attributes, training mode,
    inputs and random state of the caller's stay as they are. (A plain function cannot be copied: what it does
    to the world, it does.)

    | method | gives | where it cannot follow |
    |---|---|---|
    | `dynamo` | torch-level graphs, with graph breaks and guards | breaks the graph, Python runs the line |
    | `symbolic_trace` | one torch-level graph, modules as single nodes | error |
    | `export` | one ATen graph with its weights | error |
    | `aot` | ATen graphs of forward and backward, cut as by `dynamo` | breaks the graph |

    `dynamo` and `aot` reset Dynamo before and after (`torch._dynamo.reset()`): what this process has compiled
    so far compiles anew at its next call.

    Args:
        model: an `nn.Module` or a function.
        example_inputs: a tuple or list of positional arguments, or a dictionary of keyword arguments.
        method: one of the table.
        dynamic: whether sizes may vary: `True` puts symbols in their place, `False` fixes them, `None` leaves
            the choice to the method. `symbolic_trace` knows no sizes and takes only `None`.

    Raises:
        CaptureError: the method cannot capture this model; it names the reason and what to try.
        ValueError: there is no such method, or it takes no `dynamic`.
        TypeError: `example_inputs` is neither positional nor keyword arguments.
    """
    if method not in METHODS:
        near = difflib.get_close_matches(str(method), METHODS, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"there is no capture method {method!r}; the methods are {', '.join(METHODS)}.{hint}")
    if method == "symbolic_trace" and dynamic is not None:
        raise ValueError('method="symbolic_trace" knows no sizes; leave dynamic out.')
    args, kwargs = split_example_inputs(example_inputs)
    with same_random_state(model, args, kwargs):
        copied = private_copy(model, args, kwargs, method)
        try:
            return METHODS[method](*copied, dynamic)
        except Exception as error:
            raise explain_failure(error, method, *private_copy(model, args, kwargs, method)) from error
