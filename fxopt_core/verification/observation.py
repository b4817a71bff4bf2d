"""One call of a function, and everything that can be observed of it."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import TreeSpec, tree_flatten, tree_flatten_with_path

from fxopt_core.capture.isolation import same_random_state
from fxopt_core.verification.cases import Case, fresh_copy, overwrite

Function = Callable[..., Any]

_COMPILED = "_orig_mod."
"""What `torch.compile` puts before the names of a module's parameters and buffers."""


@dataclass
class Observation:
    """What one call did.

    Attributes:
        error: the type of the exception that it raised.
        outputs: leaves of the result by their path.
        structure: of the result.
        aliases: for each output the first tensor with the same storage, by name, and whether it is the same object.
        inputs: inputs after the call, by path.
        state: parameters, buffers and other tensors of the module after the call, by name.
        training: training flags after the call, by module name.
        random: states of the random generators after the call, by name.
        gradients: by name of input or parameter; `None` where nothing flows.
    """

    error: type[BaseException] | None = None
    outputs: dict[str, Any] = field(default_factory=dict)
    structure: TreeSpec | None = None
    aliases: dict[str, str] = field(default_factory=dict)
    inputs: dict[str, Any] = field(default_factory=dict)
    state: dict[str, torch.Tensor] = field(default_factory=dict)
    training: dict[str, bool] = field(default_factory=dict)
    random: dict[str, Any] = field(default_factory=dict)
    gradients: dict[str, torch.Tensor | None] = field(default_factory=dict)


def observe(function: Function, case: Case, seed: int, *, gradients: bool) -> Observation:
    """Call a function on copies of the inputs and put everything of the caller's back afterwards.

    Args:
        function: a module or function.
        case: the inputs.
        seed: of the random generators.
        gradients: whether to differentiate the results.
    """
    args, kwargs = fresh_copy(case.args, case.kwargs)
    seen = Observation()
    with same_random_state(function, args, kwargs), same_state(function) as state:
        random.seed(seed)
        torch.manual_seed(seed)
        try:
            with torch.enable_grad() if gradients else torch.no_grad():
                result = function(*args, **kwargs)
        except Exception as error:  # to raise is something that can be observed
            seen.error = type(error)
            return seen
        seen.random = {"python": random.getstate(), "torch": torch.get_rng_state()}
        if torch.cuda.is_initialized():
            seen.random["cuda"] = torch.cuda.get_rng_state()
        named_inputs = _by_path(args) | _by_path(kwargs)
        outputs = {f"output{path}": leaf for path, leaf in _by_path(result).items()}
        seen.structure = tree_flatten(result)[1]
        seen.aliases = _aliases(outputs, {f"input{path}": leaf for path, leaf in named_inputs.items()} | state)
        if gradients:
            seen.gradients = _gradients(outputs, {f"input{p}": leaf for p, leaf in named_inputs.items()} | state, seed)
        seen.outputs = {path: _kept(leaf) for path, leaf in outputs.items()}
        seen.inputs = {f"input{path}": _kept(leaf) for path, leaf in named_inputs.items()}
        seen.state = {name: _kept(tensor) for name, tensor in state.items()}
        if isinstance(function, nn.Module):
            seen.training = {_plain(name): module.training for name, module in function.named_modules()}
    return seen


def _by_path(value: Any) -> dict[str, Any]:
    return {"".join(map(str, path)): leaf for path, leaf in tree_flatten_with_path(value)[0]}


def _plain(name: str) -> str:
    return name.replace(_COMPILED, "").replace("_orig_mod", "")


def _kept(value: Any) -> Any:
    """A value as it is now. Tensors keep their strides and say whether they are part of autograd."""
    if not isinstance(value, torch.Tensor):
        return copy.copy(value)
    storage = value.detach().untyped_storage().clone()
    clone = torch.empty(0, dtype=value.dtype, device=value.device)
    clone.set_(storage, value.storage_offset(), value.size(), value.stride())
    return clone.requires_grad_(value.requires_grad)


def tensors_of(module: nn.Module) -> dict[str, torch.Tensor]:
    """Parameters, buffers and plain tensor attributes of a module, by name."""
    found = dict(module.named_parameters(remove_duplicate=False)) | dict(module.named_buffers(remove_duplicate=False))
    for prefix, child in module.named_modules():
        for name, value in vars(child).items():
            if isinstance(value, torch.Tensor):
                found[f"{prefix}.{name}" if prefix else name] = value
    return {_plain(name): tensor for name, tensor in found.items()}


@contextmanager
def same_state(function: Function) -> Iterator[dict[str, torch.Tensor]]:
    """Put the values of a module's tensors and its training flags back at the end. Gives the tensors, by name."""
    if not isinstance(function, nn.Module):
        yield {}
        return
    tensors = tensors_of(function)
    before = {name: tensor.detach().clone() for name, tensor in tensors.items()}
    modes = [(module, module.training) for module in function.modules()]
    try:
        yield tensors
    finally:
        for name, tensor in tensors.items():
            # Through `data`, so that gradients that the caller has yet to compute do not take it for a change.
            overwrite(tensor.data, before[name])
        for module, training in modes:
            module.training = training


def _aliases(outputs: dict[str, Any], others: dict[str, Any]) -> dict[str, str]:
    owners: dict[int, tuple[str, torch.Tensor]] = {}
    found: dict[str, str] = {}
    for name, value in {**others, **outputs}.items():
        if not isinstance(value, torch.Tensor) or value.layout != torch.strided or not value.numel():
            continue
        owner, first = owners.setdefault(value.untyped_storage().data_ptr(), (name, value))
        if name in outputs:
            found[name] = "itself" if owner == name else f"{owner}{'' if value is not first else ', the same object'}"
    return found


def _gradients(outputs: dict[str, Any], sources: dict[str, Any], seed: int) -> dict[str, torch.Tensor | None]:
    """Gradients of the outputs, weighted at random, with respect to inputs and parameters."""
    results = [
        value
        for value in outputs.values()
        if isinstance(value, torch.Tensor) and value.requires_grad and value.is_floating_point()
    ]
    wanted = {name: value for name, value in sources.items() if isinstance(value, torch.Tensor) and value.requires_grad}
    if not results or not wanted:
        return {}
    generator = torch.Generator().manual_seed(seed)
    weights = [torch.randn(value.shape, generator=generator).to(value) for value in results]
    found = torch.autograd.grad(results, list(wanted.values()), weights, allow_unused=True)
    return dict(zip(wanted, found, strict=True))
