"""Everything that a call can change outside its results: watched during the call, and put back afterwards."""

from __future__ import annotations

import operator
import pickle
import random
import sys
from collections import deque
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from enum import Enum
from functools import partial
from itertools import chain
from types import CodeType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import fx, nn

from fxopt_core.verification.comparison import same_value
from fxopt_core.verification.isolation import Model, deep_copy
from fxopt_core.verification.memory import Copies, what_is_not_dense

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


PutBack = Callable[[Any], object]
"""Makes something hold, or be, what it was."""


def _layout(tensor: torch.Tensor) -> tuple[Any, ...]:
    return int(tensor.storage_offset()), tensor.size(), tensor.stride()


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
        self.roots = roots
        self.live: dict[str, Any] = {}
        self._settings: list[tuple[PutBack, Any]]
        self._settings = [(put_back, get()) for get, put_back in default_generators().values()]
        # Each with its storage, its layout there, whether it requires grad, and whether it is a leaf of autograd.
        self._tensors: list[tuple[torch.Tensor, torch.UntypedStorage, tuple[Any, ...], bool, bool]] = []
        self._copies = Copies()
        known: dict[int, Any] = {}
        for name, value, put_back in _reached(roots):
            if id(value) not in known:
                known[id(value)] = value
                self._hold(value)
            if put_back is not None:
                self._settings.append((put_back, value))
            if _is_leaf(value):
                self.live[name] = value
        self.values = {name: self._kept(value) for name, value in self.live.items()}
        self.registered = registered(roots)

    def now(self) -> dict[str, Any]:
        """What the roots hold now, by name. Tensors are no copies."""
        return {name: value for name, value, _ in _reached(self.roots) if _is_leaf(value)}

    def changes(self, held: dict[str, Any] | None = None) -> dict[str, Any]:
        """What is there now (`held`) and was not, or was otherwise; what is gone is said to be."""
        held = self.now() if held is None else held
        gone: dict[str, Any] = dict.fromkeys(self.values.keys() - held.keys(), "nothing: it is gone")
        return gone | {
            name: value
            for name, value in held.items()
            if name not in self.values or not same_value(as_it_is(value), self.values[name])
        }

    def _hold(self, value: Any) -> None:
        if isinstance(value, torch.Tensor):
            if not what_is_not_dense(value):
                storage = value.untyped_storage()
                self._copies.of_storage(storage)
                self._tensors.append((value, storage, _layout(value), value.requires_grad, value.is_leaf))
        elif type(value) not in _OFTEN:
            if isinstance(value, GENERATORS):
                get, put_back = _access(value)
                self._settings.append((put_back, get()))
            for container in _mutable_parts(value):
                held = _held(container) if isinstance(container, dict) else container.copy()
                self._settings.append((partial(_refill, container), held))

    def _kept(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or what_is_not_dense(value):
            return as_it_is(value)
        return self._copies.of(value).requires_grad_(value.requires_grad and value.is_leaf)

    def put_back(self) -> None:
        """Make everything hold what it held when this was made."""
        for put_back, before in self._settings:
            put_back(before)
        for storage, copied in self._copies.storages.values():
            # Below autograd, so that gradients that the caller has yet to compute do not take it for a change.
            if storage.nbytes() != copied.nbytes():
                storage.resize_(copied.nbytes())
            storage.copy_(copied)
        for tensor, storage, layout, requires_grad, leaf in self._tensors:
            with torch.no_grad():
                if tensor.untyped_storage()._cdata != storage._cdata or _layout(tensor) != layout:
                    tensor.set_(storage, *layout)
            if leaf and not tensor.is_leaf:
                tensor.detach_()
            if leaf and tensor.requires_grad != requires_grad:
                tensor.requires_grad_(requires_grad)


@contextmanager
def same_state(*roots: Any) -> Iterator[State]:
    """Put back at the end what the roots hold, and the default random generators. Gives what they held."""
    state = State(*roots)
    try:
        yield state
    finally:
        state.put_back()


def generators_in(root: Any) -> list[Any]:
    """The random generators that a value holds."""
    return [one for _, one, _ in _reached((root,)) if type(one) not in _OFTEN and isinstance(one, GENERATORS)]


def default_generators() -> dict[str, tuple[Callable[[], Any], PutBack]]:
    """How to read and to set the state of each random generator that nobody has to name, by name."""
    found: dict[str, tuple[Callable[[], Any], PutBack]] = {
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


def _access(generator: Any) -> tuple[Callable[[], Any], PutBack]:
    if isinstance(generator, random.Random):
        return generator.getstate, generator.setstate
    if isinstance(generator, np.random.Generator):
        bits = generator.bit_generator
        return lambda: bits.state, partial(setattr, bits, "state")
    return generator.get_state, generator.set_state


def _reached(roots: tuple[Any, ...]) -> Iterator[tuple[str, Any, PutBack | None]]:
    """Everything that the roots hold, with its name, and how to put it back where no container leads to it.

    A leaf and a module come under each of their names; what else is there twice, under the first.
    """
    opened: dict[int, Any] = {}
    waiting: list[tuple[str, Any, PutBack | None, frozenset[int]]]
    waiting = [("", root, None, frozenset()) for root in reversed(roots)]
    while waiting:
        name, value, put_back, above = waiting.pop()
        yield name.removeprefix("."), value, put_back
        known: Container[int] = above if isinstance(value, nn.Module) else opened
        if _is_leaf(value) or id(value) in known:
            continue
        opened[id(value)] = value
        inside = above | {id(value)} if isinstance(value, nn.Module) else above
        waiting += [(name + key, *part, inside) for key, part in reversed(_parts(value).items())]


def _is_leaf(value: Any) -> bool:
    return type(value) in _OFTEN or isinstance(value, _LEAVES)


_Parts = dict[str, tuple[Any, PutBack | None]]


def _parts(value: Any) -> _Parts:
    """What a value holds: key and part, and how to put it back, where no container leads from the one to the other."""
    if isinstance(value, nn.Module) and "_orig_mod" in value._modules:
        # `torch.compile` puts a module of its own around, which is no part of the names. (Its class is Dynamo's, for
        # whose import nobody is to wait who compiles nothing.)
        return {"": (value._orig_mod, None)}
    if isinstance(value, torch.jit.ScriptModule):
        return {f".{name}": (one, None) for name, one in (*value.named_parameters(), *value.named_buffers())}
    if isinstance(value, nn.Module):
        return _parts_of_module(value)
    if isinstance(value, dict):
        return {f"[{key!r}]": (one, None) for key, one in _held(value).items()}
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
    found: _Parts = {f".{name}": (getattr(value, name), partial(_bind, value, name)) for name in slots}
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
            found[f".{name}"] = (one, partial(_bind, kind, name))
    return found


def _parts_of_function(function: FunctionType) -> _Parts:
    if _foreign(function):
        return {}
    found: _Parts = {".__defaults__": (function.__defaults__, None), ".__kwdefaults__": (function.__kwdefaults__, None)}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        if cell != type(cell)():  # else it is empty
            found[f".{name}"] = (cell.cell_contents, partial(_bind, cell, "cell_contents"))
    space = function.__globals__
    for name in _names(function.__code__) & space.keys():
        one = space[name]
        if isinstance(one, (*_LEAVES, *_MUTABLE)) or getattr(one, "__globals__", None) is space:
            found[f".{name}"] = (one, partial(_bind, space, name))
    return found


def _names(code: CodeType) -> set[str]:
    return set(code.co_names).union(*(_names(one) for one in code.co_consts if isinstance(one, CodeType)))


def _foreign(kind: type | FunctionType) -> bool:
    return str(kind.__module__).partition(".")[0] in _FOREIGN


def _mutable_parts(value: Any) -> list[Any]:
    """The containers through which what a value holds can be replaced."""
    if isinstance(value, _MUTABLE):
        return [value]
    if isinstance(value, nn.Module) and (isinstance(value, fx.GraphModule) or "_orig_mod" in value._modules):
        return [vars(value)[name] for name in _REGISTERED]
    if isinstance(value, nn.Module) and not isinstance(value, torch.jit.ScriptModule):
        return [vars(value), *(one for one in vars(value).values() if isinstance(one, _MUTABLE))]
    own = getattr(value, "__dict__", None)
    return [own] if isinstance(own, dict) and _parts(value) and not callable(value) else []


def _bind(owner: Any, name: str, value: Any) -> None:
    """Make a key of a namespace, or an attribute, this very object, unless it is."""
    inside = isinstance(owner, dict)
    if (owner.get(name) if inside else getattr(owner, name, None)) is not value:
        owner.__setitem__(name, value) if inside else setattr(owner, name, value)


def _refill(container: Any, before: Any) -> None:
    """Make a container hold these very objects, unless it does."""
    flat = chain.from_iterable
    if isinstance(container, set):
        same = container == before
    else:
        parts, others = (_held(one).items() if isinstance(one, dict) else zip(one) for one in (container, before))
        same = len(container) == len(before) and all(map(operator.is_, flat(parts), flat(others)))
    if not same:
        container.clear()
        (container.extend if isinstance(container, (list, deque)) else container.update)(before)


def _held(container: dict[Any, Any]) -> dict[Any, Any]:
    """What a dictionary holds, in its order; one that makes values when it is asked (`ACT2FN`) is not asked."""
    return {key: dict.__getitem__(container, key) for key in container}


def registered(roots: tuple[Any, ...]) -> frozenset[str]:
    """Names of the parameters, buffers and training flags of the modules among the roots."""
    found: set[str] = set()
    modules = (one.named_modules(remove_duplicate=False) for one in roots if isinstance(one, nn.Module))
    for path, part in chain.from_iterable(modules):
        own = () if isinstance(part, torch.jit.ScriptModule) else (*part._parameters, *part._buffers)
        steps = [step for step in path.split(".") if step not in ("", "_orig_mod")]
        found |= {".".join([*steps, name]) for name in (*own, "training")}
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
