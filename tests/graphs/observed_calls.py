"""Calls with their arguments, made into nodes and watched: what they really write, share and draw."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch import fx
from torch.overrides import TorchFunctionMode, get_default_nowrap_functions
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from fxopt_core.graphs.effects import Effects, effects_of

Storage = int


class Call(NamedTuple):
    """One call of a function, or of a method by its name, with its arguments."""

    target: Callable[..., Any] | str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def node(self, place: Callable[[torch.Tensor], fx.Node], graph: fx.Graph) -> fx.Node:
        """The call as a node: tensors are placeholders, the rest literals."""
        args, kwargs = tree_map_only(torch.Tensor, place, (self.args, self.kwargs))
        if isinstance(self.target, str):
            return graph.call_method(self.target, args, kwargs)
        return graph.call_function(self.target, args, kwargs)

    def run(self) -> Any:
        if isinstance(self.target, str):
            return getattr(self.args[0], self.target)(*self.args[1:], **self.kwargs)
        return self.target(*self.args, **self.kwargs)

    def copy(self) -> Call:
        """The call with copies of its tensors; what was one tensor stays one."""
        copies: dict[int, torch.Tensor] = {}
        args, kwargs = tree_map_only(
            torch.Tensor,
            lambda tensor: copies.setdefault(id(tensor), tensor.detach().clone()),
            (self.args, self.kwargs),
        )
        return Call(self.target, args, kwargs)


class Observed(NamedTuple):
    """What was declared of a call and what happened, in storages and words."""

    effects: Effects
    mistakes: tuple[str, ...]
    declared: frozenset[str]
    happened: frozenset[str]


def tensors_in(value: Any) -> list[torch.Tensor]:
    """The tensors in a value, through containers."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (tuple, list)):
        return []
    return [tensor for part in value for tensor in tensors_in(part)]


def parts_of(tensor: torch.Tensor) -> list[torch.Tensor]:
    """The dense tensors that a tensor consists of."""
    if tensor.layout == torch.strided:
        return [tensor]
    if tensor.layout == torch.sparse_coo:
        return [tensor._indices(), tensor._values()]
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]


def storages_of(value: Any) -> set[Storage]:
    """The storages behind the tensors in a value."""
    return {part.untyped_storage()._cdata for tensor in tensors_in(value) for part in parts_of(tensor)}


class State:
    """A tensor's bits, version and layout at one moment."""

    def __init__(self, tensor: torch.Tensor) -> None:
        parts = parts_of(tensor)
        self.storages = storages_of(tensor)
        self.layout = [(part._version, part.shape, part.stride(), part.storage_offset()) for part in parts]
        self.bits = [torch.empty(0, dtype=torch.uint8).set_(part.untyped_storage()).clone() for part in parts]

    def differs_from(self, other: State) -> bool:
        return self.layout != other.layout or not all(map(torch.equal, self.bits, other.bits))


def observe(call: Call, effects: Callable[[fx.Node], Effects] = effects_of) -> Observed:
    """Make a call with copies of its arguments, and compare what it does with what `effects` says.

    Raises:
        Exception: whatever the call raises.
    """
    call = call.copy()
    tensors = list({id(tensor): tensor for tensor in tensors_in((call.args, call.kwargs))}.values())
    graph = fx.Graph()
    places = {id(tensor): graph.placeholder(f"tensor_{number}") for number, tensor in enumerate(tensors)}
    said = effects(call.node(lambda tensor: places[id(tensor)], graph))
    before = [State(tensor) for tensor in tensors]
    stream = torch.get_rng_state()
    result = call.run()
    drew = not torch.equal(stream, torch.get_rng_state())
    written: set[Storage] = set()
    shared: set[Storage] = set()
    storages: dict[fx.Node, set[Storage]] = {}
    for tensor, state in zip(tensors, before, strict=True):
        own = storages[places[id(tensor)]] = state.storages | storages_of(tensor)
        written |= own if State(tensor).differs_from(state) else set()
        shared |= own if own & storages_of(result) else set()
    return compare(said, storages, written, shared, drew, result)


def compare(
    said: Effects,
    storages: dict[Any, set[Storage]],
    written: set[Storage],
    shared: set[Storage],
    drew: bool,
    result: Any,
) -> Observed:
    """Hold what was said of a node against the storages that were written and shared."""
    may_write = set().union(*(storages[place] for place in said.writes))
    may_share = set().union(*(storages[place] for place in said.aliases))
    mistakes = [] if said.opaque else list(_mistakes(said, written - may_write, shared - may_share, drew))
    if said.view and tensors_in(result) and not storages[said.aliases[0]] & storages_of(result):
        mistakes.append("it is no view")
    return Observed(
        said,
        tuple(mistakes),
        frozenset(word for word, yes in (("w", said.writes), ("s", said.aliases), ("r", said.random)) if yes),
        frozenset(word for word, yes in (("w", written), ("s", shared), ("r", drew)) if yes),
    )


def _mistakes(said: Effects, written: set[Storage], shared: set[Storage], drew: bool) -> Iterable[str]:
    if written:
        yield "it writes"
    if shared:
        yield "its result shares storage"
    if drew and not said.random:
        yield "it draws"


class TorchCalls(TorchFunctionMode):
    """Records what is called of `torch` and of its tensors, with copies of the arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Call] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if func in ATTRIBUTES:
            self.calls.append(Call(getattr, (args[0], ATTRIBUTES[func]), {}).copy())
        elif name != "__get__":
            method = getattr(torch.Tensor, name, None) is func
            self.calls.append(Call(name if method else func, args, kwargs or {}).copy())
        return func(*args, **(kwargs or {}))


ATTRIBUTES = {
    attribute.__get__: name
    for name, attribute in vars(torch._C.TensorBase).items()
    if type(attribute).__name__ == "getset_descriptor" and attribute.__get__ not in get_default_nowrap_functions()
}
"""The readers of a tensor's attributes, and their names."""


class AtenCalls(TorchDispatchMode):
    """Records the operators of ATen and prims that are reached, with copies of the arguments."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Call] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls.append(Call(func, args, kwargs or {}).copy())
        return func(*args, **(kwargs or {}))
