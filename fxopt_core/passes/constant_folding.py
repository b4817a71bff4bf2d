"""Constant folding: what does not depend on the inputs is computed once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any

import torch
from torch import fx
from torch._ops import OperatorBase, OpOverload, OpOverloadPacket
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from fxopt_core.capture.carried import persistent_names
from fxopt_core.graphs.aliases import Storages
from fxopt_core.graphs.editor import GraphEditor
from fxopt_core.graphs.effects import Effects
from fxopt_core.graphs.examples import EXAMPLE_META, attribute_of, called, value_of
from fxopt_core.graphs.legality import legality
from fxopt_core.passes.base import Analysis, Opportunity, OptimizationPass
from fxopt_core.passes.registry import register_pass
from fxopt_core.verification.comparison import same_value

DEFAULT_LIMIT_BYTES = 16 * 2**20
"""Size up to which a folded value is kept: about the last-level cache of one core of a server."""


@legality("constant_folding: state stays state")
def state_stays_state(name: str, tensor: torch.Tensor, state: frozenset[str], freeze: bool) -> str | None:
    """What is in `state_dict`, or is trained, may change after this; only `freeze=True` says that it will not."""
    if not freeze and (name in state or tensor.requires_grad):
        return f"{name} is part of state_dict or trained; freeze=True folds it all the same"
    return None


@legality("constant_folding: a write makes a variable")
def written_is_variable(node: fx.Node, storages: Storages) -> str | None:
    """Storage that the graph writes is no constant. What an unknown node returns counts as written."""
    return "its storage may be written to" if storages.written(node) else None


@legality("constant_folding: a draw is no constant")
def draw_is_no_constant(effects: Effects) -> str | None:
    """A random draw is another value each time."""
    return "it draws from the random stream" if effects.random else None


@legality("constant_folding: no autocast region changes it")
def autocast_changes_nothing(value: Any, under_autocast: Any) -> str | None:
    """The caller may enter an autocast region after the pass has run, in which some operators compute in 16 bits."""
    if not isinstance(value, torch.Tensor) or same_value(value, under_autocast):
        return None
    return "the caller may call the graph under autocast, where it would be computed in another precision"


@legality("constant_folding: what switches a mode is known")
def modes_are_known(node: fx.Node, effects: Effects) -> str | None:
    """After a call of which nothing is known, what is computed may be of another default dtype or device."""
    if effects.opaque and node.op == "call_function" and not isinstance(node.target, (OperatorBase, OpOverloadPacket)):
        return f"what {node} does is not known: it may switch the default dtype, so that nothing after it is folded"
    return None


@legality("constant_folding: returned values are new each time")
def returned_is_new(node: fx.Node, storages: Storages) -> str | None:
    """The caller may write to what it gets, and the next call must not see that."""
    return "it is returned, and the caller may write to it" if node in storages.returned else None


@register_pass("constant_folding")
class ConstantFolding(OptimizationPass):
    """Compute what does not depend on the inputs once, ahead.

        n = f(c...)    becomes    n = get_attr

    where every `c` is a constant: a tensor of the module that is neither in `state_dict` nor trained (with
    `freeze=True` also parameters and persistent buffers: later changes of the state are then not seen, and gradients
    do not reach it), a literal, or a folded value. `f` draws nothing, writes nothing and is known; nobody writes to
    `n` or gets it returned; `n` is not larger than `limit_bytes`. Calls of modules are
    left alone. Exactness: bitwise on the same device.

    What the module or its caller does later does not pass unseen. Where autocast would change a value (each is computed
    with and without), it stays. Where `module.double()`, `half()` or `to(dtype)` changes the dtype of a folded value,
    an assertion in the graph stops the next call: cast first, and run the pass on the result. Values of which the dtype
    is left open are of `torch.get_default_dtype()` as it was when the pass ran.

    Folded values are non-persistent buffers: the keys of `state_dict` stay. `statistics["bytes added"]` is the memory
    that they take; what they were computed from stays in the module. Linear in nodes and edges, plus the computation.

    Args:
        freeze: whether parameters and persistent buffers count as constants.
        limit_bytes: the largest folded value, in bytes of its storage.
    """

    def __init__(self, *, freeze: bool = False, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        if limit_bytes < 0:
            raise ValueError(f"limit_bytes is {limit_bytes}; expected a number of bytes, 0 or more.")
        self.freeze = freeze
        self.limit_bytes = limit_bytes

    def analyze(self, editor: GraphEditor) -> Analysis:
        """Find the constants, and compute those that something variable uses."""
        analysis = Analysis()
        constants = self._constants(editor, analysis)
        used = [
            node for node in constants if node.op != "get_attr" and any(user not in constants for user in node.users)
        ]
        values = _evaluate(constants, used)
        again = _evaluate(constants, used, autocast=True) if any(map(_autocast_knows, constants)) else values
        for node in used:
            value = values[node]
            reason = autocast_changes_nothing(value, again[node])
            if reason is not None:
                analysis.refuse(node, reason)
            elif isinstance(value, torch.Tensor):
                analysis.opportunities.append(Opportunity(node, value))
            elif isinstance(value, Exception):
                analysis.refuse(node, f"computing it raises {type(value).__name__}: {value}")
            else:
                analysis.refuse(node, f"its value is of type {type(value).__name__}, and only tensors are kept")
        return analysis

    def _constants(self, editor: GraphEditor, analysis: Analysis) -> dict[fx.Node, Any]:
        """The constant nodes in order; tensors of the module with their values."""
        storages = editor.storages
        state = frozenset(persistent_names(editor.graph_module))
        examples = _Examples()
        constants: dict[fx.Node, Any] = {}
        for node in editor.graph.nodes:
            if node.op == "get_attr":
                tensor = _tensor(node)
                if tensor is not None:
                    reason = state_stays_state(str(node.target), tensor, state, self.freeze)
                    reason = reason or written_is_variable(node, storages)
                    if reason is None:
                        constants[node] = tensor
            elif node.op in ("call_function", "call_method"):
                effects = storages.effects(node)
                if reason := modes_are_known(node, effects):
                    analysis.refuse(node, reason)
                    break
                if effects.context or effects.checks or not all(map(constants.__contains__, node.all_input_nodes)):
                    continue
                reason = self._why_not(node, effects, storages) or self._too_large(node, examples)
                if reason is None:
                    constants[node] = None
                else:
                    analysis.refuse(node, reason)
        return constants

    @staticmethod
    def _why_not(node: fx.Node, effects: Effects, storages: Storages) -> str | None:
        return draw_is_no_constant(effects) or written_is_variable(node, storages) or returned_is_new(node, storages)

    def _too_large(self, node: fx.Node, examples: _Examples) -> str | None:
        try:
            size = _bytes(examples[node])
        except Exception as error:  # whatever an operator may raise; the reason says what it was
            return f"its size cannot be told without computing it ({type(error).__name__})"
        if size > self.limit_bytes:
            return f"it takes {size} bytes, more than the limit of {self.limit_bytes}"
        return None

    def transform(self, editor: GraphEditor, opportunity: Opportunity) -> None:
        """Put the computed tensor in the node's place."""
        node, value = opportunity.node, opportunity.data
        constant = editor.constant(value, f"_folded_{node.name}", like=node)
        if (value.is_floating_point() or value.is_complex()) and not _is_asserted(editor.graph, value.dtype):
            assertion = editor.call(_ASSERT, constant, None, None, value.dtype, like=node)
            assertion.meta |= dict.fromkeys(name for name in EXAMPLE_META if name in node.meta)
        editor.replace(node, constant)


