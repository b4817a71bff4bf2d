"""Small graphs, written node by node in three dialects, and a run that looks at everything they do."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import fx, nn

from fxopt_core.capture.module import keep_state_as_it_was

aten = torch.ops.aten


def graph_module(build: Callable[[fx.Graph], Any], root: nn.Module | None = None) -> fx.GraphModule:
    """The module whose graph `build` writes; it returns what the graph returns."""
    graph = fx.Graph()
    graph.output(build(graph))
    root = root if root is not None else nn.Module()
    module = fx.GraphModule(root, graph)
    keep_state_as_it_was(module, root)
    return module


def operations(module: fx.GraphModule) -> list[str]:
    """The names of what the graph calls, in order."""
    return [
        getattr(node.target, "__name__", str(node.target)) if not isinstance(node.target, str) else node.target
        for node in module.graph.nodes
        if node.op.startswith("call")
    ]


def observe(module: nn.Module, *inputs: torch.Tensor, seed: int = 0) -> dict[str, Any]:
    """Everything that a call does: results, writes to inputs and state, which results share storage, the draws.

    The module is put back as it was, and not copied: torch.fx copies of a module only what its graph uses.
    """
    state = module.state_dict(keep_vars=True)
    held = [*state.values(), *module.buffers(), *(value for value in vars(module).values() if torch.is_tensor(value))]
    before = [(tensor, tensor.detach().clone()) for tensor in held]
    inputs = copy.deepcopy(inputs)
    torch.manual_seed(seed)
    try:
        with torch.enable_grad():  # puts back what the graph switches
            outputs = module(*inputs)
        flat = [outputs] if isinstance(outputs, torch.Tensor) else list(outputs)
        tensors = [*flat, *inputs]
        return {
            "outputs": [bits(tensor) for tensor in flat],
            "inputs": [bits(tensor) for tensor in inputs],
            "state": {name: bits(tensor) for name, tensor in state.items()},
            "shared": [
                one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()
                for one in tensors
                for other in tensors
            ],
            "random": torch.get_rng_state().tolist(),
        }
    finally:
        for tensor, value in before:
            if tensor.shape != value.shape:  # an `out=` of another size
                with torch.no_grad():
                    tensor.set_(tensor.untyped_storage(), 0, value.shape, value.stride())
            # Where elements overlap (a folded constant may be expanded) nothing was written, and nothing can be copied.
            if bits(tensor) != bits(value):
                tensor.data.copy_(value)
            if not tensor.is_leaf:  # a buffer that was written with something that records gradients
                tensor.detach_()


def bits(tensor: torch.Tensor) -> tuple[torch.dtype, tuple[int, ...], list[int]]:
    """A tensor as comparable values: NaN equals itself, and 0.0 differs from -0.0."""
    # Not contiguous(), which keeps the odd strides of a single element.
    tensor = tensor.detach().clone(memory_format=torch.contiguous_format)
    return tensor.dtype, tuple(tensor.shape), tensor.reshape(-1).view(torch.uint8).tolist()


def traced(function: Callable[..., Any]) -> fx.GraphModule:
    """The torch-level graph of a function."""
    return fx.symbolic_trace(function)
