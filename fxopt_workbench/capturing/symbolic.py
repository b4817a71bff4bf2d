"""Capture through `torch.fx.symbolic_trace`: calls the model with stand-ins and writes down what happens to them."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import fx
from torch.fx.passes.shape_prop import ShapeProp

from fxopt_core.capture.call_signature import separated, signature_of
from fxopt_core.capture.captured_graph import CapturedGraph, clone_tensors, drawn_from, read_random_state
from fxopt_core.capture.dimensions import Dynamic
from fxopt_core.capture.errors import CaptureError
from fxopt_core.capture.module import captured_module, tensors_of
from fxopt_core.capture.questions import questions
from fxopt_core.capture.result import Captured
from fxopt_core.capture.running import Runner
from fxopt_core.capture.sources import describe_inputs
from fxopt_core.verification.isolation import Model, as_module
from fxopt_core.verification.state import PLAIN

CAVEATS = (
    "Python ran once, with stand-ins for tensors: its own branches, loops and attributes are as they were then, and "
    "whatever it did besides tensor operations (print, assignments) is lost.",
    "Training or evaluation mode is as the model had it.",
)


def capture_with_symbolic_trace(
    model: Model, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic: Dynamic
) -> Captured:
    """Trace, then run the graph once on the example inputs for shapes (`meta["tensor_meta"]`)."""
    original = args, kwargs
    args, kwargs = separated(model, args, kwargs)
    module, given = as_module(model), _arguments(model, args, kwargs)
    values = tuple(given.values())
    # Of a class torch.fx traces `forward` with the module as its first argument, which a function does not take.
    static = isinstance(inspect.getattr_static(module, "forward"), staticmethod)
    # While it traces, torch.fx puts constants onto the module itself.
    known, names = tensors_of(module), set(module.state_dict())
    with questions() as noticed:
        tracer = _Tracer({name: value for name, value in given.items() if isinstance(value, PLAIN)})
        graph = tracer.trace(module.forward if static else module)
        traced = fx.GraphModule(tracer.root, graph, type(model).__name__)
    example_inputs, random_state = clone_tensors(values), read_random_state()
    state = clone_tensors(dict(traced.state_dict()))
    outputs = ShapeProp(traced).propagate(*values)
    example_outputs = clone_tensors(outputs)
    # The run may have changed buffers (batch normalisation in training).
    traced.load_state_dict(state)
    partition = CapturedGraph(
        traced,
        describe_inputs(traced, values),
        example_inputs=example_inputs,
        example_outputs=example_outputs,
        random_state=drawn_from(random_state),
    )
    asked = frozenset(noticed.asked)
    called = captured_module(traced, module, signature_of(model, *original, dynamic, asked), asked)
    called.note_baked(known, names)
    return Captured((partition,), "symbolic_trace", "torch", caveats=CAVEATS, runner=Runner(called))


class _Tracer(fx.Tracer):
    """Where an argument is no tensor, gives Python the example's own value in place of a stand-in.

    So it can branch on it; a stand-in for `None` is not `None`. The graph keeps its inputs, and a call with another
    value is refused.
    """

    def __init__(self, constants: dict[str, Any]) -> None:
        super().__init__()
        self._constants = constants

    def create_proxy(self, kind: str, target: Any, *args: Any, **kwargs: Any) -> Any:
        """A stand-in for what a node gives."""
        proxy = super().create_proxy(kind, target, *args, **kwargs)
        return self._constants[target] if kind == "placeholder" and target in self._constants else proxy

    def create_arg(self, a: Any) -> Any:
        """What a node is given, or the result.

        Raises:
            CaptureError: it is a mapping of a class of its own, of which torch.fx would make a plain dictionary.
        """
        if isinstance(a, dict) and type(a) not in (dict, fx.immutable_collections.immutable_dict):
            raise CaptureError(
                "symbolic_trace",
                f"torch.fx would make a plain dictionary out of the class {type(a).__name__}.",
                'return a dict, or use method="export", which keeps the class.',
            )
        return super().create_arg(a)


def _arguments(model: Model, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """One value for each argument, defaults filled in: the placeholders of the traced graph."""
    signature = inspect.signature(model.forward if isinstance(model, torch.nn.Module) else model)
    variadic = [str(one) for one in signature.parameters.values() if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
    if variadic:
        raise CaptureError(
            "symbolic_trace",
            f"the model takes {' and '.join(variadic)}, for which a traced graph has a single input each.",
            'trace a wrapper that names its arguments, or use method="dynamo".',
        )
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    return dict(bound.arguments)