def _tensor(node: fx.Node) -> torch.Tensor | None:
    """The tensor with data that a `get_attr` node stands for."""
    value = attribute_of(node.graph.owning_module, node.target)
    return value if isinstance(value, torch.Tensor) and not isinstance(value, FakeTensor) else None


class _Examples(dict[fx.Node, Any]):
    """Values without data: as the capture kept them, else found by a computation without data when asked for."""

    def __init__(self) -> None:
        self.mode = FakeTensorMode(allow_non_fake_inputs=True)

    def __missing__(self, node: fx.Node) -> Any:
        value = value_of(node)
        if value is None and node.op == "get_attr":
            tensor = _tensor(node)
            value = tensor if tensor is None else self.mode.from_tensor(tensor)
        elif value is None:
            with self.mode, torch.no_grad():
                value = _call(node, self)
        self[node] = value
        return value


def _bytes(value: Any) -> int:
    if isinstance(value, torch.Tensor):
        return value.untyped_storage().nbytes()
    return sum(map(_bytes, value)) if isinstance(value, (tuple, list)) else 0


def _call(node: fx.Node, values: dict[fx.Node, Any]) -> Any:
    return called(node, *fx.node.map_arg((node.args, node.kwargs), values.__getitem__))


_ASSERT = torch.ops.aten._assert_tensor_metadata.default


