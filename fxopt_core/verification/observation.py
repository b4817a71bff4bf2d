"""Calls of a function, and everything that can be observed of them."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from types import BuiltinFunctionType, FunctionType
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import torch
from torch import nn
from torch.utils._pytree import tree_flatten_with_path

from fxopt_core.verification.cases import Case
from fxopt_core.verification.comparison import compared_by_identity
from fxopt_core.verification.state import (
    GENERATORS,
    State,
    as_bytes,
    as_it_is,
    default_generators,
    require_dense,
    same_state,
)

Function = Callable[..., Any]


class Place(NamedTuple):
    """Where a tensor is in memory.

    Attributes:
        tensor: identity of the object.
        storage: identity of its storage.
        offset: in the storage, in bytes.
    """

    tensor: int
    storage: int
    offset: int


@dataclass
class Observation:
    """What one call did.

    Attributes:
        error: the exception that it raised.
        outputs: leaves of the result by their path.
        inputs: leaves of the inputs after the call, by path.
        structure: of outputs and inputs.
        places: of outputs, inputs and state in memory, by name.
        state: names of what the module held before the call.
        registered: names of parameters, buffers and training flags.
        written: what the call wrote of the state, with the new values.
        random: states of the random generators after the call, by name.
        modes: modes of torch after the call.
        gradients: by name of input or parameter; `None` where nothing flows.
        gradient_error: the exception that differentiating raised.
        first: whether no other call came before it.
    """

    error: Exception | None = None
    outputs: dict[str, Any] = field(default_factory=dict)
    inputs: dict[str, Any] = field(default_factory=dict)
    structure: dict[str, Any] = field(default_factory=dict)
    places: dict[str, Place] = field(default_factory=dict)
    state: frozenset[str] = frozenset()
    registered: frozenset[str] = frozenset()
    written: dict[str, Any] = field(default_factory=dict)
    random: dict[str, Any] = field(default_factory=dict)
    modes: dict[str, Any] = field(default_factory=dict)
    gradients: dict[str, torch.Tensor | None] = field(default_factory=dict)
    gradient_error: Exception | None = None
    first: bool = True


def observe(function: Function, owner: Any, row: Sequence[Case], scale: float = 1.0) -> list[Observation]:
    """Call a function on copies of the inputs of each case, one call after the other, and put all back at the end.

    A call that raises is the last.

    Args:
        function: called with the inputs.
        owner: holds the state that the calls may change: a module, or a function.
        row: the cases; each begins with what the one before left.
        scale: of the weights with which the results are differentiated. Gradients are linear in it.

    Raises:
        TypeError: a tensor is not dense.
    """
    seen: list[Observation] = []
    with _same_modes(), same_state(owner) as state:
        for case in row:
            seen.append(_observed(function, State(owner) if seen else state, case, scale))
            seen[-1].first = len(seen) == 1
            if seen[-1].error:
                break
    return seen


def _observed(function: Function, state: State, case: Case, scale: float) -> Observation:
    seen = Observation()
    args, kwargs = case.fresh_inputs()
    given, _ = named_leaves(("input", args), ("input", kwargs))
    sources = _once(_in_autograd({**given, **state.live}))
    if case.seed is not None:
        random.seed(case.seed)
        np.random.seed(case.seed % 2**32)
        torch.manual_seed(case.seed)
    if case.gradients is not None:
        torch.set_grad_enabled(case.gradients)
    try:
        result = function(*args, **kwargs)
    except Exception as error:  # to raise is something that can be observed
        seen.error = error
        return seen
    seen.modes = _modes()
    seen.random = {name: as_bytes(get()) for name, (get, _) in default_generators().items()}
    outputs, seen.structure["the output"] = named_leaves(("output", result))
    inputs, seen.structure["the inputs after the call"] = named_leaves(("input", args), ("input", kwargs))
    held, registered = state.now()
    seen.state, seen.registered = frozenset(state.values), state.registered | registered
    for names in (held, inputs, outputs):
        seen.places |= {name: _place(tensor, name) for name, tensor in names.items() if _has_memory(tensor)}
    storages: dict[int, tuple[torch.UntypedStorage, torch.UntypedStorage]] = {}
    seen.outputs = {name: _kept(value, storages) for name, value in outputs.items()}
    seen.inputs = {name: _kept(value, storages) for name, value in inputs.items()}
    seen.written = {name: _kept(value, storages) for name, value in state.changes(held).items()}
    if case.gradients:
        try:
            written = {name: held[name] for name in seen.written.keys() & held.keys()}
            seen.gradients = _gradients(_in_autograd({**written, **inputs, **outputs}), sources, scale)
        except Exception as error:  # so is to raise in the backward pass
            seen.gradient_error = error
    return seen


def named_leaves(*roots: tuple[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    """Leaves of trees by their path, and the structure without them. Objects that no pytree knows are opened."""
    leaves: dict[str, Any] = {}
    structure: list[Any] = []
    opened: set[int] = set()

    def walk(name: str, value: Any) -> None:
        found, spec = tree_flatten_with_path(value)
        structure.append(spec)
        for path, leaf in found:
            place = name + "".join(map(str, path))
            parts = _parts(leaf)
            if parts is None:
                leaves[place] = leaf
            elif id(leaf) not in opened:
                opened.add(id(leaf))
                structure.append((place, type(leaf), tuple(parts)))
                for attribute, part in parts.items():
                    walk(f"{place}.{attribute}", part)

    for name, value in roots:
        walk(name, value)
    return leaves, structure


_WHOLE = (torch.Tensor, *GENERATORS, nn.Module, type, Enum, FunctionType, BuiltinFunctionType)


def _parts(leaf: Any) -> dict[str, Any] | None:
    """Attributes of an object of a class of the caller's; `None` if it is no such object."""
    if isinstance(leaf, _WHOLE):
        return None
    if dataclasses.is_dataclass(leaf):
        return {part.name: getattr(leaf, part.name) for part in dataclasses.fields(leaf)}
    return dict(vars(leaf)) if compared_by_identity(leaf) and hasattr(leaf, "__dict__") else None


