"""Somebody's model and inputs, and private copies of them to run in their place."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map_only

Model = Callable[..., Any]
"""An `nn.Module`, or a function of tensors."""

ExampleInputs = Sequence[Any] | Mapping[str, Any]
"""Positional arguments as a tuple or list, or keyword arguments as a dictionary."""


class CannotCopyError(TypeError):
    """A model or its inputs cannot be copied, and fxopt never runs the caller's own."""


def split_example_inputs(example_inputs: ExampleInputs) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments.

    Raises:
        TypeError: `example_inputs` is neither a tuple or list nor a dictionary with names as keys.
    """
    if isinstance(example_inputs, torch.Tensor):
        raise TypeError("example_inputs is a tensor; expected a tuple, list or dictionary. Write (tensor,) instead.")
    if isinstance(example_inputs, Mapping):
        unusable = [key for key in example_inputs if not isinstance(key, str)]
        if unusable:
            raise TypeError(f"example_inputs has the keys {unusable}; expected the names of the model's arguments.")
        return (), dict(example_inputs)
    if isinstance(example_inputs, (tuple, list)):
        return tuple(example_inputs), {}
    raise TypeError(
        f"example_inputs is of type {type(example_inputs).__name__}; expected a tuple or list of positional "
        "arguments, or a dictionary of keyword arguments."
    )


def require_model(model: Any) -> None:
    """Refuse what is no model.

    Raises:
        TypeError: it cannot be called, or is a class of modules in place of one of them.
    """
    if isinstance(model, type) and issubclass(model, nn.Module):
        raise TypeError(f"the model is the class {model.__name__}; expected a module. Write {model.__name__}(...).")
    if not callable(model):
        raise TypeError(f"the model is {model!r}; expected an nn.Module or a function of tensors.")


def as_module(model: Model) -> torch.nn.Module:
    """The model; a function in the form that `torch.export` takes, with its own signature."""
    if isinstance(model, torch.nn.Module):
        return model
    return type("Function", (torch.nn.Module,), {"forward": staticmethod(model)})()


def private_copy(
    model: Model | None, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Model and inputs to run in place of the caller's: they overlap and alias each other as the originals do.

    A module is copied with its parameters and their hooks, so it is in memory twice. A function is not copied (it
    cannot be): `State` sees and puts back what it holds. Inputs become leaves of autograd.

    Raises:
        CannotCopyError: something in the model or its inputs cannot be copied.
    """
    leaves: dict[int, torch.Tensor] = {}

    def leaf(tensor: torch.Tensor) -> torch.Tensor:
        detached = tensor if tensor.is_leaf else tensor.detach().requires_grad_(tensor.requires_grad)
        return leaves.setdefault(id(tensor), detached)

    inputs = tree_map_only(torch.Tensor, leaf, (args, kwargs or {}))
    memo: dict[int, Any] = {}
    copied = deep_copy(model, memo) if isinstance(model, nn.Module) else model
    for original in memo.get(id(memo), ()):
        if isinstance(original, torch.Tensor):
            _take_over_hooks(original, memo[id(original)])
    args, kwargs = deep_copy(inputs, memo)
    return copied, args, kwargs


TENSOR_HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")
"""Where a tensor keeps its hooks, which no copy of torch's takes over."""


def _take_over_hooks(original: torch.Tensor, copied: torch.Tensor) -> None:
    for name in TENSOR_HOOKS:
        if original.is_leaf and getattr(original, name):
            setattr(copied, name, copy.copy(getattr(original, name)))


def deep_copy(value: Any, memo: dict[int, Any] | None = None) -> Any:
    """`copy.deepcopy`, with an error that says what to do.

    Raises:
        CannotCopyError: something in the value cannot be copied.
    """
    try:
        return copy.deepcopy(value, memo)
    except Exception as error:
        raise CannotCopyError(
            f"the model or its inputs cannot be copied ({type(error).__name__}: {error}), and only a copy is run. Make "
            "everything in them copyable by copy.deepcopy: detach stored tensors, and keep open files, locks and "
            "streams out."
        ) from error
