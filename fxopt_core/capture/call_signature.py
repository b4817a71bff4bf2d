"""What a graph takes for granted about the call that it was captured from, and the check of every later call.

A graph holds for calls of one form: so many arguments, nested so, of these dtypes, devices, sizes and memory layouts,
with these values where they are no tensors, under these modes of torch. Python and torch decide on all of these while
the model is captured, and the graph remembers the decision, not the question.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import TreeSpec, keystr, tree_flatten, tree_flatten_with_path, tree_map_only

from fxopt_core.capture.dimensions import Dynamic
from fxopt_core.capture.errors import RefusedInputError
from fxopt_core.verification.isolation import Model
from fxopt_core.verification.state import PLAIN

_CAPTURE_AGAIN = "or capture again with such an input"


class TensorFacts(NamedTuple):
    """What is known of an input tensor besides its values.

    Attributes:
        dtype: its dtype.
        device: where it is.
        layout: strided, or one of the sparse layouts.
        flags: whether it is a conjugate view, and a negative view.
        shape: its sizes.
        stride: in elements; empty where it is not strided.
        wants_gradients: whether it requires grad.
    """

    dtype: torch.dtype
    device: torch.device
    layout: torch.layout
    flags: tuple[bool, bool]
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    wants_gradients: bool


def facts_of(tensor: torch.Tensor) -> TensorFacts:
    """The facts of a tensor."""
    return TensorFacts(
        tensor.dtype,
        tensor.device,
        tensor.layout,
        (tensor.is_conj(), tensor.is_neg()),
        tuple(tensor.shape),
        tensor.stride() if tensor.layout is torch.strided else (),
        tensor.requires_grad,
    )


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
        modes: of torch, on which the meaning of operations depends.
        gradients: whether the model asks which tensors require grad, or whether gradients are recorded.
        dynamic: which sizes may vary.
    """

    parameters: inspect.Signature | None
    positional: int
    keywords: tuple[str, ...]
    names: tuple[str, ...]
    structure: TreeSpec
    leaves: tuple[Any, ...]
    shared: dict[str, tuple[str, bool, int]]
    modes: dict[str, Any]
    gradients: bool
    dynamic: Dynamic

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
        leaves, structure = tree_flatten((args, kwargs))
        if structure != self.structure:
            raise self._another_structure(args, kwargs)
        for name, expected, found in zip(self.names, self.leaves, leaves, strict=True):
            if not isinstance(expected, TensorFacts):
                _check_value(name, expected, found)
            elif not isinstance(found, torch.Tensor):
                raise RefusedInputError(name, "a tensor", _described(found), f"Pass a tensor, {_CAPTURE_AGAIN}.")
            else:
                self._check_tensor(name, expected, facts_of(found))
        if self.dynamic.dimensions:
            self.dynamic.check(dict(zip(self.names, leaves, strict=True)))
        self._check_memory(leaves)
        for name, mode in _modes(gradients=self.gradients).items():
            if mode != self.modes[name]:
                raise RefusedInputError(
                    name, str(self.modes[name]), str(mode), "Call it under that mode, or capture again under this one."
                )
        return args, kwargs

    def _arranged(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The call with its arguments split by position and keyword as in the example."""
        if self.parameters is None:
            raise RefusedInputError(
                "the arguments",
                f"{self.positional} by position and {list(self.keywords)} by name",
                f"{len(args)} and {list(kwargs)}",
                "Call it as the example was called.",
            )
        bound = self.parameters.bind(*args, **kwargs)
        bound.apply_defaults()
        positional: list[Any] = []
        named: dict[str, Any] = {}
        for name, value in bound.arguments.items():
            kind = self.parameters.parameters[name].kind
            if kind is inspect.Parameter.VAR_POSITIONAL:
                positional += value
            elif kind is inspect.Parameter.VAR_KEYWORD:
                named |= value
            elif len(positional) < self.positional and kind is not inspect.Parameter.KEYWORD_ONLY:
                positional.append(value)
            else:
                named[name] = value
        given = {name: named.pop(name) for name in self.keywords if name in named}
        missing = [name for name in self.keywords if name not in given]
        if missing or len(positional) != self.positional:
            raise RefusedInputError(
                "the arguments",
                f"{self.positional} by position and {list(self.keywords)} by name",
                f"{len(positional)} and {list(given)}",
                "Pass as many as at capture, or capture again with these.",
            )
        for name, value in named.items():
            parameter = self.parameters.parameters.get(name)
            default = inspect.Parameter.empty if parameter is None else parameter.default
            if not _same(default, value):
                raise RefusedInputError(
                    name, "to be left out, as in the example", _described(value), "Capture again with this argument."
                )
        return tuple(positional), given

    def _another_structure(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> RefusedInputError:
        names = _leaf_names(self.parameters, args, kwargs)
        lost = [name for name in self.names if name not in names]
        new = [name for name in names if name not in self.names]
        found = f"{len(names)} values"
        found += f"; without {', '.join(lost[:5])}" if lost else ""
        found += f"; with {', '.join(new[:5])}" if new else ""
        return RefusedInputError(
            next(iter([*lost, *new]), "the arguments"),
            f"arguments nested as in the example ({len(self.names)} values)",
            found,
            "Pass containers of the same kinds, lengths and keys, or capture again with these.",
        )

    def _check_tensor(self, name: str, expected: TensorFacts, found: TensorFacts) -> None:
        if expected[:-1] != found[:-1]:
            for what, advice in (
                ("dtype", f"Convert it with .to({expected.dtype}), {_CAPTURE_AGAIN}."),
                ("device", f'Move it with .to("{expected.device}"), {_CAPTURE_AGAIN}.'),
                ("layout", f"Convert it, {_CAPTURE_AGAIN}."),
            ):
                want, got = getattr(expected, what), getattr(found, what)
                if want != got:
                    raise RefusedInputError(f"the {what} of {name}", str(want), str(got), advice)
            if expected.flags != found.flags:
                raise RefusedInputError(
                    f"whether {name} is a conjugate and a negative view",
                    str(expected.flags),
                    str(found.flags),
                    "Pass .resolve_conj().resolve_neg(), or capture again.",
                )
            self._check_sizes(name, expected.shape, found.shape)
            if not _same_order(expected, found):
                raise RefusedInputError(
                    f"the memory layout of {name}",
                    _layout(expected),
                    _layout(found),
                    f"Copy it into that layout, for example with .contiguous(), {_CAPTURE_AGAIN}.",
                )
        if self.gradients and expected.wants_gradients is not found.wants_gradients:
            raise RefusedInputError(
                f"requires_grad of {name}",
                str(expected.wants_gradients),
                str(found.wants_gradients),
                f"The model asks for it. Call .requires_grad_({expected.wants_gradients}), {_CAPTURE_AGAIN}.",
            )

    def _check_sizes(self, name: str, expected: tuple[int, ...], found: tuple[int, ...]) -> None:
        if len(expected) != len(found):
            raise RefusedInputError(
                f"the number of dimensions of {name}", str(len(expected)), str(len(found)), "Capture again with these."
            )
        open_axes = {axis for one in self.dynamic.dimensions for source, axis in one.places if source == name}
        for axis, (want, got) in enumerate(zip(expected, found, strict=True)):
            if want != got and not self.dynamic.choice and axis not in open_axes:
                raise RefusedInputError(
                    f"the size of {name} in dimension {axis}",
                    str(want),
                    str(got),
                    "Capture with dynamic=True, or name this dimension in dynamic.",
                )

    def _check_memory(self, leaves: list[Any]) -> None:
        found = _shared(self.names, leaves)
        if not found or found == self.shared:
            return
        name = next(name for name in found if found[name] != self.shared.get(name))
        first, same, apart = found[name]
        raise RefusedInputError(
            f"the memory of {name}",
            "tensors that overlap as those of the example" if self.shared else "memory of its own",
            f"the same tensor as {first}" if same else f"memory that overlaps with {first}, {apart} bytes behind it",
            f"Pass {name}.clone(), {_CAPTURE_AGAIN}.",
        )


def signature_of(
    model: Model, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic: Dynamic, *, gradients: bool = False
) -> CallSignature:
    """The form of a call of `model`.

    Args:
        model: an `nn.Module` or a function.
        args: positional arguments of the example.
        kwargs: its keyword arguments.
        dynamic: which sizes may vary.
        gradients: whether the model asks for gradients being recorded.
    """
    try:
        known = inspect.signature(model.forward if isinstance(model, torch.nn.Module) else model)
        # Annotations may be anything, and are of no use here.
        plain = [one.replace(annotation=inspect.Parameter.empty) for one in known.parameters.values()]
        parameters = inspect.Signature(plain)
        parameters.bind(*args, **kwargs)
    except (TypeError, ValueError):
        parameters = None
    leaves, structure = tree_flatten((args, kwargs))
    names = _leaf_names(parameters, args, kwargs)
    return CallSignature(
        parameters,
        len(args),
        tuple(kwargs),
        names,
        structure,
        tuple(facts_of(leaf) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves),
        _shared(names, leaves),
        _modes(gradients=True),
        gradients,
        dynamic,
    )


def separated(model: Model, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with a copy in place of each tensor that overlaps with an earlier one, or with the model's state.

    One tensor given twice would otherwise become one input of the graph, and the other input would be ignored.
    """
    state = [*model.parameters(), *model.buffers()] if isinstance(model, torch.nn.Module) else []
    taken = [_extent(tensor) for tensor in state]

    def own(tensor: torch.Tensor) -> torch.Tensor:
        extent = _extent(tensor)
        alone = not any(_overlap(extent, other) for other in taken)
        taken.append(extent)
        # A deep copy keeps the strides, gaps and repeated elements included.
        return tensor if alone else _deep_copy(tensor)

    separate: tuple[tuple[Any, ...], dict[str, Any]] = tree_map_only(torch.Tensor, own, (args, kwargs))
    return separate


def _deep_copy(tensor: torch.Tensor) -> torch.Tensor:
    copied: torch.Tensor = tensor.detach().__deepcopy__({})
    return copied.requires_grad_(tensor.requires_grad)


def _leaf_names(parameters: inspect.Signature | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, ...]:
    first: list[str] = []
    for one in parameters.parameters.values() if parameters else ():
        if one.kind is one.VAR_POSITIONAL:
            first += [f"{one.name}[{index}]" for index in range(len(args) - len(first))]
        elif one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD):
            first.append(one.name)
    first += [f"argument {index}" for index in range(len(first), len(args))]
    arguments = {**dict(zip(first, args, strict=False)), **kwargs}
    return tuple(
        f"{name}{keystr(path)}" for name, value in arguments.items() for path, _ in tree_flatten_with_path(value)[0]
    )


