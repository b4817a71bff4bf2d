"""Capture through `torch.fx.symbolic_trace`: calls the model with stand-ins and writes down what happens to them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import fx
from torch.fx.passes.shape_prop import ShapeProp

from fxopt_core.capture.call_signature import separated, signature_of
from fxopt_core.capture.dimensions import Dynamic
from fxopt_core.capture.errors import CaptureError
from fxopt_core.capture.gradient_questions import gradient_questions
from fxopt_core.capture.module import captured_module
from fxopt_core.capture.partition import Partition, clone_tensors, drawn_from, read_random_state
from fxopt_core.capture.result import Captured
from fxopt_core.capture.running import Runner
from fxopt_core.capture.sources import plain_inputs
from fxopt_core.verification.isolation import Model, as_module

CAVEATS = (
    "Python ran once, with stand-ins for tensors: its own branches, loops and attributes are as they were then, and "
    "whatever it did besides tensor operations (print, assignments) is lost.",
    "Training or evaluation mode is as the model had it.",
)


def capture_with_symbolic_trace(
    model: Model, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic: Dynamic
) -> Captured:
    """Trace, then run the graph once on the example inputs for shapes (`meta["tensor_meta"]`)."""
    signature = signature_of(model, args, kwargs, dynamic)
    args, kwargs = separated(model, args, kwargs)
    module = as_module(model)
    # Of a class torch.fx traces `forward` with the module as its first argument, which a function does not take.
    static = isinstance(inspect.getattr_static(module, "forward"), staticmethod)
    with gradient_questions() as questions:
        traced = fx.symbolic_trace(module.forward if static else module)
    values = _in_order(model.forward if isinstance(model, torch.nn.Module) else model, args, kwargs)
    example_inputs, random_state = clone_tensors(values), read_random_state()
    state = clone_tensors(dict(traced.state_dict()))
    outputs = ShapeProp(traced).propagate(*values)
    example_outputs = clone_tensors(outputs)
    # The run may have changed buffers (batch normalisation in training).
    traced.load_state_dict(state)
    partition = Partition(
        traced,
        plain_inputs(traced, values),
        example_inputs=example_inputs,
        example_outputs=example_outputs,
        random_state=drawn_from(random_state),
    )
    called = captured_module(traced, module, replace(signature, gradients=questions.asked))
    called.note_baked(module, set(module.state_dict()))
    return Captured((partition,), "symbolic_trace", "torch", caveats=CAVEATS, runner=Runner(called, model, dynamic))


def _in_order(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """One value for each argument of `function`, defaults filled in: the placeholders of its traced graph."""
    signature = inspect.signature(function)
    variadic = [str(one) for one in signature.parameters.values() if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
    if variadic:
        raise CaptureError(
            "symbolic_trace",
            f"the model takes {' and '.join(variadic)}, for which a traced graph has a single input each.",
            'trace a wrapper that names its arguments, or use method="dynamo".',
        )
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    return tuple(bound.arguments.values())
