"""One door to every method of capture."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from torch import nn
from torch.nn.parameter import is_lazy

from fxopt_core.capture.auto import capture_automatically
from fxopt_core.capture.check_against_model import check_against_model
from fxopt_core.capture.dimensions import DynamicSpec, named_leaves, read_dynamic
from fxopt_core.capture.errors import CaptureError
from fxopt_core.capture.extensions import Method, Objection, extensions
from fxopt_core.capture.failures import explain_failure
from fxopt_core.capture.methods.dynamo import capture_with_dynamo
from fxopt_core.capture.methods.exporting import capture_with_export
from fxopt_core.capture.new_values import new_values
from fxopt_core.capture.result import Captured
from fxopt_core.suggestions import did_you_mean
from fxopt_core.verification.isolation import (
    ExampleInputs,
    Model,
    private_copy,
    require_model,
    split_example_inputs,
)
from fxopt_core.verification.modes import global_hooks, modes_put_back
from fxopt_core.verification.state import generators_in, same_state

METHODS: dict[str, Method] = {
    "auto": Method(capture_automatically, 'method="dynamo" tells where the graphs break.'),
    "dynamo": Method(
        capture_with_dynamo,
        "look at the line named; torch.compiler.disable keeps Dynamo out of a function that it cannot read.",
    ),
    "export": Method(
        capture_with_export,
        'method="dynamo" breaks the graph at such a place instead of failing. Or express the decision as a tensor '
        "operation (torch.where, torch.cond).",
        compared=True,
    ),
}
"""The core's own methods, by the name that `capture` takes."""


@cache
def capture_methods() -> Mapping[str, Method]:
    """Every method that `capture` takes, by name: the core's own, and those of the packages installed beside it."""
    return MappingProxyType({name: method for one in extensions() for name, method in one.methods.items()} | METHODS)


def capture(
    model: Model,
    example_inputs: ExampleInputs,
    method: str = "dynamo",
    *,
    dynamic: DynamicSpec = None,
    objection: Objection | None = None,
) -> Captured:
    """Turn one call of `model` into graphs.

    The model is called on the example inputs, but as a copy: parameters, buffers, attributes, training mode,
    inputs and random state of the caller's stay as they are. (A plain function cannot be copied: what it does
    to the world, it does.)

    | method | gives | where it cannot follow |
    |---|---|---|
    | `dynamo` | torch-level graphs, with graph breaks and guards | breaks the graph, Python runs the line |
    | `export` | one ATen graph with its weights | error |
    | `auto` | one graph that agrees with the model on several inputs, else Dynamo's, verified | error |

    The workbench adds further ways for `auto` (see `fxopt_core.capture.extensions`), and methods to compare with:

    | method | gives | where it cannot follow |
    |---|---|---|
    | `symbolic_trace` | one torch-level graph, modules as single nodes | error, or fixes Python's decisions |
    | `aot` | ATen graphs of forward and backward, cut as by `dynamo` | breaks the graph |
    | `jit.trace`, `jit.script` | one TorchScript graph; deprecated | error, or fixes Python's decisions |

    All of them but `dynamo` and `aot` also call the model itself and compare (`Captured.agreements`): on the example,
    on new values of the same shapes, and on other sizes where `dynamic` names them. What disagrees is a caveat; `auto`
    takes no graph that disagrees.

    `dynamo`, `aot` and `auto` reset Dynamo before and after (`torch._dynamo.reset()`): what this process has
    compiled so far compiles anew at its next call.

    Args:
        model: an `nn.Module` or a function.
        example_inputs: a tuple or list of positional arguments, or a dictionary of keyword arguments.
        method: one of `capture_methods()`.
        dynamic: which sizes may vary. Dimensions by input and number, with a name and a range:
            `{"input_ids": {0: ("batch", 1, 64), 1: ("length", 2, 512)}, "mask": {0: "batch", 1: "length"}}`.
            The same name means the same size. Or `True` puts symbols in place of all sizes, `False` fixes them,
            `None` leaves the choice to the method. `jit.trace` and `jit.script` know no sizes and take only `None`.
        objection: a further condition: given a capture, says why it will not do, or nothing. `auto` then goes on with
            its next way, and leaves out those whose graphs lack something of the model (gradients, a cache).

    Raises:
        CaptureError: the method cannot capture this model, or a dimension does not hold its range; it names the
            reason and what to try.
        ValueError: there is no such method, it takes no `dynamic`, or `dynamic` does not fit the example inputs.
        TypeError: `example_inputs` is neither positional nor keyword arguments, `dynamic` of another form, or the
            model none.
    """
    require_model(model)
    methods = capture_methods()
    if method not in methods:
        hint = did_you_mean(method, methods, most=1)
        raise ValueError(f"there is no capture method {method!r}; the methods are {', '.join(methods)}.{hint}")
    chosen_method = methods[method]
    if not chosen_method.takes_sizes and dynamic is not None:
        raise ValueError(f'method="{method}" knows no sizes; leave dynamic out.')
    if hooks := global_hooks():
        raise CaptureError(
            method,
            f"torch.nn.modules.module has {', '.join(hooks)}, which run for every module and which no graph keeps.",
            "remove them (each was registered with a handle: handle.remove()), and register them on the model instead.",
        )
    for name, weight in model.named_parameters() if isinstance(model, nn.Module) else ():
        if not is_lazy(weight):
            continue
        raise CaptureError(
            method,
            f"self.{name} has no shape yet: a lazy module gets it at its first call.",
            "call the model on the example inputs once, and capture it then.",
        )
    args, kwargs = split_example_inputs(example_inputs)
    chosen = read_dynamic(dynamic, named_leaves(model, args, kwargs))
    # What a copy shares with the model: globals, what functions enclose, attributes of classes.
    with same_state(model), modes_put_back():
        try:
            if method == "auto":
                # It makes its own copies, and compares with the model as it is.
                captured = capture_automatically(model, args, kwargs, chosen, objection)
            else:
                copied = private_copy(model, args, kwargs)
                # A graph that draws from a generator of the copy's has to begin where the model would.
                with same_state(*generators_in(copied[0])):
                    captured = chosen_method.capture(*copied, chosen)
                if chosen_method.compared:
                    captured = check_against_model(
                        captured, model, args, kwargs, new_values(model, args, kwargs, chosen)
                    )
                if reason := objection and objection(captured):
                    raise CaptureError(method, reason, 'use method="auto", which looks for one that will do.')
        except Exception as error:
            raise explain_failure(error, method, chosen_method.advice, model, args, kwargs, chosen) from error
    for one in extensions():
        captured = one.explain(captured)
    return captured
