"""What a graph takes for granted about the call that it was captured from, and the check of every later call.

A graph holds for calls of one form: so many arguments, nested so, of these dtypes, devices, sizes and memory layouts,
with these values where they are no tensors, under these modes of torch. Python and torch decide on all of these while
the model is captured, and the graph remembers the decision, not the question.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils._pytree import TreeSpec, tree_flatten, tree_map, tree_map_only, tree_structure

from fxopt_core.capture.dimensions import Dynamic, named_leaves, parameters_of
from fxopt_core.capture.errors import RefusedInputError
from fxopt_core.capture.questions import STRIDE, Answers, answers_of, modes_now, refuse_other_answers
from fxopt_core.verification.comparison import compared_by_identity
from fxopt_core.verification.isolation import Model, deep_copy
from fxopt_core.verification.memory import MemoryLocation, location_of
from fxopt_core.verification.state import PLAIN

_CAPTURE_AGAIN = "or capture again with such an input"
_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class TensorFacts(NamedTuple):
    """What is known of an input tensor besides its values.

    Attributes:
        kind: its class, such as `nn.Parameter`.
        attributes: those that Python code gave to it, and what they hold, in words.
        dtype: its dtype.
        device: where it is.
        layout: strided, or one of the sparse layouts.
        flags: whether it is a conjugate view, and a negative view.
        shape: its sizes.
        stride: in elements; empty where it is not strided.
    """

    kind: type[torch.Tensor]
    attributes: tuple[tuple[str, str], ...]
    dtype: torch.dtype
    device: torch.device
    layout: torch.layout
    flags: tuple[bool, bool]
    shape: tuple[int, ...]
    stride: tuple[int, ...]


class _AnyOf(NamedTuple):
    """Stands for an object whose class does not say when two of it are equal."""

    kind: type


def facts_of(tensor: torch.Tensor, open_axes: Container[int] = ()) -> TensorFacts:
    """The facts of a tensor. Of sizes that are symbols, those in `open_axes` are read as the symbols' examples."""
    shape, stride = tuple(tensor.shape), tensor.stride() if tensor.layout is torch.strided else ()
    if any(isinstance(one, torch.SymInt) for one in (*shape, *stride)):
        # Only torch.export comes with symbols. It fixes a size that is compared, which open ones must not be.
        shape = tuple(_example(one) if axis in open_axes else int(one) for axis, one in enumerate(shape))
        stride = tuple(map(_example, stride))
    flags = (tensor.is_conj(), tensor.is_neg())
    return TensorFacts(*_own(tensor), tensor.dtype, tensor.device, tensor.layout, flags, shape, stride)


def _own(tensor: torch.Tensor) -> tuple[type[torch.Tensor], tuple[tuple[str, str], ...]]:
    """The class and the attributes. Stand-ins, as `torch.export` makes them, are plain tensors or parameters."""
    if type(tensor).__module__.startswith("torch._subclasses"):
        return torch.nn.Parameter if isinstance(tensor, torch.nn.Parameter) else torch.Tensor, ()
    attributes = {name: repr(value) for name, value in vars(tensor).items() if not name.startswith("_dynamo")}
    return type(tensor), tuple(sorted(attributes.items()))


def _example(size: int | torch.SymInt) -> int:
    # A size that comes from the data has no example; to ask for it raises.
    return size.node.hint if isinstance(size, torch.SymInt) and size.node.has_hint() else int(size)


_Objection = tuple[str, Any, Any, str]
"""What does not fit, what the graph holds for, what came, and what to do."""

SmallSizes = frozenset[tuple[str, int, int]]
"""Sizes of 0 and 1 that come together: of each the name of the leaf, the dimension and the size."""