def _has_memory(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.numel() > 0


def _place(tensor: torch.Tensor, name: str) -> Place:
    require_dense(tensor, name)
    storage = tensor.untyped_storage()
    return Place(id(tensor), storage.data_ptr(), int(tensor.storage_offset()) * tensor.element_size())


def _kept(value: Any, storages: dict[int, tuple[torch.UntypedStorage, torch.UntypedStorage]]) -> Any:
    """A value as it is now. Tensors keep their strides and say whether they are part of autograd."""
    if not isinstance(value, torch.Tensor):
        return as_it_is(value)
    require_dense(value, "an input, an output or a tensor that the module holds")
    tensor = value.detach().resolve_conj().resolve_neg()
    storage = tensor.untyped_storage()
    if storage._cdata not in storages:
        storages[storage._cdata] = (storage, storage.clone())
    kept = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    copied = storages[storage._cdata][1]
    kept.set_(copied, tensor.storage_offset(), tensor.size(), tensor.stride())
    return kept.requires_grad_(value.requires_grad)


def _in_autograd(values: dict[str, Any]) -> dict[str, torch.Tensor]:
    return {name: value for name, value in values.items() if isinstance(value, torch.Tensor) and value.requires_grad}


def _once(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Each tensor under its last name only: `nn.LSTM` keeps a list of its parameters beside them."""
    names = {id(tensor): name for name, tensor in tensors.items()}
    return {name: tensors[name] for name in tensors if names[id(tensors[name])] == name}


def _gradients(
    results: dict[str, torch.Tensor], sources: dict[str, torch.Tensor], scale: float
) -> dict[str, torch.Tensor | None]:
    """Gradients of what the call computed, weighted at random, with respect to inputs and parameters."""
    computed = {name: value for name, value in results.items() if value.grad_fn is not None}
    if not computed or not sources:
        return {}
    weights = [_weights(value, crc32(name.encode())) * scale for name, value in computed.items()]
    # What a module keeps of earlier calls may be part of a graph of the caller's, which has to stay.
    found = torch.autograd.grad(
        list(computed.values()), list(sources.values()), weights, allow_unused=True, retain_graph=True
    )
    return dict(zip(sources, found, strict=True))


def _weights(value: torch.Tensor, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    dtype = torch.complex128 if value.is_complex() else torch.float64
    return torch.randn(value.shape, generator=generator, dtype=dtype).to(value)


def _modes() -> dict[str, Any]:
    kinds = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
    return {
        "grad mode": torch.is_grad_enabled(),
        "default dtype": torch.get_default_dtype(),
        **{f"autocast on {kind}": (torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in kinds},
    }


@contextmanager
def _same_modes() -> Iterator[None]:
    """Put back at the end what a call may leave switched."""
    before = _modes()
    try:
        with torch.inference_mode(False), torch.set_grad_enabled(before["grad mode"]):
            yield
    finally:
        torch.set_default_dtype(before["default dtype"])
        for name, setting in before.items():
            if name.startswith("autocast on "):
                torch.set_autocast_enabled(name.removeprefix("autocast on "), setting[0])
                torch.set_autocast_dtype(name.removeprefix("autocast on "), setting[1])
