"""Calls of a function, and everything that can be observed of them."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import BuiltinFunctionType, FunctionType
from typing import Any
from zlib import crc32

import numpy as np
import torch
from torch import nn
from torch.utils._pytree import tree_flatten_with_path

from fxopt_core.verification.cases import SPECIAL, Case
from fxopt_core.verification.comparison import compared_by_identity, scale_against_overflow
from fxopt_core.verification.memory import Copies, MemoryLocation, location_of, require_dense
from fxopt_core.verification.modes import modes, same_modes
from fxopt_core.verification.state import GENERATORS, State, as_bytes, as_it_is, default_generators, registered

Function = Callable[..., Any]


@dataclass
class Observation:
    """What one call did.

    Attributes:
        error: the exception that it raised.
        outputs: leaves of the result by their path.
        inputs: leaves of the inputs after the call, by path.
        structure: of outputs and inputs.
        locations: of outputs, inputs and state in memory, by name.
        state: names of what the module held before the call.
        registered: names of parameters, buffers and training flags.
        written: what the call wrote of the state, with the new values.
        process: states of the random generators, and modes of torch, after the call, by kind and name.
        gradients: by name of input or parameter; `None` where nothing flows.
        small_gradients: the same of results weighted `scale` times as much, for special values; else empty.
        scale: a power of two, with which sums in gradients do not overflow.
        gradient_error: the exception that differentiating raised.
        first: whether no other call came before it.
    """

    error: Exception | None = None
    outputs: dict[str, Any] = field(default_factory=dict)
    inputs: dict[str, Any] = field(default_factory=dict)
    structure: dict[str, Any] = field(default_factory=dict)
    locations: dict[str, MemoryLocation] = field(default_factory=dict)
    state: frozenset[str] = frozenset()
    registered: frozenset[str] = frozenset()
    written: dict[str, Any] = field(default_factory=dict)
    process: dict[tuple[str, str], Any] = field(default_factory=dict)
    gradients: dict[str, torch.Tensor | None] = field(default_factory=dict)
    small_gradients: dict[str, torch.Tensor | None] = field(default_factory=dict)
    scale: float = 1.0
    gradient_error: Exception | None = None
    first: bool = True


def observe(function: Function, state: State, row: Sequence[Case]) -> list[Observation]:
    """Call a function on copies of the inputs of each case, one call after the other, and put all back at the end.

    A call that raises is the last.

    Args:
        function: called with the inputs.
        state: what the calls may change, as it is now and will be again at the end.
        row: the cases; each begins with what the one before left.

    Raises:
        TypeError: a tensor is not dense.
    """
    seen: list[Observation] = []
    before, live = state, state.live
    try:
        with same_modes():
            for case in row:
                seen.append(Observation(first=not seen))
                live = _observe(function, before, live, case, seen[-1])
                if seen[-1].error:
                    break
                if seen[-1].written and case is not row[-1]:
                    before = State(*state.roots)
    finally:
        state.put_back()
    return seen


def _observe(function: Function, before: State, live: dict[str, Any], case: Case, seen: Observation) -> dict[str, Any]:
    """Make one call, note what it did, and give what is held after it.

    Args:
        function: called with the inputs.
        before: what is held before the call, with the values that it has.
        live: the very objects.
        case: says the inputs.
        seen: what is noted.
    """
    args, kwargs = case.fresh_inputs()
    given, _ = named_leaves(("input", args), ("input", kwargs))
    sources = _once(_in_autograd({**given, **live}))
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
        return live
    drawn = {name: as_bytes(get()) for name, (get, _) in default_generators().items()}
    seen.process = {("random state", f"the {name} generator"): state for name, state in drawn.items()}
    seen.process |= {("mode", name): mode for name, mode in modes().items()}
    outputs, seen.structure["the output"] = named_leaves(("output", result))
    inputs, seen.structure["the inputs after the call"] = named_leaves(("input", args), ("input", kwargs))
    held, copies = before.now(), Copies()
    for names in (held, inputs, outputs):
        seen.locations |= {name: _location(tensor, name) for name, tensor in names.items() if _has_memory(tensor)}
    changes = before.changes(held)
    seen.outputs, seen.inputs, seen.written = (
        {name: _kept(value, copies) for name, value in values.items()} for values in (outputs, inputs, changes)
    )
    seen.state = frozenset(before.values)
    seen.registered = before.registered | registered(before.roots) if changes else before.registered
    if case.gradients:
        results = _in_autograd({**{name: held[name] for name in changes.keys() & held.keys()}, **inputs, **outputs})
        try:
            seen.gradients = _gradients(results, sources)
            if case.name == SPECIAL:
                seen.scale = scale_against_overflow([*results.values(), *sources.values()])
                seen.small_gradients = _gradients(results, sources, seen.scale)
        except Exception as error:  # so is to raise in the backward pass
            seen.gradient_error = error
    return held


def named_leaves(*roots: tuple[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    """Leaves of trees by their path, and the structure without them. Objects that no pytree knows are opened."""
    leaves: dict[str, Any] = {}
    structure: list[Any] = []
    opened: set[int] = set()
    for name, value in roots:
        _walk(name, value, leaves, structure, opened)
    return leaves, structure


# No function inside the other: one that calls itself would keep the leaves, and all of autograd that hangs on them,
# until the next collection of garbage.
def _walk(name: str, value: Any, leaves: dict[str, Any], structure: list[Any], opened: set[int]) -> None:
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
                _walk(f"{place}.{attribute}", part, leaves, structure, opened)


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


def _location(tensor: torch.Tensor, name: str) -> MemoryLocation:
    require_dense(tensor, name)
    return location_of(tensor)


def _kept(value: Any, copies: Copies) -> Any:
    """A value as it is now. Tensors keep their strides and say whether they are part of autograd."""
    if not isinstance(value, torch.Tensor):
        return as_it_is(value)
    require_dense(value, "an input, an output or a tensor that the module holds")
    return copies.of(value).requires_grad_(value.requires_grad)


def _in_autograd(values: dict[str, Any]) -> dict[str, torch.Tensor]:
    return {name: value for name, value in values.items() if isinstance(value, torch.Tensor) and value.requires_grad}


def _once(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Each tensor under its last name only: `nn.LSTM` keeps a list of its parameters beside them."""
    names = {id(tensor): name for name, tensor in tensors.items()}
    return {name: tensors[name] for name in tensors if names[id(tensors[name])] == name}


def _gradients(
    results: dict[str, torch.Tensor], sources: dict[str, torch.Tensor], scale: float = 1.0
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
