"""Everything that a call can change outside its results: watched during the call, and put back afterwards."""

from __future__ import annotations

import pickle
import random
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from functools import partial
from types import CodeType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import fx, nn
from torch._dynamo.eval_frame import OptimizedModule
from torch.nn.parameter import UninitializedTensorMixin  # type: ignore[attr-defined]
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from fxopt_core.verification.comparison import same_value
from fxopt_core.verification.isolation import Model, deep_copy

GENERATORS = (torch.Generator, random.Random, np.random.Generator, np.random.RandomState)
PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device)
"""Types whose values are compared with `==`."""

_LEAVES = (*PLAIN, torch.Tensor, set, frozenset, *GENERATORS)
# Most values are of these very classes, and to look one up is faster than `isinstance`.
_OFTEN = frozenset({bool, int, float, str, type(None), torch.Tensor, nn.Parameter})
_CONTAINERS = (list, dict, deque, tuple)
_MUTABLE = (list, dict, deque, set)

_REGISTERED = ("_parameters", "_buffers", "_modules")
# What torch notes on a module for itself.
_NOT_SEEN = {*_REGISTERED, "_non_persistent_buffers_set", "_is_full_backward_hook", "_compiled_call_impl"}
_NOT_SEEN |= {"_is_torch_compile"}

# Libraries whose classes and functions keep nothing of a model's.
_FOREIGN = frozenset(sys.stdlib_module_names) | {"torch", "numpy"}


class _Held(NamedTuple):
    tensor: torch.Tensor
    storage: torch.UntypedStorage
    offset: int
    size: torch.Size
    stride: tuple[int, ...]
    requires_grad: bool
    leaf: bool


class _Variable(NamedTuple):
    """Something that can be bound anew: a key of a namespace, or an attribute."""

    owner: Any
    name: str

    def get(self) -> Any:
        return self.owner.get(self.name) if isinstance(self.owner, dict) else getattr(self.owner, self.name, None)

    def put_back(self, value: Any) -> None:
        if self.get() is value:
            return
        if isinstance(self.owner, dict):
            self.owner[self.name] = value
        else:
            setattr(self.owner, self.name, value)


class State:
    """What a call can change, at one moment: all that the roots hold, and the default random generators.

    Seen are tensors, plain values, sets and random generators (torch's, Python's and numpy's): as parameters, buffers,
    training flags and attributes of modules, in containers, in attributes and slots of other objects, as attributes of
    the modules' classes, and in what a function (a hook, for one) can change: variables that it encloses, its defaults
    and the globals that it names. Not seen is what an iterator, or an object of the standard library, keeps to itself.

    Args:
        roots: modules, functions and other values, whose parts are named from there: `norm.running_mean`.

    Attributes:
        live: leaves by name, as they were reached; tensors are no copies.
        values: the same with copies of tensors, and the states of generators.
        registered: names of parameters, buffers and training flags.
    """

    def __init__(self, *roots: Any) -> None:
        self._roots = roots
        self._containers: dict[int, tuple[Any, Any]] = {}
        self._variables: list[tuple[_Variable, Any]] = []
        self._tensors: dict[int, _Held] = {}
        self._storages: dict[int, tuple[torch.UntypedStorage, torch.UntypedStorage]] = {}
        self._generators = [(put_back, get()) for get, put_back in default_generators().values()]
        self.live: dict[str, Any] = {}
        for name, value, variable in _reached(roots):
            self._hold(value)
            if variable is not None:
                self._variables.append((variable, value))
            if _is_leaf(value):
                self.live[name] = value
        self.values = {name: self._kept(value) for name, value in self.live.items()}
        self.registered = _registered(roots)

    def now(self) -> tuple[dict[str, Any], frozenset[str]]:
        """What the roots hold now, by name, and which names are registered. Tensors are no copies."""
        leaves = {name: value for name, value, _ in _reached(self._roots) if _is_leaf(value)}
        return leaves, _registered(self._roots)

    def changes(self, held: dict[str, Any] | None = None) -> dict[str, Any]:
        """What is there now (`held`) and was not, or was otherwise; what is gone is said to be."""
        held = self.now()[0] if held is None else held
        gone: dict[str, Any] = dict.fromkeys(self.values.keys() - held.keys(), "nothing: it is gone")
        return gone | {
            name: value
            for name, value in held.items()
            if name not in self.values or not same_value(as_it_is(value), self.values[name])
        }

    def _hold(self, value: Any) -> None:
        if isinstance(value, torch.Tensor):
            if id(value) not in self._tensors and not what_is_not_dense(value):
                storage = value.untyped_storage()
                if storage._cdata not in self._storages:
                    self._storages[storage._cdata] = (storage, storage.clone())
                place = (int(value.storage_offset()), value.size(), value.stride())
                self._tensors[id(value)] = _Held(value, storage, *place, value.requires_grad, value.is_leaf)
        elif type(value) not in _OFTEN and isinstance(value, GENERATORS):
            get, put_back = _access(value)
            self._generators.append((put_back, get()))
        for container in () if type(value) in _OFTEN else _mutable_parts(value):
            self._containers.setdefault(id(container), (container, container.copy()))

    def _kept(self, value: Any) -> Any:
        held = self._tensors.get(id(value)) if isinstance(value, torch.Tensor) else None
        if held is None:
            return as_it_is(value)
        copied = torch.empty(0, dtype=held.tensor.dtype, device=held.tensor.device)
        copied.set_(self._storages[held.storage._cdata][1], held.offset, held.size, held.stride)
        return copied.requires_grad_(held.requires_grad) if held.leaf else copied

    def put_back(self) -> None:
        """Make everything hold what it held when this was made."""
        for put_back, state in self._generators:
            put_back(state)
        for variable, value in self._variables:
            variable.put_back(value)
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


