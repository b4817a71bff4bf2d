"""Helpers of the tests: carry a graph through bytes, as between two processes, and compare what comes out."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.utils._pytree as pytree
from safetensors.torch import load, save
from torch import fx

from autograder.exchange.graph_form import EncodedGraph, decode, encode, run


def through_bytes(encoded: EncodedGraph) -> EncodedGraph:
    """What arrives in another process: JSON text and safetensors bytes, read again."""
    document = json.loads(json.dumps(encoded.document, allow_nan=False))
    return EncodedGraph(document, load(save(encoded.tensors)) if encoded.tensors else {})


def round_trip(graph_module: fx.GraphModule) -> fx.GraphModule:
    """The graph after its journey; checks that encoding it again gives the identical document and storages."""
    first = encode(graph_module)
    rebuilt = decode(through_bytes(first))
    second = encode(rebuilt)
    assert json.dumps(second.document) == json.dumps(first.document)
    assert second.tensors.keys() == first.tensors.keys()
    for name, storage in first.tensors.items():
        assert_same_value(second.tensors[name], storage)
    assert [(n.op, n.target, n.name) for n in rebuilt.graph.nodes] == [
        (n.op, n.target, n.name) for n in graph_module.graph.nodes if n.name != "_guards_fn"
    ]
    return rebuilt


def assert_same_value(actual: Any, expected: Any) -> None:
    """Equal in structure, type and every bit."""
    actual_leaves, actual_structure = pytree.tree_flatten(actual)
    expected_leaves, expected_structure = pytree.tree_flatten(expected)
    assert actual_structure == expected_structure
    for a, b in zip(actual_leaves, expected_leaves, strict=True):
        assert type(a) is type(b)
        if isinstance(b, torch.Tensor):
            assert (a.dtype, a.shape, a.stride(), a.requires_grad) == (b.dtype, b.shape, b.stride(), b.requires_grad)
            assert bits(a) == bits(b)
        else:
            assert repr(a) == repr(b)


def bits(tensor: torch.Tensor) -> bytes:
    """The values of a tensor, bit by bit, in the order of its indices."""
    flat = tensor.detach().resolve_conj().contiguous().reshape(-1)
    return bytes(flat.view(torch.uint8).tolist()) if flat.numel() else b""


def check(graph_module: fx.GraphModule, *inputs: Sequence[Any]) -> fx.GraphModule:
    """Round trip, and the same outputs for each of `inputs` from the generated code and from `run`.

    The original and the rebuilt module run one after the other on copies, so that writes to inputs and buffers count.
    """
    rebuilt = round_trip(graph_module)
    assert inputs
    for values in inputs:
        original, by_code, by_run = (copy.deepcopy(list(values)) for _ in range(3))
        encoded = through_bytes(encode(graph_module))
        torch.manual_seed(0)
        expected = graph_module(*original)
        torch.manual_seed(0)
        assert_same_value(rebuilt(*by_code), expected)
        torch.manual_seed(0)
        assert_same_value(run(encoded, by_run), expected)
        assert_same_value(by_code, original)
        assert_same_value(by_run, original)
    return rebuilt


def dynamo_graph(function: Callable[..., Any], *args: Any, dynamic: bool | None = None, **kwargs: Any):
    """The one graph that Dynamo captures of a call, and the inputs that it was called with (sizes as integers)."""
    captured: list[tuple[fx.GraphModule, list[Any]]] = []

    def backend(graph_module: fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        captured.append((graph_module, example_inputs))
        return graph_module.forward

    torch._dynamo.reset()
    torch.compile(function, backend=backend, dynamic=dynamic)(*args, **kwargs)
    ((graph_module, example_inputs),) = captured
    return graph_module, [int(value) if isinstance(value, torch.SymInt) else value for value in example_inputs]