def _is_asserted(graph: fx.Graph, dtype: torch.dtype) -> bool:
    """Whether the graph already asserts of a folded value that it is of this dtype: they are cast together."""
    return any(
        node.args[-1] is dtype and str(getattr(node.args[0], "target", "")).startswith("_folded_")
        for node in graph.find_nodes(op="call_function", target=_ASSERT)
    )


_AUTOCAST = tuple(f"Autocast{device}" for device in ("CPU", "CUDA", "MPS", "XPU"))


@cache
def _is_known_to_autocast(target: Any) -> bool:
    if not isinstance(target, OpOverload) or target.namespace != "aten":
        return True
    kernels = (*_AUTOCAST, "CompositeImplicitAutograd")  # the last calls operators that autocast may know
    return any(torch._C._dispatch_has_kernel_for_dispatch_key(target.name(), key) for key in kernels)


def _autocast_knows(node: fx.Node) -> bool:
    """Whether autocast may have something to say about the call: it has kernels of its own for some operators."""
    return node.op == "call_method" or (node.op == "call_function" and _is_known_to_autocast(node.target))


@contextmanager
def _mode(autocast: bool, constants: dict[fx.Node, Any]) -> Iterator[None]:
    """Without gradients, whatever mode the pass is called in, and with autocast on or off for all devices."""
    devices = {"cpu", *(value.device.type for value in constants.values() if isinstance(value, torch.Tensor))}
    with ExitStack() as modes:
        modes.enter_context(torch.inference_mode(False))
        modes.enter_context(torch.no_grad())
        for device in devices - {"meta"}:
            modes.enter_context(torch.autocast(device, torch.bfloat16, enabled=autocast, cache_enabled=False))
        yield


def _evaluate(constants: dict[fx.Node, Any], used: list[fx.Node], *, autocast: bool = False) -> dict[fx.Node, Any]:
    """The values of `used`, computing only what they need and keeping nothing longer than needed.

    The value of a node that cannot be computed, and of those that depend on it, is the exception.
    """
    # Of all that is needed: who needs it last. What is asked for is kept.
    last_user: dict[fx.Node, fx.Node | None] = dict.fromkeys(used)
    for node in reversed(constants):
        if node in last_user:
            for source in node.all_input_nodes:
                last_user.setdefault(source, node)
    values: dict[fx.Node, Any] = {}
    with _mode(autocast, constants):
        for node, tensor in constants.items():
            if node in last_user:
                values[node] = tensor if node.op == "get_attr" else _try(node, values)
                for source in node.all_input_nodes:
                    if last_user[source] is node:
                        values.pop(source, None)
    return {node: values[node] for node in used}


def _try(node: fx.Node, values: dict[fx.Node, Any]) -> Any:
    for source in node.all_input_nodes:
        if isinstance(values[source], Exception):
            return values[source]
    try:
        return _call(node, values)
    except Exception as error:  # the node raises at every call, and has to go on doing so
        return error
