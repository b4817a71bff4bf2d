"""A dispatch mode that writes down every operator that runs, with guards on what Python reads."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from operator import getitem
from typing import Any, NoReturn

import torch
from torch import fx
from torch._subclasses import FakeTensorMode
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils.weak import WeakTensorKeyDictionary

from fxopt_core.capture.captured_graph import drawn_from, read_random_state
from fxopt_core.capture.dynamo_log import Guard
from fxopt_core.capture.errors import CaptureError
from fxopt_core.verification.comparison import EXACT, tensor_error
from fxopt_core.verification.state import PLAIN
from fxopt_workbench.recording.expectations import expect_shape, expect_value
from fxopt_workbench.recording.places import current_place

METHOD = "recorder"
LARGEST_READ = 10_000
"""Elements of a tensor that a guard compares at most."""

_LITERALS = (bool, int, float, complex, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format)


def refuse(what: str, advice: str = "keep it out of the model's forward.") -> NoReturn:
    """End the recording.

    Raises:
        CaptureError: always; it names the line of the model.
    """
    place = current_place()
    raise CaptureError(METHOD, f"{what} at {place} ({place.code}).", advice)


def layout_of(tensor: torch.Tensor) -> tuple[Any, ...]:
    """Everything about a tensor but its values and where its memory begins."""
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_nested:
        refuse(f"a tensor of layout {tensor.layout} is used")
    bits = (tensor.is_conj(), tensor.is_neg())
    return (tensor.dtype, tensor.device, tuple(tensor.shape), tensor.stride(), tensor.storage_offset(), *bits)


class Recorder(TorchDispatchMode):
    """Writes operators into `graph` while it is entered.

    Tensors are known by identity, and hold no memory here: a result that the model drops is freed. A tensor that is
    not known but shares memory with one that is (autograd makes such copies) is written as a view of it. Any other
    must have been there before the recording, and is a constant that nothing may write to.

    Attributes:
        graph: the operators so far.
        held: what its `get_attr` nodes read, by target.
        guards: what the graph checks on the way.
    """

    def __init__(self, state: Mapping[str, torch.Tensor], modules: Mapping[str, Any]) -> None:
        """`state` are parameters and buffers by path; `modules` is what `module_stack` yields."""
        super().__init__()
        self.graph = fx.Graph()
        self.held: dict[str, torch.Tensor] = {}
        self.guards: list[Guard] = []
        self._modules = modules
        self._known = WeakTensorKeyDictionary()
        self._roots: dict[int, tuple[StorageWeakRef, Callable[[], fx.Node], torch.dtype]] = {}
        self._state = {id(tensor): (path, _described(tensor)) for path, tensor in reversed(list(state.items()))}
        kinds = _kinds_of_tensors()
        self._before = WeakTensorKeyDictionary({one: True for one in gc.get_objects() if type(one) in kinds})
        self._frozen: dict[int, list[tuple[torch.Tensor, torch.Tensor]]] = {}
        self._refusal: CaptureError | None = None
        self._random_state = read_random_state()
        self._fake = FakeTensorMode()
        for path, tensor in state.items():
            self._add_root(tensor, partial(self._held_node, path, tensor))

    def add_input(self, name: str, tensor: torch.Tensor) -> None:
        """A placeholder for `tensor`."""
        if _storage(tensor) in self._roots and self._roots[_storage(tensor)][1]().op == "get_attr":
            raise CaptureError(METHOD, f"{name} shares memory with the model's own tensors.", "pass a copy of it.")
        self._know(tensor, self._describe(self.graph.placeholder(name), tensor))

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run an operator and write it down.

        Raises:
            CaptureError: it cannot be written into a graph, or writes where a graph cannot.
        """
        # What happens here is no reading of the model's.
        with torch._C.DisableTorchFunction(), self.remembering_refusals():
            return self._run(function, args, kwargs or {})

    @contextmanager
    def remembering_refusals(self) -> Iterator[None]:
        """Keep a refusal for `finish`, in case the model catches it and goes another way than it would have gone."""
        try:
            yield
        except CaptureError as error:
            self._refusal = self._refusal or error
            raise

    def node_of(self, tensor: torch.Tensor) -> fx.Node:
        """The node that computes `tensor`.

        Raises:
            CaptureError: it came into being unseen.
        """
        node, before = self._known.get(tensor, (None, None))
        now = _described(tensor)
        if node is not None and before == now:
            return node
        path, at_first = self._state.get(id(tensor), ("", None))
        if at_first == now:
            node = self._held_node(path, tensor)
        elif _storage(tensor) in self._roots:
            _, root, dtype = self._roots[_storage(tensor)]
            if tensor.dtype != dtype or tensor.is_conj() or tensor.is_neg():
                refuse(f"memory of type {dtype} is seen as {tensor.dtype}")
            where = (list(tensor.shape), list(tensor.stride()), tensor.storage_offset())
            node = self.graph.call_function(torch.ops.aten.as_strided.default, (root(), *where))
        elif tensor in self._before:
            node = self._constant(tensor, frozen=True)
        else:
            refuse("a tensor is used that no operator made")
        self._know(tensor, self._describe(node, tensor))
        return node

    def read(self, tensor: torch.Tensor, by: str) -> None:
        """Note that Python reads every value of `tensor`."""
        node = self.node_of(tensor)
        if tensor.numel() > LARGEST_READ:
            refuse(f"{by} reads {tensor.numel()} values, and a guard compares {LARGEST_READ} at most")
        with _disable_current_modes():
            self._guard(expect_value, node, repr(tensor.tolist()), by)

    def finish(self, outputs: Sequence[Any]) -> None:
        """Write what the graph returns: tensors and plain values. The modes are left by now.

        Raises:
            CaptureError: an output is neither, or something changed unseen during the run.
        """
        if self._refusal is not None:
            raise self._refusal
        self._look_at_random_state()
        for tensor, copy in chain.from_iterable(self._frozen.values()):
            if tensor.shape != copy.shape or tensor_error(tensor, copy, EXACT)[1] is not None:
                shape = list(tensor.shape)
                raise CaptureError(METHOD, f"a constant tensor of shape {shape} changes during the call.", "copy it.")
        for value in outputs:
            if not isinstance(value, (torch.Tensor, *PLAIN)):
                kind = type(value).__name__
                raise CaptureError(METHOD, f"the result holds a {kind}, which no graph returns.", "leave it out.")
        self.graph.output([self.node_of(value) if isinstance(value, torch.Tensor) else value for value in outputs])

    def _look_at_random_state(self) -> None:
        if drawn_from(self._random_state):
            refuse("torch's random generator was seeded or drawn from in a way that is not seen, before the call")

    def _run(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not isinstance(function, torch._ops.OpOverload):
            refuse(f"{function} is called, which is no operator")
        if function.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd):
            # In inference mode these arrive whole, with what they read of a tensor hidden inside.
            with self:
                return function.decompose(*args, **kwargs)
        if function is torch.ops.aten.lift_fresh.default:
            return self._lifted(*args)
        arguments, keywords = fx.node.map_aggregate((args, kwargs), self._argument)
        self._look_at_writes(function, args, kwargs)
        draws = torch.Tag.nondeterministic_seeded in function.tags
        if draws:
            self._look_at_random_state()
        result = function(*args, **kwargs)
        if draws:
            self._random_state = read_random_state()
        self._write(function, arguments, keywords, result)
        return result

    def _argument(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self.node_of(value)
        if not isinstance(value, _LITERALS):
            refuse(f"an operator takes a {type(value).__name__}")
        return value

    def _lifted(self, tensor: torch.Tensor) -> Any:
        """A tensor that Python makes of values of its own, fresh on each call."""
        if self._known.get(tensor) is not None or _storage(tensor) in self._roots:
            refuse("a tensor is made of another one's memory")
        # Memory that cannot be resized is not torch's own, such as an array's.
        node = self._constant(tensor, frozen=not tensor.untyped_storage().resizable())
        result = torch.ops.aten.lift_fresh.default(tensor)
        self._write(torch.ops.aten.lift_fresh_copy.default, (node,), {}, result)
        return result

    def _look_at_writes(self, function: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        for index, argument in enumerate(function._schema.arguments):
            if argument.alias_info is not None and argument.alias_info.is_write:
                value = kwargs.get(argument.name, args[index] if index < len(args) else None)
                for tensor in value if isinstance(value, (list, tuple)) else [value]:
                    if isinstance(tensor, torch.Tensor) and _storage(tensor) in self._frozen:
                        refuse("an operator writes into a tensor that is neither input, parameter nor buffer")

    def _write(self, function: Any, arguments: Any, keywords: Any, result: Any) -> None:
        node = self.graph.call_function(function, arguments, keywords)
        self._describe(node, result)
        parts = [(node, result)]
        if isinstance(result, (list, tuple)):
            parts = [
                (self._describe(self.graph.call_function(getitem, (node, index)), part), part)
                for index, part in enumerate(result)
                if part is not None
            ]
        for part, value in parts:
            if isinstance(value, torch.Tensor):
                self._know(value, part)
                if _size_depends_on_values(function):
                    self._guard(expect_shape, part, repr(list(value.shape)), str(function))
            elif value is not None:
                self._guard(expect_value, part, repr(value), _name(function))

    def _guard(self, expectation: Callable[..., None], node: fx.Node, recorded: str, by: str) -> None:
        place = current_place()
        read = f"{by} at {place} ({place.code})"
        self._describe(self.graph.call_function(expectation, (node, recorded, read)), None)
        what = "shape" if expectation is expect_shape else "value"
        self.guards.append(Guard(f"{what} of {node.name} == {recorded[:200]}", what.upper(), place.code, str(place)))

    def _constant(self, tensor: torch.Tensor, *, frozen: bool) -> fx.Node:
        """A copy of `tensor` that the graph holds; with `frozen` nothing may change the tensor during the run."""
        with _disable_current_modes():
            copy = tensor.detach().clone()
        if frozen:
            self._frozen.setdefault(_storage(tensor), []).append((tensor, copy))
        return self._held_node(f"_constant{len(self.held)}", copy)

    def _held_node(self, target: str, tensor: torch.Tensor) -> fx.Node:
        self.held[target] = tensor
        return self._describe(self.graph.create_node("get_attr", target), tensor)

    def _know(self, tensor: torch.Tensor, node: fx.Node) -> None:
        self._known[tensor] = (node, _described(tensor))
        self._add_root(tensor, lambda: node)

    def _add_root(self, tensor: torch.Tensor, node: Callable[[], fx.Node]) -> None:
        # The weak reference keeps the address from being used again, and no memory.
        if _storage(tensor) not in self._roots:
            reference = StorageWeakRef(tensor.untyped_storage())
            self._roots[reference.cdata] = (reference, node, tensor.dtype)

    def _describe(self, node: fx.Node, value: Any) -> fx.Node:
        place = current_place()
        node.meta["stack_trace"] = place.stack_trace
        if self._modules:
            node.meta["nn_module_stack"] = dict(self._modules)
        with _disable_current_modes(), self._fake:
            node.meta["val"] = fx.node.map_aggregate(value, _without_data)
        return node


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _kinds_of_tensors() -> set[type]:
    """`torch.Tensor` and all that inherit from it. To ask each object in memory for it would take twice as long."""
    kinds, waiting = set[type](), [torch.Tensor]
    while waiting:
        kind = waiting.pop()
        if kind not in kinds:
            kinds.add(kind)
            waiting += type.__subclasses__(kind)
    return kinds


def _described(tensor: torch.Tensor) -> tuple[Any, ...]:
    layout = layout_of(tensor)
    return (_storage(tensor), *layout)


def _without_data(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)


def _size_depends_on_values(function: torch._ops.OpOverload) -> bool:
    """Only of torch's own operators it is known that their sizes do not."""
    return torch.Tag.dynamic_output_shape in function.tags or function.namespace not in ("aten", "prims")


def _name(function: torch._ops.OpOverload) -> str:
    return "item()" if function is torch.ops.aten._local_scalar_dense.default else str(function)