class _Extent(NamedTuple):
    tensor: int
    storage: int
    first: int
    last: int


def _extent(tensor: torch.Tensor) -> _Extent:
    """Between which bytes of which storage a tensor lies; one without memory has none."""
    if tensor.layout is not torch.strided or tensor.numel() == 0:
        return _Extent(id(tensor), 0, 0, 0)
    reach = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    first = int(tensor.storage_offset()) * tensor.element_size()
    storage = tensor.untyped_storage()._cdata
    return _Extent(id(tensor), storage, first, first + (reach + 1) * tensor.element_size())


def _overlap(one: _Extent, other: _Extent) -> bool:
    return one.tensor == other.tensor or (
        one.storage == other.storage and one.first < other.last and other.first < one.last
    )


def _shared(names: tuple[str, ...], leaves: list[Any]) -> dict[str, tuple[str, bool, int]]:
    tensors = [(name, leaf) for name, leaf in zip(names, leaves, strict=True) if isinstance(leaf, torch.Tensor)]
    if len(tensors) < 2:
        return {}
    found: dict[str, tuple[str, bool, int]] = {}
    earlier: list[tuple[str, _Extent]] = []
    for name, tensor in tensors:
        extent = _extent(tensor)
        for first, other in earlier:
            if _overlap(extent, other):
                found[name] = (first, extent.tensor == other.tensor, extent.first - other.first)
                break
        earlier.append((name, extent))
    return found


