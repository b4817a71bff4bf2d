"""From an fx graph to plain data."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx, nn

from autograder.exchange.graph_form.format import (
    DEFAULT_LIMITS,
    FORMAT,
    VERSION,
    EncodedGraph,
    GraphFormatError,
    attribute_path,
    identifier,
)
from autograder.exchange.graph_form.literals import encode_literal
from autograder.exchange.graph_form.modules import build_module, describe_module
from autograder.exchange.graph_form.signature import encode_signature
from autograder.exchange.graph_form.targets import encode_target
from autograder.exchange.graph_form.tensors import TensorEncoder
from autograder.exchange.graph_form.values import encode_value


def encode(graph_module: fx.GraphModule) -> EncodedGraph:
    """The JSON form of a graph, with its tensors beside it.

    Carried: nodes with their names, arguments (exact in type and bits) and shapes; the parameters, buffers,
    constants, subgraphs and `torch.nn` modules that nodes read or call, ties and shared memory included; training
    flags; the structure of inputs and outputs. Not carried: stack traces and other metadata, type annotations,
    attributes that no node reads, which device a tensor is on, and the checks of inputs that
    `ExportedProgram.module()` adds (they are Python code).

    Raises:
        GraphFormatError: the graph holds something without an encoded form (a Python function, a module with hooks,
            a tensor subclass); the message names the node.
    """
    if not isinstance(graph_module, fx.GraphModule):
        raise GraphFormatError(f"expected a torch.fx.GraphModule, got a {type(graph_module).__name__}")
    encoder = _Encoder()
    encoder.module(graph_module, "the graph", 0)
    storages = encoder.tensors.finish()
    document = {
        "format": FORMAT,
        "version": VERSION,
        "tensors": encoder.tensors.entries,
        "modules": encoder.modules,
    }
    return EncodedGraph(document, storages)


class _Encoder:
    """Collects the modules and tensors of one document; modules come after those that they use."""

    def __init__(self) -> None:
        self.tensors = TensorEncoder()
        self.modules: list[dict[str, Any]] = []
        self._index: dict[int, int] = {}

    def module(self, module: nn.Module, where: str, depth: int) -> int:
        if depth > DEFAULT_LIMITS.module_depth:
            raise GraphFormatError(f"{where}: graphs nested more than {DEFAULT_LIMITS.module_depth} deep")
        if id(module) not in self._index:
            is_graph = isinstance(module, fx.GraphModule)
            entry = self._graph(module, where, depth) if is_graph else self._leaf(module, where)
            self._index[id(module)] = len(self.modules)
            self.modules.append(entry)
        return self._index[id(module)]

    def _leaf(self, module: nn.Module, where: str) -> dict[str, Any]:
        name, arguments = describe_module(module, where)
        state: list[dict[str, Any]] = [
            {"path": path, "tensor": self.tensors.add(tensor, f"{where}.{path}")}
            for named in (module.named_parameters, module.named_buffers)
            for path, tensor in named(remove_duplicate=False)
        ]
        build_module(name, arguments, {item["path"] for item in state}, where)  # says now what decoding would say
        return {
            "kind": "module",
            "class": name,
            "training": module.training,
            "arguments": {key: encode_literal(value, f"{where}: {key}") for key, value in arguments.items()},
            "state": state,
        }

    def _graph(self, graph_module: Any, where: str, depth: int) -> dict[str, Any]:
        attributes: dict[str, dict[str, Any]] = {}
        nodes = []
        for node in graph_module.graph.nodes:
            if _is_input_check(graph_module, node):
                continue
            identifier(node.name, DEFAULT_LIMITS, f"node {node.name!r}")
            at = f"node {node.name!r}"
            if node.op in ("get_attr", "call_module") and node.target not in attributes:
                attributes[node.target] = self._attribute(graph_module, node, depth)
            nodes.append(
                {
                    "name": node.name,
                    "op": node.op,
                    "target": encode_target(node),
                    "args": [encode_literal(argument, at) for argument in node.args],
                    "kwargs": {key: encode_literal(argument, at) for key, argument in node.kwargs.items()},
                    "value": encode_value(node),
                }
            )
        return {
            "kind": "graph",
            "training": graph_module.training,
            "signature": encode_signature(graph_module.graph, where),
            "attributes": list(attributes.values()),
            "nodes": nodes,
        }

    def _attribute(self, graph_module: fx.GraphModule, node: fx.Node, depth: int) -> dict[str, Any]:
        where = f"node {node.name!r}"
        *path, last = attribute_path(node.target, DEFAULT_LIMITS, where)
        owner: Any = graph_module
        for part in path:
            owner = getattr(owner, part, None)
        value = getattr(owner, last, None)
        if isinstance(value, torch.Tensor):
            is_buffer = isinstance(owner, nn.Module) and last in owner._buffers
            persistent = is_buffer and last not in owner._non_persistent_buffers_set
            kind = ("persistent" if persistent else "temporary") if is_buffer else None
            return {"path": node.target, "tensor": self.tensors.add(value, where), "buffer": kind}
        if isinstance(value, nn.Module):
            return {"path": node.target, "module": self.module(value, where, depth + 1)}
        raise GraphFormatError(
            f"{where}: the attribute {node.target!r} is a {type(value).__name__}; "
            "expected a tensor, a graph or a basic module of torch.nn"
        )


def _is_input_check(graph_module: fx.GraphModule, node: fx.Node) -> bool:
    """Whether `node` calls the module in which `ExportedProgram.module()` keeps its checks of inputs."""
    if node.op != "call_module" or node.users:
        return False
    kind = type(getattr(graph_module, str(node.target), None))
    return (kind.__module__, kind.__name__) == ("torch.export._unlift", "GuardsFn")