@contextmanager
def same_state(*roots: Any) -> Iterator[State]:
    """Put back at the end what the roots hold, and the default random generators. Gives what they held."""
    state = State(*roots)
    try:
        yield state
    finally:
        state.put_back()


@contextmanager
def same_generators(root: Any) -> Iterator[None]:
    """Put back at the end the random generators that the root holds, and nothing else."""
    held = [_access(one) for _, one, _ in _reached((root,)) if type(one) not in _OFTEN and isinstance(one, GENERATORS)]
    before = [get() for get, _ in held]
    try:
        yield
    finally:
        for (_, put_back), state in zip(held, before, strict=True):
            put_back(state)


def default_generators() -> dict[str, tuple[Callable[[], Any], Callable[[Any], object]]]:
    """How to read and to set the state of each random generator that nobody has to name, by name."""
    found: dict[str, tuple[Callable[[], Any], Callable[[Any], object]]] = {
        "Python": (random.getstate, random.setstate),
        "NumPy": (np.random.get_state, np.random.set_state),
        "CPU": (torch.get_rng_state, torch.set_rng_state),
    }
    for kind in ("cuda", "xpu"):
        module = getattr(torch, kind)
        for index in range(module.device_count() if module.is_initialized() else 0):
            found[f"{kind}:{index}"] = (
                partial(module.get_rng_state, index),
                partial(module.set_rng_state, device=index),
            )
    if torch.backends.mps.is_available():
        found["mps"] = (torch.mps.get_rng_state, torch.mps.set_rng_state)
    return found


def as_it_is(value: Any) -> Any:
    """A value that stays what it is now: of a generator its state, of a set a copy."""
    if type(value) in _OFTEN:
        return value
    if isinstance(value, GENERATORS):
        return as_bytes(_access(value)[0]())
    return value.copy() if isinstance(value, set) else value


def as_bytes(state: Any) -> bytes:
    """The state of a generator, in a form that `==` compares."""
    return pickle.dumps(state.numpy() if isinstance(state, torch.Tensor) else state)


def _access(generator: Any) -> tuple[Callable[[], Any], Callable[[Any], object]]:
    if isinstance(generator, random.Random):
        return generator.getstate, generator.setstate
    if isinstance(generator, np.random.Generator):
        bits = generator.bit_generator
        return lambda: bits.state, partial(setattr, bits, "state")
    return generator.get_state, generator.set_state


