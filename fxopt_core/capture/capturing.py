"""One door to every method of capture."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any

from fxopt_core.capture.auto import capture_automatically
from fxopt_core.capture.dimensions import Dynamic, named_leaves
from fxopt_core.capture.dynamic_argument import DynamicSpec, read_dynamic
from fxopt_core.capture.failures import explain_failure
from fxopt_core.capture.methods.aot import capture_with_aot_autograd
from fxopt_core.capture.methods.dynamo import capture_with_dynamo
from fxopt_core.capture.methods.exporting import capture_with_export
from fxopt_core.capture.methods.symbolic import capture_with_symbolic_trace
from fxopt_core.capture.new_values import new_values
from fxopt_core.capture.result import Captured
from fxopt_core.capture.second_run import with_second_run
from fxopt_core.verification.isolation import (
    ExampleInputs,
    Model,
    private_copy,
    same_random_state,
    split_example_inputs,
)
from fxopt_workbench.torchscript.capture import capture_with_jit_script, capture_with_jit_trace

Method = Callable[[Model, tuple[Any, ...], dict[str, Any], Dynamic], Captured]

METHODS: dict[str, Method] = {
    "auto": capture_automatically,
    "dynamo": capture_with_dynamo,
    "symbolic_trace": capture_with_symbolic_trace,
    "export": capture_with_export,
    "aot": capture_with_aot_autograd,
    "jit.trace": capture_with_jit_trace,
    "jit.script": capture_with_jit_script,
}
"""How a model can be captured, by the name that `capture` takes."""

KNOWS_NO_SIZES = frozenset({"symbolic_trace", "jit.trace", "jit.script"})
"""Methods that take no `dynamic`."""

COMPARED = KNOWS_NO_SIZES | {"export"}
"""Methods that run Python once and leave it behind: what they baked in shows on other values only."""


def capture(
    model: Model, example_inputs: ExampleInputs, method: str = "dynamo", *, dynamic: DynamicSpec = None
) -> Captured:
    """Turn one call of `model` into graphs.

    The model is called on the example inputs, but as a copy: parameters, buffers, attributes, training mode,
    inputs and random state of the caller's stay as they are. (A plain function cannot be copied: what it does
    to the world, it does.)

    | method | gives | where it cannot follow |
    |---|---|---|
    | `dynamo` | torch-level graphs, with graph breaks and guards | breaks the graph, Python runs the line |
    | `symbolic_trace` | one torch-level graph, modules as single nodes | error, or fixes Python's decisions |
    | `export` | one ATen graph with its weights | error |
    | `aot` | ATen graphs of forward and backward, cut as by `dynamo` | breaks the graph |
    | `jit.trace` | one TorchScript graph (deprecated, to compare with) | fixes what the example took |
    | `jit.script` | one TorchScript graph (deprecated, to compare with) | error |
    | `auto` | one graph that agrees with the model on several inputs, else Dynamo's, verified | error |

    `export`, `symbolic_trace`, `jit.trace`, `jit.script` and `auto` also call the model itself and compare
    (`Captured.agreements`): on the example, on new values of the same shapes, and on
    other sizes where `dynamic` names them. What disagrees is a caveat; `auto` takes no graph that disagrees.

    `dynamo`, `aot` and `auto` reset Dynamo before and after (`torch._dynamo.reset()`): what this process has
    compiled so far compiles anew at its next call.

    Args:
        model: an `nn.Module` or a function.
        example_inputs: a tuple or list of positional arguments, or a dictionary of keyword arguments.
        method: one of the table.
        dynamic: which sizes may vary. Dimensions by input and number, with a name and a range:
            `{"input_ids": {0: ("batch", 1, 64), 1: ("length", 2, 512)}, "mask": {0: "batch", 1: "length"}}`.
            The same name means the same size. Or `True` puts symbols in place of all sizes, `False` fixes them,
            `None` leaves the choice to the method. `symbolic_trace`, `jit.trace` and `jit.script` know no sizes and
            take only `None`.

    Raises:
        CaptureError: the method cannot capture this model, or a dimension does not hold its range; it names the
            reason and what to try.
        ValueError: there is no such method, it takes no `dynamic`, or `dynamic` does not fit the example inputs.
        TypeError: `example_inputs` is neither positional nor keyword arguments, or `dynamic` of another form.
    """
    if method not in METHODS:
        near = difflib.get_close_matches(str(method), METHODS, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"there is no capture method {method!r}; the methods are {', '.join(METHODS)}.{hint}")
    if method in KNOWS_NO_SIZES and dynamic is not None:
        raise ValueError(f'method="{method}" knows no sizes; leave dynamic out.')
    args, kwargs = split_example_inputs(example_inputs)
    chosen = read_dynamic(dynamic, named_leaves(model, args, kwargs))
    with same_random_state(model, args, kwargs):
        if method == "auto":
            # It makes its own copies, and compares with the model as it is.
            copied: tuple[Model, tuple[Any, ...], dict[str, Any]] = (model, args, kwargs)
        else:
            copied = private_copy(model, args, kwargs, method)
        try:
            captured = METHODS[method](*copied, chosen)
            if method in COMPARED:
                captured = with_second_run(captured, model, args, kwargs, new_values(model, args, kwargs, chosen))
        except Exception as error:
            raise explain_failure(error, method, *private_copy(model, args, kwargs, method), chosen) from error
    return captured
