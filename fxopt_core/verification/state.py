"""What a module holds: watched during a call, and put back afterwards."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import fx, nn
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from torch.utils._pytree import tree_flatten_with_path

_OF_EVERY_MODULE = frozenset(vars(nn.Module()))

_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.Tensor)


class _Held(NamedTuple):
    tensor: torch.Tensor
    storage: torch.UntypedStorage
    offset: int
    size: torch.Size
    stride: tuple[int, ...]
    requires_grad: bool
    leaf: bool


class State:
    """What a module and its parts hold at one moment: parameters, buffers, attributes, training flags.

    Seen are tensors and numbers, also in lists, tuples and dictionaries; not what other objects hold.

    Attributes:
        values: by name; tensors are copies.
        registered: names of parameters, buffers and training flags.
    """

    def __init__(self, module: nn.Module | None) -> None:
        self._module = module
        self._containers: dict[int, tuple[Any, Any]] = {}
        self._tensors: dict[int, _Held] = {}
        self._storages: dict[int, tuple[torch.UntypedStorage, torch.UntypedStorage]] = {}
        if module is not None:
            self._hold(module)
        current, self.registered = _read(module)
        self.values = {
            name: self._copy(self._tensors[id(value)]) if isinstance(value, torch.Tensor) else value
            for name, value in current.items()
        }

    def now(self) -> tuple[dict[str, Any], frozenset[str]]:
        """What the module holds now, by name, and which names are registered. Tensors are no copies."""
        return _read(self._module)

    def _hold(self, value: Any) -> None:
        if isinstance(value, torch.Tensor):
            if id(value) not in self._tensors:
                require_dense(value, "a tensor that the module holds")
                storage = value.untyped_storage()
                if storage._cdata not in self._storages:
                    self._storages[storage._cdata] = (storage, storage.clone())
                place = (int(value.storage_offset()), value.size(), value.stride())
                self._tensors[id(value)] = _Held(value, storage, *place, value.requires_grad, value.is_leaf)
        elif isinstance(value, nn.Module):
            # What torch.fx keeps about a graph module is its own: it may make code at the first call.
            if isinstance(value, fx.GraphModule):
                tensors = [part for part in vars(value).values() if isinstance(part, torch.Tensor)]
                for part in (value._parameters, value._buffers, value._modules, *tensors):
                    self._hold(part)
            else:
                self._hold(vars(value))
        elif isinstance(value, (list, dict, set, deque, tuple)) and id(value) not in self._containers:
            self._containers[id(value)] = (value, value if isinstance(value, tuple) else value.copy())
            for part in value.values() if isinstance(value, dict) else value:
                self._hold(part)

    def _copy(self, held: _Held) -> torch.Tensor:
        copied = torch.empty(0, dtype=held.tensor.dtype, device=held.tensor.device)
        copied.set_(self._storages[held.storage._cdata][1], held.offset, held.size, held.stride)
        return copied.requires_grad_(held.requires_grad) if held.leaf else copied

    def put_back(self) -> None:
        """Make the module hold what it held when this was made."""
        for container, before in self._containers.values():
            if not _same_parts(container, before):
                container.clear()
                (container.extend if isinstance(container, (list, deque)) else container.update)(before)
        for storage, before in self._storages.values():
            # Below autograd, so that gradients that the caller has yet to compute do not take it for a change.
            if storage.nbytes() != before.nbytes():
                storage.resize_(before.nbytes())
            storage.copy_(before)
        for held in self._tensors.values():
            tensor = held.tensor
            place = (tensor.untyped_storage()._cdata, tensor.storage_offset(), tensor.size(), tensor.stride())
            with torch.no_grad():
                if place != (held.storage._cdata, held.offset, held.size, held.stride):
                    tensor.set_(held.storage, held.offset, held.size, held.stride)
        for held in self._tensors.values():
            if held.leaf and not held.tensor.is_leaf:
                held.tensor.detach_()
            if held.leaf and held.tensor.requires_grad != held.requires_grad:
                held.tensor.requires_grad_(held.requires_grad)


def require_dense(tensor: torch.Tensor, name: str) -> None:
    """Refuse a tensor that is not strided or has no values.

    Raises:
        TypeError: it is sparse, quantized, nested, on the meta device, of a wrapping class, or without memory.
    """
    kind = {
        "a sparse or other tensor that is not strided": tensor.layout != torch.strided,
        "a tensor without values": tensor.is_meta,
        "a quantized tensor": tensor.is_quantized,
        "a nested tensor": tensor.is_nested,
        "a subclass of tensor that wraps others": is_traceable_wrapper_subclass(tensor),
    }
    if not any(kind.values()):
        last = tensor.storage_offset() + sum(
            (n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride(), strict=True)
        )
        too_small = tensor.untyped_storage().nbytes() < (last + 1) * tensor.element_size()
        kind["a tensor without memory"] = tensor.numel() > 0 and too_small
    for words, applies in kind.items():
        if applies:
            raise TypeError(
                f"{name} is {words} ({type(tensor).__name__}, {tensor.layout}, {tensor.device}); expected a dense "
                "tensor, whose storage and strides can be compared. Convert it, for example by to_dense()."
            )


def _same_parts(one: Any, other: Any) -> bool:
    if len(one) != len(other):
        return False
    if isinstance(one, dict):
        return all(a is b for pair in zip(one.items(), other.items(), strict=True) for a, b in zip(*pair, strict=True))
    return one == other if isinstance(one, set) else all(a is b for a, b in zip(one, other, strict=True))


def _read(module: nn.Module | None) -> tuple[dict[str, Any], frozenset[str]]:
    registered: dict[str, Any] = {}
    others: dict[str, Any] = {}
    for path, part in module.named_modules(remove_duplicate=False) if module is not None else ():
        # `torch.compile` puts this before the names.
        prefix = "".join(f"{step}." for step in path.split(".") if step not in ("", "_orig_mod"))
        own = {**part._parameters, **part._buffers, "training": part.training}
        registered |= {prefix + name: value for name, value in own.items()}
        for name, value in vars(part).items():
            if name in _OF_EVERY_MODULE or (isinstance(part, fx.GraphModule) and not isinstance(value, torch.Tensor)):
                continue
            for steps, leaf in tree_flatten_with_path(value)[0]:
                if isinstance(leaf, _PLAIN):
                    others["".join((prefix, name, *map(str, steps)))] = leaf
    return {**others, **registered}, frozenset(registered)


def module_of(function: Callable[..., Any]) -> nn.Module | None:
    """The module that is called, also through one of its methods; `None` where there is none to see."""
    for candidate in (function, getattr(function, "__self__", None)):
        if isinstance(candidate, nn.Module):
            return candidate
    return None


@contextmanager
def same_state(function: Callable[..., Any]) -> Iterator[State]:
    """Put back at the end what the module holds. Gives what it held. A function holds nothing that can be seen."""
    state = State(module_of(function))
    try:
        yield state
    finally:
        state.put_back()
