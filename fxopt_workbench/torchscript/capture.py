"""Capture with the deprecated `torch.jit.trace` and `torch.jit.script`, for comparison only."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import torch

from fxopt_core.capture.call_signature import separated, signature_of
from fxopt_core.capture.dimensions import Dynamic
from fxopt_core.capture.result import Captured
from fxopt_core.capture.running import Runner
from fxopt_core.verification.isolation import Model
from fxopt_workbench.torchscript.script_graph import ScriptGraph

DEPRECATED = (
    "TorchScript is deprecated upstream; this graph is TorchScript's and no FX graph. It is here to compare with."
)


def capture_with_jit_trace(model: Model, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic: Dynamic) -> Captured:
    """Record the operations of one call. Every warning of the tracer about what it fixed is a caveat."""
    given, named = separated(model, args, kwargs)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        # Lists and dictionaries as results are allowed; the check runs on other values, by `capture` itself.
        script = torch.jit.trace(
            copy.deepcopy(model), given or None, example_kwarg_inputs=named or None, strict=False, check_trace=False
        )
        _with_state_of(model, script)
    baked = [
        f"Fixed at {one.filename}:{one.lineno}: {str(one.message).split('. ')[0]}."
        for one in heard
        if issubclass(one.category, torch.jit.TracerWarning)
    ]
    recorded = "One call was recorded: of every branch and loop only what this call took, without a check later."
    return _captured(script, model, "jit.trace", args, kwargs, dynamic, (recorded, *dict.fromkeys(baked)))


def _with_state_of(model: Model, script: Any) -> None:
    """Put buffers back to what they were before the recorded call changed them."""
    before = _held(model)
    for path, tensor in _held(script).items():
        tensor.detach().copy_(before[path])


def _held(module: Any) -> dict[str, torch.Tensor]:
    held = isinstance(module, torch.nn.Module)
    return {**dict(module.named_parameters()), **dict(module.named_buffers())} if held else {}


def capture_with_jit_script(model: Model, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic: Dynamic) -> Captured:
    """Compile the source text of the model: branches and loops stay, in a subset of Python."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        script = torch.jit.script(copy.deepcopy(model))
    return _captured(script, model, "jit.script", args, kwargs, dynamic, ())


def _captured(
    script: Any,
    model: Model,
    method: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    dynamic: Dynamic,
    caveats: tuple[str, ...],
) -> Captured:
    signature = signature_of(model, args, kwargs, dynamic)

    def call(module: Any, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = signature.accept(args, kwargs)
        return module(*args, **kwargs)

    runner = Runner(script, call)
    trial = copy.deepcopy(script) if isinstance(script, torch.jit.ScriptModule) else script
    partition = ScriptGraph(trial, method, args, kwargs)
    partition.script = script
    return Captured((partition,), method, "torchscript", caveats=(DEPRECATED, *caveats), runner=runner)
