"""One call of a function, and everything that can be observed of it."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from types import BuiltinFunctionType, FunctionType
from typing import Any, NamedTuple
from zlib import crc32

import torch
from torch import nn
from torch.utils._pytree import tree_flatten_with_path

from fxopt_core.verification.cases import Case, fresh_copy
from fxopt_core.verification.isolation import same_random_state
from fxopt_core.verification.state import module_of, require_dense, same_state
from fxopt_core.verification.tolerance import compared_by_identity, same_value

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
        error: type and text of the exception that it raised.
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
        gradient_error: type and text of the exception that differentiating raised.
    """

    error: tuple[type[Exception], str] | None = None
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
    gradient_error: tuple[type[Exception], str] | None = None


def observe(
    function: Function, other: Function, case: Case, seed: int, *, gradients: bool, scale: float = 1.0
) -> Observation:
    """Call a function on copies of the inputs and put everything of the caller's back afterwards.

    Args:
        function: a module or function.
        other: what it is compared with. A function may call that module, so its state stands for that of a function.
        case: the inputs.
        seed: of the random generators.
        gradients: whether to differentiate the results.
        scale: of the weights with which the results are differentiated. Gradients are linear in it.

    Raises:
        TypeError: a tensor is not dense.
    """
    seen = Observation()
    owner = function if module_of(function) is not None else other
    with _same_modes(gradients), _same_generators(owner, case), same_state(owner) as state:
        args, kwargs = fresh_copy(case.args, case.kwargs)
        given, _ = named_leaves(("input", args), ("input", kwargs))
        sources = _once(_in_autograd({**given, **state.now()[0]}))
        random.seed(seed)
        torch.manual_seed(seed)
        try:
            result = function(*args, **kwargs)
        except Exception as error:  # to raise is something that can be observed
            seen.error = (type(error), str(error))
            return seen
        seen.random, seen.modes = _generators(), _modes()
        outputs, seen.structure["the output"] = named_leaves(("output", result))
        inputs, seen.structure["the inputs after the call"] = named_leaves(("input", args), ("input", kwargs))
        held, registered = state.now()
        seen.state, seen.registered = frozenset(state.values), state.registered | registered
        for names in (held, inputs, outputs):
            seen.places |= {name: _place(tensor, name) for name, tensor in names.items() if _has_memory(tensor)}
        storages: dict[int, tuple[torch.UntypedStorage, torch.UntypedStorage]] = {}
        seen.outputs = {name: _kept(value, storages) for name, value in outputs.items()}
        seen.inputs = {name: _kept(value, storages) for name, value in inputs.items()}
        gone: dict[str, Any] = dict.fromkeys(state.values.keys() - held.keys(), "nothing: it is gone")
        seen.written = gone | {
            name: _kept(value, storages)
            for name, value in held.items()
            if name not in state.values or not same_value(value, state.values[name])
        }
        if gradients:
            try:
                written = {name: held[name] for name in seen.written.keys() & held.keys()}
                seen.gradients = _gradients(_in_autograd({**written, **inputs, **outputs}), sources, seed, scale)
            except Exception as error:  # so is to raise in the backward pass
                seen.gradient_error = (type(error), str(error))
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


_WHOLE = (torch.Tensor, torch.Generator, nn.Module, type, Enum, FunctionType, BuiltinFunctionType)


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
    if isinstance(value, torch.Generator):
        return value.get_state()
    if not isinstance(value, torch.Tensor):
        return value
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
    results: dict[str, torch.Tensor], sources: dict[str, torch.Tensor], seed: int, scale: float
) -> dict[str, torch.Tensor | None]:
    """Gradients of what the call computed, weighted at random, with respect to inputs and parameters."""
    computed = {name: value for name, value in results.items() if value.grad_fn is not None}
    if not computed or not sources:
        return {}
    weights = [_weights(value, seed + crc32(name.encode())) * scale for name, value in computed.items()]
    # What a module keeps of earlier calls may be part of a graph of the caller's, which has to stay.
    found = torch.autograd.grad(
        list(computed.values()), list(sources.values()), weights, allow_unused=True, retain_graph=True
    )
    return dict(zip(sources, found, strict=True))


def _weights(value: torch.Tensor, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    dtype = torch.complex128 if value.is_complex() else torch.float64
    return torch.randn(value.shape, generator=generator, dtype=dtype).to(value)


def _generators() -> dict[str, Any]:
    states: dict[str, Any] = {"Python": random.getstate(), "CPU": torch.get_rng_state()}
    if torch.cuda.is_initialized():
        states |= {f"cuda:{index}": state for index, state in enumerate(torch.cuda.get_rng_state_all())}
    return states


@contextmanager
def _same_generators(owner: Any, case: Case) -> Iterator[None]:
    # Seeding reaches all CUDA devices, not only those in use.
    before = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    try:
        with same_random_state(owner, case.args, case.kwargs):
            yield
    finally:
        for index, state in enumerate(before):
            torch.cuda.set_rng_state(state, index)


def _modes() -> dict[str, Any]:
    kinds = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
    return {
        "grad mode": torch.is_grad_enabled(),
        "default dtype": torch.get_default_dtype(),
        **{f"autocast on {kind}": (torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in kinds},
    }


@contextmanager
def _same_modes(gradients: bool) -> Iterator[None]:
    """Switch gradients on or off, and put back at the end what a call may leave switched."""
    before = _modes()
    try:
        with torch.inference_mode(False), torch.set_grad_enabled(gradients):
            yield
    finally:
        torch.set_default_dtype(before["default dtype"])
        for name, setting in before.items():
            if name.startswith("autocast on "):
                torch.set_autocast_enabled(name.removeprefix("autocast on "), setting[0])
                torch.set_autocast_dtype(name.removeprefix("autocast on "), setting[1])
