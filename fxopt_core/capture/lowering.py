"""From the calls of torch that Dynamo writes down to the ATen operators that `torch.export` does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import SymBool, SymFloat, SymInt, fx
from torch._guards import TracingContext
from torch._ops import OpOverload, OpOverloadPacket
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.amp.autocast_mode import _enter_autocast, _exit_autocast
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.fx.traceback import preserve_node_meta

from fxopt_core.graphs.aliases import memory_of
from fxopt_core.graphs.effects import effects_of
from fxopt_core.graphs.examples import HELD_BY_MODULE, value_of

_FROM_DYNAMO = ("_param_name_to_source", "_source_to_user_stacks")
"""What Dynamo notes on its graph modules for AOTAutograd."""


class NotLowerableError(ValueError):
    """A graph cannot be written in ATen operators without losing something; the message says what."""


def lower(graph_module: fx.GraphModule) -> fx.GraphModule:
    """Dynamo's graph, written in the operators and modes that `torch.export` records; called as Dynamo's is.

    Operators are recorded before autograd and autocast take them apart, so the result is differentiated like any
    other code, and each node keeps the line of the model that it came from. What Dynamo notes for AOTAutograd (where
    inputs come from, which are weights) goes along. Linear in the nodes.

    Args:
        graph_module: what Dynamo hands to a backend, while the backend runs. It is not changed.

    Raises:
        NotLowerableError: the graph calls something of which only the call is known (an `autograd.Function`, a hook, a
            checkpointed region, `vmap`), which recording would step into or lose; or a size in it
            depends on values; or what was recorded returns something of another kind.
    """
    context = TracingContext.try_get()
    if context is None or context.fake_mode is None:
        raise NotLowerableError("no capture by Dynamo is going on, whose knowledge of sizes it needs")
    for node in graph_module.graph.nodes:
        _require_known(node)
    inputs = graph_module.graph.find_nodes(op="placeholder")
    mode = context.fake_mode
    values = [_stand_in(node, mode, context) for node in inputs]
    found: list[Any] = []

    def record(*values: Any) -> Any:
        results = _Recorded(graph_module).run(*values)
        found.extend(map(_kind, results))
        return results

    try:
        with mode, preserve_node_meta():
            lowered = make_fx(record, pre_dispatch=True)(*values)
    # Whatever operators, sizes or torch's own tracer may raise: the graph stays as Dynamo wrote it, and the reason is
    # told. What is wrong with the program itself raises again when the graph is compiled.
    except Exception as error:
        raise NotLowerableError(f"recording it raises {type(error).__name__}: {str(error).splitlines()[0]}") from error
    returned: Any = graph_module.graph.output_node().args[0]
    wanted = [_kind(value_of(one) if isinstance(one, fx.Node) else one) for one in returned]
    if wanted != found:
        raise NotLowerableError(f"its results would be {found}, and not {wanted}")
    _hold_constants(lowered)
    _take_over(graph_module, lowered)
    return lowered


class _Recorded(fx.Interpreter):
    """Calls what the nodes call, for a tracer to record, and compares each value with what Dynamo knows of it."""

    def run_node(self, node: fx.Node) -> Any:
        result = super().run_node(node)
        wanted = node.meta.get("example_value")
        if isinstance(wanted, torch.Tensor) and _plain_kind(result) != _plain_kind(wanted):
            raise NotLowerableError(f"{node} would be {_plain_kind(result)}, and not {_plain_kind(wanted)}")
        return result

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        # The tracer records a bare switch without making it; the context manager does both.
        if target is _enter_autocast:
            context = torch.autocast(*args, **kwargs)
            context.__enter__()
            return context
        if target is _exit_autocast:
            return args[0].__exit__(None, None, None)
        return super().call_function(target, args, kwargs)


def _require_known(node: fx.Node) -> None:
    if node.target in _NOT_RECORDED:
        raise NotLowerableError(f"{node} switches a mode that recording leaves out")
    if node.op == "get_attr" or node.op == "call_module":
        raise NotLowerableError(f"{node} stands for {node.target}, which the graph itself holds")
    # An operator, a custom one too, is recorded as a call of it, whatever it does.
    recorded = node.target in _SAYS_NOTHING or isinstance(node.target, (OpOverload, OpOverloadPacket))
    if node.op in ("call_function", "call_method") and effects_of(node).opaque and not recorded:
        raise NotLowerableError(f"what {node} does is not known ({getattr(node.target, '__name__', node.target)})")
    value = node.meta.get("example_value")
    if isinstance(value, (torch.Tensor, SymInt, SymFloat, SymBool)) and free_unbacked_symbols(value):
        raise NotLowerableError(f"{node} depends on values that are only known when it runs")


_NOT_RECORDED = (torch.autograd.grad_mode._enter_inference_mode, torch.autograd.grad_mode._exit_inference_mode)

_SAYS_NOTHING = (torch._C._log_api_usage_once,)
"""Unknown to the effects, and nothing that a graph could lose."""


def _stand_in(node: fx.Node, mode: FakeTensorMode, context: TracingContext) -> Any:
    """A tensor without data like the example of an input, which recording may change."""
    example = node.meta["example_value"]
    if not isinstance(example, torch.Tensor):
        return example
    if type(example) is not FakeTensor or example.layout != torch.strided:
        raise NotLowerableError(f"the input {node} is a {type(example).__name__} of layout {example.layout}")
    real = node.meta["grapharg"].example
    if example.dim() == 0 and isinstance(real, torch.Tensor):
        # A number of Python's that may vary comes as a tensor, from which `item` gets it back as a symbol.
        symbols = context.tensor_to_context.get(real)
        return mode.from_tensor(real, symbolic_context=symbols, source=node._dynamo_source)  # type: ignore[attr-defined]
    with mode, torch.inference_mode(example.is_inference()), torch.no_grad():
        made = torch.empty_strided(example.shape, example.stride(), dtype=example.dtype, device=example.device)
    return made.requires_grad_(example.requires_grad)


def _kind(value: Any) -> Any:
    """What a result is, as far as it can be seen without data."""
    if not isinstance(value, torch.Tensor):
        return str(value)
    return (*_plain_kind(value), *map(str, (value.shape, value.stride())), value.requires_grad)


def _plain_kind(value: Any) -> Any:
    """What no later write changes."""
    return (value.dtype, value.device) if isinstance(value, torch.Tensor) else type(value)


def _hold_constants(lowered: fx.GraphModule) -> None:
    """Make buffers of the tensors that were written out in the program, as `torch.tensor([1, 2])` is."""
    for name in dict.fromkeys(str(node.target) for node in lowered.graph.find_nodes(op="get_attr")):
        value = getattr(lowered, name)
        if type(value) is not torch.Tensor:
            raise NotLowerableError(f"recording it made a constant of type {type(value).__name__}")
        if name not in lowered._buffers:
            delattr(lowered, name)
            lowered.register_buffer(name, value, persistent=False)


def _take_over(graph_module: fx.GraphModule, lowered: fx.GraphModule) -> None:
    """Names of inputs, what is known of them, and of the graph."""
    lowered.meta.update(graph_module.meta)
    for name in _FROM_DYNAMO:
        if hasattr(graph_module, name):
            setattr(lowered, name, getattr(graph_module, name))

    def pairs(**kind: Any) -> Iterator[tuple[fx.Node, fx.Node]]:
        return zip(graph_module.graph.find_nodes(**kind), lowered.graph.find_nodes(**kind), strict=True)

    # Dynamo switches autocast's cache of weights off while it works, which is recorded.
    for old, new in pairs(op="call_function", target=_enter_autocast):
        new.args = old.args
    for old, new in pairs(op="placeholder"):
        new.target = old.target
        new._rename(old.name)
        new._dynamo_source = old._dynamo_source  # type: ignore[attr-defined]
        new.meta.update({key: value for key, value in old.meta.items() if key != "example_value"})
        if getattr(old.meta["example_value"], "requires_grad", False):
            # Recording kept the sizes of inputs, and not that gradients reach them.
            new.meta["val"].requires_grad_()
        if "_dynamo_static_input_type" in old.meta.get("tensor_dict", {}):
            new.meta[HELD_BY_MODULE] = memory_of(old.meta["grapharg"].example)
    lowered.recompile()
