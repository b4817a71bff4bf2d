"""The ways to capture a model of transformers that are compared.

A method takes a model and keyword arguments and gives a `Recording`. Another method is plugged in by its name: a row in
`METHODS`, or `package.module:function` on the command line.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from fxopt_workbench.huggingface.coverage.outputs import without_caches

Inputs = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class Recording:
    """A captured model.

    Attributes:
        call: gives for keyword arguments what the model gives, or raises if it was not captured for them. Values
            that it returns by name or as a tuple are compared with those of the model in their order.
        graphs: what was captured.
        details: what a reader should know, in JSON.
        drops_caches: whether the outputs leave out what `without_caches` leaves out.
    """

    call: Callable[..., Any]
    graphs: Sequence[fx.GraphModule]
    details: dict[str, Any] = field(default_factory=dict)
    drops_caches: bool = False


Method = Callable[[torch.nn.Module, dict[str, torch.Tensor]], Recording]


def symbolic_trace(model: torch.nn.Module, inputs: dict[str, torch.Tensor]) -> Recording:
    """`torch.fx.symbolic_trace`; arguments that the call leaves out are fixed to their defaults."""
    parameters = inspect.signature(model.forward).parameters.values()
    rest = {
        parameter.name: parameter.default
        for parameter in parameters
        if parameter.name not in inputs and parameter.default is not parameter.empty
    }
    traced = fx.symbolic_trace(model, concrete_args=rest)
    return Recording(traced, [traced])


def export(model: torch.nn.Module, inputs: dict[str, torch.Tensor]) -> Recording:
    """`torch.export` on the untouched model."""
    return _export(model, inputs)


def export_flat(model: torch.nn.Module, inputs: dict[str, torch.Tensor]) -> Recording:
    """`torch.export` without a cache, with a signature of exactly the inputs and a tuple as output."""
    flat = _Flat(model, tuple(inputs))
    return _export(flat, inputs, drops_caches=True)


def dynamo_fullgraph(model: torch.nn.Module, inputs: dict[str, torch.Tensor]) -> Recording:
    """`torch.compile(fullgraph=True)`. Sizes may vary as far as one graph goes: to compile again counts as refusing."""
    graphs: list[fx.GraphModule] = []

    def backend(graph: fx.GraphModule, _: list[Any]) -> Callable[..., Any]:
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(model, backend=backend, fullgraph=True, dynamic=True)
    compiled(**inputs)

    def call(**given: torch.Tensor) -> Any:
        with torch._dynamo.config.patch(error_on_recompile=True):
            return compiled(**given)

    return Recording(call, graphs)


def transformers_exporter(model: torch.nn.Module, inputs: dict[str, torch.Tensor]) -> Recording:
    """`transformers.exporters.DynamoExporter`, with all sizes dynamic if that works, else fixed.

    What it takes out of the model and computes from the inputs beforehand is computed before each call here too.
    """
    from transformers.exporters import DynamoConfig, DynamoExporter
    from transformers.exporters.utils import prepare_for_export

    def run(dynamic: bool) -> Any:
        exporter: Any = DynamoExporter()
        return exporter.export(model, dict(inputs), config=DynamoConfig(dynamic=dynamic)).program

    def prepared(given: dict[str, torch.Tensor]) -> dict[str, Any]:
        return dict(prepare_for_export(model, dict(given))[1])

    program, details = _dynamic_first(run)
    module = program.module()
    details["computed_before"] = sorted(set(prepared(inputs)) - set(inputs))
    return Recording(lambda **given: module(**prepared(given)), [program.graph_module], details, drops_caches=True)


METHODS_OF_OTHERS = __name__
"""The module of the methods of torch and transformers, which run nothing of this distribution."""

METHODS: dict[str, str] = {
    "auto": "fxopt_workbench.huggingface.coverage.own_method:auto",
    **{name: f"{__name__}:{name}" for name in ("symbolic_trace", "export", "export_flat", "dynamo_fullgraph")},
    "transformers_exporter": f"{__name__}:transformers_exporter",
}
"""By name, where they are: so the rows of the other methods stay when only `auto` changes (see `code_version`)."""


def named_function(name: str) -> str:
    """The place of the method of this name, `package.module:function`; a place stands for itself."""
    return METHODS.get(name, name)


def find_method(name: str) -> Method:
    """The method of this name: a row of `METHODS` or `package.module:function`.

    Raises:
        ValueError: there is none.
    """
    module, _, function = named_function(name).partition(":")
    try:
        found: Method = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"there is no method {name!r} ({error}); expected package.module:function") from error
    return found


class _Flat(torch.nn.Module):
    """A model with exactly these arguments, no cache, and a tuple of tensors as output."""

    def __init__(self, model: torch.nn.Module, names: tuple[str, ...]) -> None:
        super().__init__()
        self.model = model
        extra = {"use_cache": False} if "use_cache" in inspect.signature(model.forward).parameters else {}

        def forward(*args: torch.Tensor, **kwargs: torch.Tensor) -> tuple[torch.Tensor, ...]:
            given = dict(zip(names, args, strict=False)) | kwargs
            return tuple(without_caches(model(**given, **extra)).values())

        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        forward.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in names])  # type: ignore
        self.forward = forward


def _export(model: torch.nn.Module, inputs: dict[str, torch.Tensor], drops_caches: bool = False) -> Recording:
    def run(dynamic: bool) -> Any:
        every = {name: dict.fromkeys(range(t.dim()), torch.export.Dim.AUTO) for name, t in inputs.items()}
        return torch.export.export(model, (), dict(inputs), strict=False, dynamic_shapes=every if dynamic else None)

    program, details = _dynamic_first(run)
    module = program.module()
    return Recording(module, [program.graph_module], details, drops_caches)


def _dynamic_first(run: Callable[[bool], Any]) -> tuple[Any, dict[str, Any]]:
    """Capture for sizes that vary, and where that is impossible for those of the example."""
    try:
        return run(True), {"dynamic": True}
    except Exception as error:  # the reason is kept; the second try speaks for itself
        why = f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"[:200]
    return run(False), {"dynamic": False, "why_not_dynamic": why}
