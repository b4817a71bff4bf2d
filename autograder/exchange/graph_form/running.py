"""Running a decoded graph so that nothing of it stays behind in the process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import fx
from torch.fx.graph import CodeGen
from torch.fx.immutable_collections import immutable_dict, immutable_list
from torch.utils._pytree import tree_leaves

from autograder.exchange.graph_form.decode import decode
from autograder.exchange.graph_form.format import DEFAULT_LIMITS, EncodedGraph, Limits


def run(graph: EncodedGraph | fx.GraphModule, inputs: Sequence[Any], *, limits: Limits = DEFAULT_LIMITS) -> Any:
    """What the graph computes for `inputs`, node by node, without the code that `torch.fx` generates.

    Grad mode, autocast, functorch levels and the state of the CPU's random number generator are afterwards as they
    were before. Buffers of a graph module that is passed in keep what the graph writes to them; an encoded graph is
    not changed. Time and memory are not limited.

    Args:
        graph: an encoded graph, which is decoded first, or a decoded one.
        inputs: one value an argument.
        limits: for `decode`.

    Returns:
        The value of the output node, in the structure that the graph's signature says.

    Raises:
        GraphFormatError: an encoded graph is not well-formed.
        Exception: whatever an operation raises for its inputs.
    """
    graph_module = decode(graph, limits=limits) if isinstance(graph, EncodedGraph) else graph
    with process_state_restored():
        return _with_plain_containers(fx.Interpreter(graph_module).run(*inputs))


def run_flat(graph: fx.GraphModule, inputs: Mapping[str, Any], seed: int = 0) -> list[Any]:
    """What a decoded graph computes, inputs by the names of its arguments and outputs as a flat list.

    In this way a graph is called alike, whether it was exported from positional or keyword arguments, and whatever
    its inputs and outputs are packed in. As with `run`, nothing stays behind in the process.

    Args:
        graph: a decoded graph.
        inputs: by the names of its arguments, the targets of placeholders; names that the graph does not have are
            left out.
        seed: of what the graph draws: two seeds tell whether it draws at all.

    Raises:
        KeyError: an argument has no input.
        Exception: whatever an operation raises for its inputs.
    """
    names = [str(node.target) for node in graph.graph.nodes if node.op == "placeholder"]
    flat = fx.GraphModule(graph, graph.graph)  # a graph of its own, the same tensors
    flat.graph.set_codegen(CodeGen())
    with torch.random.fork_rng(devices=[]):
        torch.random.default_generator.manual_seed(seed)
        return list(tree_leaves(run(flat, [inputs[name] for name in names])))


def _with_plain_containers(value: Any) -> Any:
    """`value` with lists and dictionaries in the place of the immutable ones in which torch.fx keeps arguments."""
    if type(value) is immutable_list:
        return [_with_plain_containers(element) for element in value]
    if type(value) is immutable_dict:
        return {key: _with_plain_containers(element) for key, element in value.items()}
    if type(value) is tuple:
        return tuple(_with_plain_containers(element) for element in value)
    if type(value) is slice:
        return slice(*(_with_plain_containers(part) for part in (value.start, value.stop, value.step)))
    return value


@contextmanager
def process_state_restored() -> Iterator[None]:
    """Afterwards grad mode, autocast, functorch levels and the CPU's random stream are as they were before."""
    grad = torch.is_grad_enabled()
    functorch_depth = torch._C._functorch.get_dynamic_layer_stack_depth()
    devices = [device for device in ("cpu", "cuda", "mps") if torch.amp.is_autocast_available(device)]
    autocast = {d: (torch.is_autocast_enabled(d), torch.get_autocast_dtype(d)) for d in devices}
    cache = torch.is_autocast_cache_enabled()
    generator = torch.get_rng_state()
    try:
        yield
    finally:
        if torch._C._functorch.get_dynamic_layer_stack_depth() > functorch_depth:
            torch._C._functorch.pop_dynamic_layer_stack_and_undo_to_depth(functorch_depth)
        torch.set_rng_state(generator)
        torch._C._set_grad_enabled(grad)
        for device, (enabled, dtype) in autocast.items():
            torch.set_autocast_enabled(device, enabled)
            torch.set_autocast_dtype(device, dtype)
        torch.set_autocast_cache_enabled(cache)
        torch.clear_autocast_cache()