def what_is_not_dense(tensor: torch.Tensor) -> str:
    """What keeps a tensor from being compared by storage and strides, in words; `""` where nothing does."""
    if isinstance(tensor, UninitializedTensorMixin):
        return "a parameter that has no shape yet"
    kinds = {
        "a sparse or other tensor that is not strided": tensor.layout != torch.strided,
        "a tensor without values": tensor.is_meta,
        "a quantized tensor": tensor.is_quantized,
        "a nested tensor": tensor.is_nested,
        "a subclass of tensor that wraps others": is_traceable_wrapper_subclass(tensor),
    }
    if not any(kinds.values()):
        last = tensor.storage_offset() + sum(
            (n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride(), strict=True)
        )
        too_small = tensor.untyped_storage().nbytes() < (last + 1) * tensor.element_size()
        kinds["a tensor without memory"] = tensor.numel() > 0 and too_small
    return next((words for words, applies in kinds.items() if applies), "")


def require_dense(tensor: torch.Tensor, name: str) -> None:
    """Refuse a tensor that is not strided or has no values.

    Raises:
        TypeError: it is sparse, quantized, nested, on the meta device, of a wrapping class, or without memory.
    """
    if words := what_is_not_dense(tensor):
        raise TypeError(
            f"{name} is {words} ({type(tensor).__name__}, {tensor.layout}, {tensor.device}); expected a dense "
            "tensor, whose storage and strides can be compared. Convert it, for example by to_dense()."
        )


def _reached(roots: tuple[Any, ...]) -> Iterator[tuple[str, Any, _Variable | None]]:
    """Everything that the roots hold, with its name, and the variable that alone leads to it, if one does.

    A leaf and a module come under each of their names; what else is there twice, under the first.
    """
    opened: set[int] = set()
    waiting: list[tuple[str, Any, _Variable | None, frozenset[int]]]
    waiting = [("", root, None, frozenset()) for root in reversed(roots)]
    while waiting:
        name, value, variable, above = waiting.pop()
        yield name.removeprefix("."), value, variable
        known = above if isinstance(value, nn.Module) else opened
        if _is_leaf(value) or id(value) in known:
            continue
        opened.add(id(value))
        inside = above | {id(value)} if isinstance(value, nn.Module) else above
        waiting += [(name + key, *part, inside) for key, part in reversed(_parts(value).items())]


def _is_leaf(value: Any) -> bool:
    return type(value) in _OFTEN or isinstance(value, _LEAVES)


_Parts = dict[str, tuple[Any, _Variable | None]]


def _parts(value: Any) -> _Parts:
    """What a value holds: key and part, and the variable, where no container leads from the one to the other."""
    if isinstance(value, OptimizedModule):
        # `torch.compile` puts a module of its own around, which is no part of the names.
        return {"": (value._orig_mod, None)}
    if isinstance(value, torch.jit.ScriptModule):
        return {f".{name}": (one, None) for name, one in (*value.named_parameters(), *value.named_buffers())}
    if isinstance(value, nn.Module):
        return _parts_of_module(value)
    if isinstance(value, dict):
        return {f"[{key!r}]": (one, None) for key, one in value.items()}
    if isinstance(value, _CONTAINERS):
        return {f"[{index}]": (one, None) for index, one in enumerate(value)}
    if isinstance(value, FunctionType):
        return _parts_of_function(value)
    if isinstance(value, MethodType):
        return {"": (value.__self__, None), f".{value.__name__}": (value.__func__, None)}
    if isinstance(value, partial):
        return {".func": (value.func, None), ".args": (value.args, None), ".keywords": (value.keywords, None)}
    if isinstance(value, type):
        return {} if _foreign(value) else _parts_of_class(value)
    if isinstance(value, (ModuleType, Enum)) or (_foreign(type(value)) and not isinstance(value, SimpleNamespace)):
        return {}
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ()) if hasattr(value, name)]
    found: _Parts = {f".{name}": (getattr(value, name), _Variable(value, name)) for name in slots}
    return found | {f".{name}": (one, None) for name, one in getattr(value, "__dict__", {}).items()}


