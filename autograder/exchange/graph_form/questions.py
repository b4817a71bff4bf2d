"""What a judge may ask of a graph that a learner sent: functions that run it and tell what can be seen from outside.

They are called where graphs are run, in the learner's own notebook or in the process that `ask` puts them to. They know
nothing of cases and expectations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import fx
from torch.fx.graph import CodeGen
from torch.fx.immutable_collections import immutable_dict, immutable_list
from torch.utils._pytree import tree_flatten, tree_leaves


def result_of(graph_module: fx.GraphModule, inputs: Sequence[Any]) -> Any:
    """What the graph computes for `inputs`, node by node, in the structure that its signature says."""
    with process_state_restored():
        return _with_plain_containers(fx.Interpreter(graph_module).run(*inputs))


def flat_result_of(graph_module: fx.GraphModule, inputs: Mapping[str, Any], seed: int) -> list[Any]:
    """The leaves of what the graph computes; inputs by the names of its arguments, random numbers from `seed`."""
    names = [str(node.target) for node in graph_module.graph.find_nodes(op="placeholder")]
    flat = fx.GraphModule(graph_module, graph_module.graph)  # a graph of its own, the same tensors
    flat.graph.set_codegen(CodeGen())
    with torch.random.fork_rng(devices=[]):
        torch.random.default_generator.manual_seed(seed)
        return list(tree_leaves(result_of(flat, [inputs[name] for name in names])))


def observed(graph_module: fx.GraphModule, inputs: Sequence[torch.Tensor]) -> dict[str, Any]:
    """All that a caller can see of one run on copies of `inputs`.

    Buffers of the graph module keep what the graph writes. What it returned is overwritten with sevens in the end, as a
    caller might: the next run must not see it.

    Returns:
        `outputs` (flat), `structure` (how they were nested, as text), `inputs` (after the run), `state` (parameters and
        buffers after the run, by name), `draws` (the state of the random stream after the run), `shared` (pairs of
        positions, among outputs and then inputs, of tensors that share storage), and `modes` (the mode of gradients and
        of autocast after the run).
    """
    given = [value.clone() for value in inputs]
    with process_state_restored(), torch.no_grad():
        torch.random.default_generator.manual_seed(0)  # that of the CPU alone: the others are slow to reach
        outputs, structure = tree_flatten(fx.Interpreter(graph_module).run(*given))
        draws = torch.get_rng_state()
        modes = [torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")]
        # What follows is the caller's, who is not in the mode that the graph has left behind.
        torch._C._set_grad_enabled(False)
        torch.set_autocast_enabled("cpu", False)
        places = [_storage(value) for value in (*outputs, *given)]
        seen = {
            "outputs": [_copied(value) for value in outputs],
            "structure": str(structure),
            "inputs": [value.clone() for value in given],
            "state": {name: value.detach().clone() for name, value in state_of(graph_module)},
            "draws": draws,
            "modes": modes,
            "shared": [
                (i, j)
                for i in range(len(outputs))
                for j in range(i + 1, len(places))
                if places[i] and places[i] == places[j]
            ],
        }
        for value in outputs:
            if isinstance(value, torch.Tensor):
                value.detach().fill_(7)
    return seen


def session(
    graph_module: fx.GraphModule, calls: Sequence[Sequence[torch.Tensor]], trained_on: Sequence[torch.Tensor] | None
) -> dict[str, Any]:
    """All that a caller sees who calls a graph several times, and in the end asks for gradients.

    Args:
        graph_module: what is called. Its buffers keep what it writes from call to call.
        calls: the inputs of each call.
        trained_on: the inputs of the call whose gradients are asked for; `None` for no such call.

    Returns:
        `start` (parameters and buffers before the first call, by name), `calls` (for each call what `observed` sees, or
        `{"raised": "RuntimeError"}`), and `gradients` (what `gradients_of_everything` sees, or an empty dictionary
        where they are not asked for).
    """
    start = {name: value.detach().clone() for name, value in state_of(graph_module)}
    seen: list[dict[str, Any]] = []
    for inputs in calls:
        try:
            seen.append(observed(graph_module, inputs))
        except Exception as error:  # to raise is something that a caller sees
            seen.append({"raised": type(error).__name__})
    asked = {} if trained_on is None else gradients_of_everything(graph_module, trained_on)
    return {"start": start, "calls": seen, "gradients": asked}


def gradients_of_everything(graph_module: fx.GraphModule, inputs: Sequence[torch.Tensor]) -> dict[str, Any]:
    """Gradients of all outputs with respect to all inputs and parameters of floating point.

    Returns:
        `trained` (for each output whether it requires gradients) and `gradients` (by `input 0` or the name of a
        parameter; `None` where none flows), or `raised`.
    """
    leaves = [value.clone().requires_grad_(value.is_floating_point()) for value in inputs]
    sources = {f"input {i}": leaf for i, leaf in enumerate(leaves) if leaf.requires_grad}
    sources |= {name: value for name, value in graph_module.named_parameters() if value.requires_grad}
    with process_state_restored():
        torch.random.default_generator.manual_seed(0)
        torch._C._set_grad_enabled(True)
        try:
            # Copies: a leaf of autograd may not be written, which a graph might do to its inputs.
            outputs, _ = tree_flatten(fx.Interpreter(graph_module).run(*[leaf.clone() for leaf in leaves]))
            torch._C._set_grad_enabled(True)
            results = [value for value in outputs if isinstance(value, torch.Tensor) and value.requires_grad]
            weights = [
                torch.linspace(0.5, 1.5, value.numel(), dtype=value.dtype).reshape(value.shape) for value in results
            ]
            found: list[torch.Tensor | None] = [None] * len(sources)
            if results and sources:
                found = list(torch.autograd.grad(results, list(sources.values()), weights, allow_unused=True))
        except Exception as error:  # a graph may write what the backward pass needs
            return {"raised": type(error).__name__}
    trained = [isinstance(value, torch.Tensor) and value.requires_grad for value in outputs]
    return {"trained": trained, "gradients": dict(zip(sources, found, strict=True))}


def _copied(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def _storage(value: Any) -> int:
    return value.untyped_storage().data_ptr() if isinstance(value, torch.Tensor) else 0


def state_of(graph_module: fx.GraphModule) -> Iterator[tuple[str, torch.Tensor]]:
    """Parameters and buffers by name; those that have several names, under each."""
    yield from graph_module.named_parameters(remove_duplicate=False)
    yield from graph_module.named_buffers(remove_duplicate=False)


def gradients_of(
    graph_module: fx.GraphModule, inputs: Sequence[Any], output: int, leaves: Sequence[torch.Tensor]
) -> list[torch.Tensor | None]:
    """Gradients with respect to `leaves`, which are among `inputs`, of the output number `output`; see `gradients`."""
    result: torch.Tensor = result_of(graph_module, inputs)[output]
    return gradients(result, leaves)


def gradients(result: torch.Tensor, leaves: Sequence[torch.Tensor]) -> list[torch.Tensor | None]:
    """Gradients of a sum in which each element of `result` has a weight of its own; `None` where none flows."""
    if not result.requires_grad:
        return [None] * len(leaves)
    # The weights make a gradient that an error in one element cannot leave unchanged.
    weights = torch.arange(1.0, result.numel() + 1).reshape(result.shape)
    return list(torch.autograd.grad((result.square() * weights).sum(), leaves, allow_unused=True))


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
    cache, regions = torch.is_autocast_cache_enabled(), _regions_of_autocast()
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
        # A region that the graph began and never ended would keep autocast from ever forgetting what it converted.
        while _regions_of_autocast() > regions:
            torch.autocast_decrement_nesting()
        torch.clear_autocast_cache()


def _regions_of_autocast() -> int:
    """How many there are around this, which torch only tells when one begins or ends."""
    torch.autocast_increment_nesting()
    return int(torch.autocast_decrement_nesting())