@dataclass(frozen=True)
class CallSignature:
    """The form of the call that was captured, and of every call that its graph may answer.

    Attributes:
        parameters: of the model, without annotations; `None` where Python does not know them.
        positional: how many arguments the example gave by position.
        keywords: the names of the others.
        names: of the leaves of the arguments, in order: `x`, `images[0]`, `batch['mask']`.
        structure: how the leaves are nested.
        leaves: of each leaf its `TensorFacts`, or the value itself.
        shared: how the example's tensors overlap in memory: by name of a leaf the first leaf that it overlaps with,
            whether both are one object, and how many bytes apart they begin.
        modes: of torch, on which the meaning of operations depends, or for which the model asks.
        answers: by name of a leaf: what else the model asks of tensors, and what it is told of this one.
        dynamic: which sizes may vary.
        small: which sizes of 0 and 1 may come together where the example has others. A graph of open sizes takes each
            for 2 or more, so only what was compared with the model is here.
    """

    parameters: inspect.Signature | None
    positional: int
    keywords: tuple[str, ...]
    names: tuple[str, ...]
    structure: TreeSpec
    leaves: tuple[Any, ...]
    shared: dict[str, tuple[str, bool, int]]
    modes: dict[str, Any]
    answers: Answers
    dynamic: Dynamic
    small: frozenset[SmallSizes] = frozenset()

    def accept(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Check a call, and write it as the example was written.

        Returns:
            Positional and keyword arguments, split as those of the example were. What the example left out is left
            out, since the graph has no input for it.

        Raises:
            RefusedInputError: the graph does not hold for this call; it names the argument, what was expected, what
                came, and what to do.
            TypeError: the model itself takes no such arguments.
        """
        if len(args) != self.positional or tuple(kwargs) != self.keywords:
            args, kwargs = self._arranged(args, kwargs)
        if tree_structure((args, kwargs)) != self.structure:
            # Of a torch.Size pytree makes a tuple, as it did when the example was copied.
            args, kwargs = tree_map(lambda leaf: leaf, (args, kwargs))
        objection = next(self._objections(args, kwargs), None)
        if objection is not None:
            raise RefusedInputError(*map(str, objection))
        return args, kwargs

    def _objections(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[_Objection]:
        """What speaks against a call."""
        leaves, structure = tree_flatten((args, kwargs))
        if structure != self.structure:
            yield self._another_structure(args, kwargs)
        for name, expected, found in zip(self.names, self.leaves, leaves, strict=True):
            if isinstance(expected, TensorFacts) and isinstance(found, torch.Tensor):
                facts = facts_of(found, self._open_axes(name, expected))
                if expected != facts:
                    yield from self._about_tensor(name, expected, facts)
            elif isinstance(expected, TensorFacts):
                yield name, "a tensor", _described(found), f"Pass a tensor, {_CAPTURE_AGAIN}."
            elif not _same(expected, found):
                yield name, _described(expected), _described(found), "Pass this value, or capture again with the other."
        named = dict(zip(self.names, leaves, strict=True))
        refuse_other_answers(self.answers, named)
        self.dynamic.check(named)
        small = self.small_sizes(leaves)
        if small and small not in self.small:
            name, axis, size = min(small)
            others = "; ".join(f"{axis} of {name} = {size}" for name, axis, size in sorted(small)[1:])
            found = f"{size} (with dimension {others})" if others else size
            advice = f"The graph was not found to be right there. Pass a larger one, {_CAPTURE_AGAIN}."
            yield f"the size of {name} in dimension {axis}", "2 or more", found, advice
        yield from self._about_memory(leaves)
        for name, mode in modes_now(self.modes).items():
            if mode != self.modes.get(name, mode):
                yield name, self.modes[name], mode, "Call it under that mode, or capture again under this one."

    def _open_axes(self, name: str, facts: TensorFacts) -> Container[int]:
        if self.dynamic.choice:
            return range(len(facts.shape))
        return {axis for one in self.dynamic.dimensions for source, axis in one.places if source == name}

    def small_sizes(self, leaves: Sequence[Any]) -> SmallSizes:
        """Where a call has a size of 0 or 1 and the example another: name of the leaf, dimension and size.

        Args:
            leaves: of the call, as the example's in number and order.
        """
        return frozenset(
            (name, axis, got)
            for name, expected, found in zip(self.names, self.leaves, leaves, strict=True)
            if isinstance(expected, TensorFacts) and isinstance(found, torch.Tensor)
            for axis, (want, got) in enumerate(
                zip(expected.shape, facts_of(found, self._open_axes(name, expected)).shape, strict=False)
            )
            if got < 2 and got != want
        )

    def with_small(self, sizes: SmallSizes, *, allowed: bool) -> CallSignature:
        """The signature that takes these sizes of 0 and 1, or refuses them."""
        return replace(self, small=self.small | {sizes} if allowed else self.small - {sizes})

    def _arranged(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The call with its arguments split by position and keyword as in the example."""
        expected = f"{self.positional} by position and {list(self.keywords)} by name"
        if self.parameters is None:
            found, advice = f"{len(args)} and {list(kwargs)}", "Call it as the example was called."
            raise RefusedInputError("the arguments", expected, found, advice)
        bound = self.parameters.bind(*args, **kwargs)
        bound.apply_defaults()
        names = [name for name, one in self.parameters.parameters.items() if one.kind in _BY_POSITION]
        positional, beyond = bound.args[: self.positional], bound.args[self.positional :]
        # What was given by position and by name in the example may be given the other way round.
        named = dict(zip(names[self.positional :], beyond, strict=False)) | bound.kwargs
        self._require_order(bound.kwargs)
        given = {name: named.pop(name) for name in self.keywords if name in named}
        if len(given) < len(self.keywords) or len(bound.args) != max(self.positional, len(names)):
            found = f"{len(bound.args)} and {list(bound.kwargs)}"
            advice = "Pass as many as at capture, or capture again with these."
            raise RefusedInputError("the arguments", expected, found, advice)
        for name, value in named.items():
            parameter = self.parameters.parameters.get(name)
            default = inspect.Parameter.empty if parameter is None else parameter.default
            if not _same(default, value):
                expected, advice = "to be left out, as in the example", "Capture again with this argument."
                raise RefusedInputError(name, expected, _described(value), advice)
        return positional, given

    def _require_order(self, given: Iterable[str]) -> None:
        """What a model takes as `**kwargs`, it sees in the order of the call."""
        known = self.parameters.parameters if self.parameters is not None else {}
        expected, found = ([name for name in names if name not in known] for names in (self.keywords, given))
        if sorted(expected) == sorted(found) and expected != found:
            advice = f"The model sees their order. Pass them in that of the example, {_CAPTURE_AGAIN}."
            raise RefusedInputError("the arguments", str(expected), str(found), advice)

    def _another_structure(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Objection:
        names = list(named_leaves(self.parameters, args, kwargs))
        lost = [name for name in self.names if name not in names]
        new = [name for name in names if name not in self.names]
        found = f"{len(names)} values"
        found += f"; without {', '.join(lost[:5])}" if lost else ""
        found += f"; with {', '.join(new[:5])}" if new else "" if lost else " in other containers, or in another order"
        expected = f"arguments nested as in the example ({len(self.names)} values)"
        advice = "Pass containers of the same kinds and lengths, the example's keys in its order, or capture again."
        return next(iter([*lost, *new]), "the arguments"), expected, found, advice

    def _about_tensor(self, name: str, expected: TensorFacts, found: TensorFacts) -> Iterator[_Objection]:
        for what, words, harmless, advice in (
            # What Python can tell of a plain tensor was compared with the model, whatever the example was.
            ("kind", "class", torch.Tensor, f"Pass a plain tensor, {_CAPTURE_AGAIN}."),
            ("attributes", "attributes from Python", (), f"Pass a tensor without these, {_CAPTURE_AGAIN}."),
            ("dtype", "dtype", None, f"Convert it with .to({expected.dtype}), {_CAPTURE_AGAIN}."),
            ("device", "device", None, f'Move it with .to("{expected.device}"), {_CAPTURE_AGAIN}.'),
            ("layout", "layout", None, f"Convert it, {_CAPTURE_AGAIN}."),
            ("flags", "conjugate and negative bits", None, "Pass .resolve_conj().resolve_neg(), or capture again."),
        ):
            if getattr(found, what) not in (getattr(expected, what), harmless):
                yield f"the {words} of {name}", getattr(expected, what), getattr(found, what), advice
        sizes, others = expected.shape, found.shape
        if len(sizes) != len(others):
            yield f"the number of dimensions of {name}", len(sizes), len(others), "Capture again with these."
        open_axes = self._open_axes(name, expected)
        for axis, (want, got) in enumerate(zip(sizes, others, strict=False)):
            if want != got and axis not in open_axes:
                advice = "Capture with dynamic=True, or name this dimension in dynamic."
                yield f"the size of {name} in dimension {axis}", want, got, advice
        if not _lie_alike(expected, found, exactly=STRIDE in self.answers.get(name, {})):
            lies, lie = _described_layout(expected), _described_layout(found)
            if lies == lie:  # as of one row, which lies alike in many ways; the model asks in which
                lies, lie = f"strides {list(expected.stride)}", f"strides {list(found.stride)}"
            advice = f"Copy it into that layout, for example with .contiguous(), {_CAPTURE_AGAIN}."
            yield f"the memory layout of {name}", lies, lie, advice

    def _about_memory(self, leaves: list[Any]) -> Iterator[_Objection]:
        found = _shared(self.names, leaves)
        for name in found:
            if found[name] != self.shared.get(name):
                first, same, apart = found[name]
                expected = "tensors that overlap as those of the example" if self.shared else "memory of its own"
                overlap = f"memory that overlaps with {first}, {apart} bytes behind it"
                advice = f"Pass {name}.clone(), {_CAPTURE_AGAIN}."
                yield f"the memory of {name}", expected, f"the same tensor as {first}" if same else overlap, advice


def signature_of(
    model: Model,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    dynamic: Dynamic,
    asked: frozenset[str] = frozenset(),
) -> CallSignature:
    """The form of a call of `model`.

    Args:
        model: an `nn.Module` or a function.
        args: positional arguments of the example.
        kwargs: its keyword arguments.
        dynamic: which sizes may vary.
        asked: what the model asks of torch and of tensors (see `questions`).
    """
    parameters = parameters_of(model)
    leaves, structure = tree_flatten((args, kwargs))
    names = tuple(named_leaves(parameters, args, kwargs))
    return CallSignature(
        parameters,
        len(args),
        tuple(kwargs),
        names,
        structure,
        tuple(facts_of(leaf) if isinstance(leaf, torch.Tensor) else _to_compare(leaf) for leaf in leaves),
        _shared(names, leaves),
        modes_now(asked),
        answers_of(asked, dict(zip(names, leaves, strict=True))),
        dynamic,
    )


def separated(model: Model, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with a copy in place of each tensor that overlaps with an earlier one, or with the model's state.

    One tensor given twice would otherwise become one input of the graph, and the other input would be ignored.
    """
    state = [*model.parameters(), *model.buffers()] if isinstance(model, torch.nn.Module) else []
    taken = [location_of(tensor) for tensor in state]

    def own(tensor: torch.Tensor) -> torch.Tensor:
        location = location_of(tensor)
        alone = not any(location.overlaps(other) for other in taken)
        taken.append(location)
        # A deep copy keeps the strides, gaps and repeated elements included.
        return tensor if alone else copy.deepcopy(tensor.detach()).requires_grad_(tensor.requires_grad)

    separate: tuple[tuple[Any, ...], dict[str, Any]] = tree_map_only(torch.Tensor, own, (args, kwargs))
    return separate


def _shared(names: Iterable[str], leaves: Iterable[Any]) -> dict[str, tuple[str, bool, int]]:
    found: dict[str, tuple[str, bool, int]] = {}
    earlier: dict[str, MemoryLocation] = {}
    for name, leaf in zip(names, leaves, strict=True):
        if isinstance(leaf, torch.Tensor):
            own = location_of(leaf)
            first = next((first for first, other in earlier.items() if own.overlaps(other)), None)
            if first is not None:
                found[name] = (first, own.tensor == earlier[first].tensor, own.first - earlier[first].first)
            earlier[name] = own
    return found


def _to_compare(value: Any) -> Any:
    """The value; for an object whose class is unknown its type alone, since nothing else of it can be compared."""
    if not compared_by_identity(value) or deep_copy(value) is value:
        return value  # also a dtype, a class, a function: such a one is its own copy
    return _AnyOf(type(value))


def _same(expected: Any, found: Any) -> bool:
    """Whether two values that are no tensors are the same, down to the sign of a zero."""
    if isinstance(expected, _AnyOf):
        return type(found) is expected.kind
    if expected is found:
        return True
    if type(expected) is not type(found) or isinstance(expected, torch.Tensor) or compared_by_identity(expected):
        return False
    if hasattr(expected, "tobytes"):  # NumPy's arrays and numbers
        one, other = ((getattr(value, "dtype", None), np.shape(value), value.tobytes()) for value in (expected, found))
        return one == other
    if isinstance(expected, (set, frozenset)):
        return sorted(map(repr, expected)) == sorted(map(repr, found))
    # To `==` 0.0 is -0.0, and NaN is not even itself. The text tells them apart, where there is one.
    told = getattr(type(expected), "__repr__", None) is not object.__repr__
    alike = not told or repr(expected) == repr(found)
    return alike and (isinstance(expected, PLAIN) or bool(expected == found))


def _described(value: Any) -> str:
    if isinstance(value, _AnyOf):
        return f"a value of type {value.kind.__name__}"
    if isinstance(value, torch.Tensor):
        return f"a tensor of shape {list(value.shape)}"
    told = isinstance(value, (*PLAIN, Enum, torch.Size, range))
    return repr(value) if told else f"a value of type {type(value).__name__}"


def _steps(facts: TensorFacts) -> list[int]:
    # Along a dimension of one element no step is ever taken.
    return [step for size, step in zip(facts.shape, facts.stride, strict=True) if size > 1]


def order_of(stride: tuple[int, ...]) -> list[int]:
    """Dimensions from the one whose elements lie farthest apart in memory to the one whose elements are neighbours."""
    return sorted(range(len(stride)), key=lambda axis: -stride[axis])


def _lie_alike(expected: TensorFacts, found: TensorFacts, *, exactly: bool) -> bool:
    """Whether two tensors lie alike in memory. With other sizes: in the same order of dimensions, and dense or not.

    `exactly` also where no step is ever taken, for a model that reads the strides.
    """
    if expected.layout is not torch.strided:
        return True
    if expected.shape == found.shape:
        if exactly:
            return expected.stride == found.stride
        return 0 in found.shape or _steps(expected) == _steps(found)
    order = order_of(expected.stride)
    dense, also = (_without_memory(one).permute(order).is_contiguous() for one in (expected, found))
    steps = [found.stride[axis] for axis in order if found.shape[axis] > 1]
    return dense == also and (dense or steps == sorted(steps, reverse=True))


def _without_memory(facts: TensorFacts) -> torch.Tensor:
    return torch.empty_strided(facts.shape, facts.stride, device="meta")


def empty_like(tensor: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    """A tensor of another shape that lies in memory as this one does: its dimensions in that order, dense or not."""
    order, wider = order_of(tensor.stride()), list(shape)
    if not tensor.permute(order).is_contiguous():
        # A gap after each row of the innermost dimension.
        wider[order[-1]] += 1
    new = torch.empty_permuted(wider, order, dtype=tensor.dtype, device=tensor.device).zero_()
    return new.narrow(order[-1], 0, shape[order[-1]]) if order else new


def _described_layout(facts: TensorFacts) -> str:
    tensor = _without_memory(facts)
    if tensor.is_contiguous():
        return "contiguous"
    if tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last):
        return "channels_last"
    return f"strides {list(facts.stride)}"
