"""Capture of a model as one module that is called like the model."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from fxopt_core.capture.dynamo_log import without_repeated_warnings
from fxopt_core.capture.errors import CaptureError
from fxopt_core.capture.failures import explain_failure
from fxopt_core.capture.methods.exporting import without_partial_graph
from fxopt_core.verification.isolation import (
    ExampleInputs,
    Model,
    as_module,
    private_copy,
    same_random_state,
    split_example_inputs,
)


@dataclass(frozen=True)
class WholeModule:
    """A model as one graph module with the model's signature and weights of its own.

    Attributes:
        graph_module: called like the model.
        method: how it was captured.
        caveats: what it does not say about the model, in sentences.
    """

    graph_module: fx.GraphModule
    method: str
    caveats: tuple[str, ...]


def _export(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> fx.GraphModule:
    with without_partial_graph(), without_repeated_warnings():
        return torch.export.export(model, args, kwargs).module()


def _symbolic_trace(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> fx.GraphModule:
    # Of a class torch.fx traces `forward` with the module as its first argument, which a function does not take.
    function = isinstance(inspect.getattr_static(model, "forward"), staticmethod)
    graph_module = fx.symbolic_trace(model.forward if function else model)
    keep_state_as_it_was(graph_module, model)
    return graph_module


def keep_state_as_it_was(graph_module: fx.GraphModule, model: torch.nn.Module) -> None:
    """Give `graph_module` the `state_dict` of `model`: torch.fx makes persistent buffers of all tensors that it holds.

    Args:
        graph_module: made by torch.fx from `model`; changed in place.
        model: says which tensors are persistent buffers, which are not, and which are plain attributes.
    """
    persistent = set(model.state_dict(keep_vars=True))
    buffers = {name for name, _ in model.named_buffers(remove_duplicate=False)}
    for name, tensor in list(graph_module.named_buffers(remove_duplicate=False)):
        path, _, attribute = name.rpartition(".")
        owner = graph_module.get_submodule(path)
        if name in buffers and name not in persistent:
            owner._non_persistent_buffers_set.add(attribute)
        elif name not in buffers:
            del owner._buffers[attribute]
            setattr(owner, attribute, tensor)


Whole = Callable[[torch.nn.Module, tuple[Any, ...], dict[str, Any]], fx.GraphModule]

WHOLE_METHODS: dict[str, tuple[Whole, tuple[str, ...]]] = {
    "export": (
        _export,
        (
            "Every size is fixed to that of the example inputs; other sizes are refused when it is called.",
            "Values that are not tensors, and training or evaluation mode, are fixed to those of this call.",
        ),
    ),
    "symbolic_trace": (
        _symbolic_trace,
        (
            "What Python decided while the model was traced (branches, sizes, arguments left at their defaults) is "
            "fixed, without a check when it is called.",
        ),
    ),
}
"""How to get one graph module with the model's own signature, with what each does not say."""


def capture_whole(model: Model, example_inputs: ExampleInputs, method: str) -> WholeModule:
    """Turn a model into one graph module that is called as the model is. The model itself is not changed.

    Args:
        model: an `nn.Module`, or a function of tensors.
        example_inputs: a tuple or list of positional arguments, or a dictionary of keyword arguments.
        method: `export` or `symbolic_trace`.

    Raises:
        CaptureError: the method cannot capture this model; the message names the reason and what to try.
        ValueError: there is no such method.
        TypeError: `example_inputs` is neither positional nor keyword arguments.
    """
    if method not in WHOLE_METHODS:
        raise ValueError(f"{method!r} captures no whole model; expected one of {', '.join(WHOLE_METHODS)}.")
    function, caveats = WHOLE_METHODS[method]
    args, kwargs = split_example_inputs(example_inputs)
    with same_random_state(model, args, kwargs):
        copied, args_, kwargs_ = private_copy(model, args, kwargs, method)
        copied = as_module(copied)
        try:
            graph_module = function(copied, args_, kwargs_)
        except CaptureError:
            raise
        except Exception as error:
            raise explain_failure(
                error, method, 'use method="auto".', *private_copy(model, args, kwargs, method)
            ) from error
        modes = {name: module.training for name, module in copied.named_modules()}
        for name, module in graph_module.named_modules():
            # Not `train()`: exported modules refuse it.
            module.training = modes.get(name, copied.training)
        return WholeModule(graph_module, method, caveats)