def _parts_of_module(module: nn.Module) -> _Parts:
    held: dict[str, Any] = {**module._parameters, **module._buffers, **module._modules}
    if isinstance(module, fx.GraphModule):
        # What else torch.fx keeps is its own: it may make code at the first call.
        held |= {name: one for name, one in vars(module).items() if isinstance(one, torch.Tensor) or name == "training"}
        drawn_from = [
            one
            for node in module.graph.nodes
            for one in (*node.args, *node.kwargs.values())
            if isinstance(one, torch.Generator)
        ]
        held |= {f"generator {index}": one for index, one in enumerate(drawn_from)}
    else:
        held = {name: one for name, one in vars(module).items() if name not in _NOT_SEEN} | held
        if not _foreign(type(module)):
            held["__class__"] = type(module)
    return {f".{name}": (one, None) for name, one in held.items()}


def _parts_of_class(kind: type) -> _Parts:
    found = {} if kind.__base__ is None or _foreign(kind.__base__) else _parts_of_class(kind.__base__)
    for name, held in vars(kind).items():
        one = held.__func__ if isinstance(held, staticmethod) else held
        if name == "forward" or (isinstance(one, (*_LEAVES, *_MUTABLE)) and not name.startswith("__")):
            found[f".{name}"] = (one, _Variable(kind, name))
    return found


def _parts_of_function(function: FunctionType) -> _Parts:
    if _foreign(function):
        return {}
    found: _Parts = {".__defaults__": (function.__defaults__, None), ".__kwdefaults__": (function.__kwdefaults__, None)}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        if cell != type(cell)():  # else it is empty
            found[f".{name}"] = (cell.cell_contents, _Variable(cell, "cell_contents"))
    space = function.__globals__
    for name in _names(function.__code__) & space.keys():
        one = space[name]
        if isinstance(one, (*_LEAVES, *_MUTABLE)) or getattr(one, "__globals__", None) is space:
            found[f".{name}"] = (one, _Variable(space, name))
    return found


def _names(code: CodeType) -> set[str]:
    return set(code.co_names).union(*(_names(one) for one in code.co_consts if isinstance(one, CodeType)))


def _foreign(kind: type | FunctionType) -> bool:
    return str(kind.__module__).partition(".")[0] in _FOREIGN


def _mutable_parts(value: Any) -> list[Any]:
    """The containers through which what a value holds can be replaced."""
    if isinstance(value, _MUTABLE):
        return [value]
    if isinstance(value, (fx.GraphModule, OptimizedModule)):
        return [vars(value)[name] for name in _REGISTERED]
    if isinstance(value, nn.Module) and not isinstance(value, torch.jit.ScriptModule):
        return [vars(value), *(one for one in vars(value).values() if isinstance(one, _MUTABLE))]
    own = getattr(value, "__dict__", None)
    return [own] if isinstance(own, dict) and _parts(value) and not callable(value) else []


def _same_parts(one: Any, other: Any) -> bool:
    if len(one) != len(other):
        return False
    if isinstance(one, dict):
        return all(a is b for pair in zip(one.items(), other.items(), strict=True) for a, b in zip(*pair, strict=True))
    return one == other if isinstance(one, set) else all(a is b for a, b in zip(one, other, strict=True))


def _registered(roots: tuple[Any, ...]) -> frozenset[str]:
    found: set[str] = set()
    for root in roots:
        for path, part in root.named_modules(remove_duplicate=False) if isinstance(root, nn.Module) else ():
            script = isinstance(part, torch.jit.ScriptModule)
            own = [] if script else [*part._parameters, *part._buffers]
            names = [f"{path}.{name}" for name in (*own, "training")]
            found |= {".".join(step for step in name.split(".") if step not in ("", "_orig_mod")) for name in names}
    return frozenset(found)


def with_shared_tensors(model: Model) -> Model:
    """A copy of everything in a module but its tensors. Calls of it inside `same_state` leave no trace in the module.

    A function is not copied.

    Raises:
        CannotCopyError: something in it cannot be copied.
    """
    if not isinstance(model, nn.Module):
        return model
    return deep_copy(model, {id(value): value for _, value, _ in _reached((model,)) if isinstance(value, torch.Tensor)})


def module_of(function: Callable[..., Any]) -> nn.Module | None:
    """The module that is called, also through one of its methods; `None` where there is none to see."""
    for candidate in (function, getattr(function, "__self__", None)):
        if isinstance(candidate, nn.Module):
            return candidate
    return None