def _modes(*, gradients: bool) -> dict[str, Any]:
    modes: dict[str, Any] = {"torch.get_default_dtype()": torch.get_default_dtype()}
    for kind in ("cpu", torch._C._get_accelerator().type):
        autocast = torch.is_autocast_enabled(kind)
        modes[f"autocast on {kind}"] = torch.get_autocast_dtype(kind) if autocast else "off"
    return modes | {"torch.is_grad_enabled()": torch.is_grad_enabled()} if gradients else modes


def _check_value(name: str, expected: Any, found: Any) -> None:
    if not _same(expected, found):
        raise RefusedInputError(
            name, _described(expected), _described(found), "Pass this value, or capture again with the other."
        )


def _same(expected: Any, found: Any) -> bool:
    """Whether two values that are no tensors are equal; of objects whose class is unknown, whether their types are."""
    if type(expected) is not type(found):
        return False
    if not any("__eq__" in vars(kind) for kind in type(expected).__mro__[:-1]):
        return expected is found or not isinstance(expected, type)
    return not isinstance(expected, torch.Tensor) and (bool(expected == found) or repr(expected) == repr(found))


def _described(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"a tensor of shape {list(value.shape)}"
    return repr(value) if isinstance(value, PLAIN) else f"a value of type {type(value).__name__}"


def _strides(shape: tuple[int, ...], order: list[int]) -> tuple[int, ...]:
    """Of a dense tensor whose dimensions lie in memory in this order, from the outermost to the innermost."""
    strides, step = [0] * len(shape), 1
    for axis in reversed(order):
        strides[axis] = step
        step *= max(shape[axis], 1)
    return tuple(strides)


def order_of(stride: tuple[int, ...]) -> list[int]:
    """Dimensions from the one whose elements lie farthest apart in memory to the one whose elements are neighbours."""
    return sorted(range(len(stride)), key=lambda axis: -stride[axis])


def _matters(facts: TensorFacts, stride: tuple[int, ...]) -> list[int]:
    # Along a dimension of one element no step is ever taken.
    return [step for size, step in zip(facts.shape, stride, strict=True) if size > 1]


def is_dense(facts: TensorFacts, order: list[int]) -> bool:
    """Whether a tensor has no gaps and no repeated elements, in that order of its dimensions."""
    return _matters(facts, facts.stride) == _matters(facts, _strides(facts.shape, order))


def _same_order(expected: TensorFacts, found: TensorFacts) -> bool:
    """Whether two tensors lie alike in memory. With other sizes: in the same order of dimensions, and dense or not."""
    if expected.shape == found.shape:
        return 0 in found.shape or _matters(expected, expected.stride) == _matters(found, found.stride)
    order = order_of(expected.stride)
    dense = is_dense(expected, order)
    steps = [found.stride[axis] for axis in order if found.shape[axis] > 1]
    return dense == is_dense(found, order) and (dense or steps == sorted(steps, reverse=True))


def empty_like(tensor: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    """A tensor of another shape that lies in memory as this one does: its dimensions in that order, dense or not."""
    facts = facts_of(tensor)
    order = order_of(facts.stride)
    wider = list(shape)
    if not is_dense(facts, order):
        # A gap after each row of the innermost dimension.
        wider[order[-1]] += 1
    new = torch.empty_strided(wider, _strides(tuple(wider), order), dtype=tensor.dtype, device=tensor.device).zero_()
    return new.narrow(order[-1], 0, shape[order[-1]]) if order else new


def _layout(facts: TensorFacts) -> str:
    dimensions = len(facts.shape)
    if is_dense(facts, list(range(dimensions))):
        return "contiguous"
    if dimensions == 4 and is_dense(facts, [0, 2, 3, 1]):
        return "channels_last"
    return f"strides {list(facts.stride)}"
