"""What one node of an FX graph is, in words: its kind, operation, arguments, shape and dtype."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.fx.passes.shape_prop import TensorMetadata

from fxopt_core.graphs.names import operation_name

UNKNOWN = "?"
"""Stands for a shape or dtype that the graph does not carry."""

VALUE_KEYS = ("val", "example_value", "tensor_meta", "encoded_value")
"""Keys of `node.meta` that may hold what a node computes, the most telling first."""

KINDS = {
    "placeholder": "input",
    "get_attr": "attribute",
    "call_function": "function",
    "call_method": "method",
    "call_module": "module",
    "output": "output",
}

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_DYNAMO_STATE = re.compile(r"_(parameters|buffers)_")
_EXPORT_STATE = re.compile(r"[pbc]_")
_LONGEST_ARGUMENTS = 72


@dataclass(frozen=True)
class NodeDescription:
    """One node in words.

    Attributes:
        name: the node's unique name in its graph.
        kind: a key of `fxopt_workbench.pictures.style.STYLES`.
        operation: what it does: `conv2d`, `method:view`, `input`, ...
        arguments: its arguments as text; nodes by `readable_parameter_name`, never an address.
        shape: such as `[4, 3]`; empty for a value without one, `?` where the graph does not say.
        dtype: such as `float32`; for anything but a tensor the name of its Python type; or `?`.
        is_parameter: whether it stands for a parameter or buffer of the model.
        inputs: names of the nodes that it reads, each once, in order.
    """

    name: str
    kind: str
    operation: str
    arguments: str
    shape: str
    dtype: str
    is_parameter: bool
    inputs: tuple[str, ...]


def describe(graph: fx.Graph, parameters: frozenset[str] = frozenset()) -> list[NodeDescription]:
    """Describe every node of `graph` in order.

    Args:
        graph: the graph; its nodes are not changed.
        parameters: names of placeholders known to stand for parameters or buffers. Others are
            recognised by what Dynamo, AOTAutograd and `torch.export` write into names and metadata.
    """
    states = parameters | _parameter_names(graph)
    return [_describe_node(node, node.name in states) for node in graph.nodes]


def _describe_node(node: fx.Node, is_parameter: bool) -> NodeDescription:
    shape, dtype = shape_and_dtype(_value(node))
    kind = "parameter" if node.op == "placeholder" and is_parameter else KINDS[node.op]
    if node.op == "output":
        shape = dtype = ""
    return NodeDescription(
        name=node.name,
        kind=kind,
        operation=_operation(node, kind),
        arguments=_arguments(node),
        shape=shape,
        dtype=dtype,
        is_parameter=is_parameter,
        inputs=tuple(source.name for source in node.all_input_nodes),
    )


def _operation(node: fx.Node, kind: str) -> str:
    if node.op in ("placeholder", "output"):
        return kind
    if node.op == "get_attr":
        return f"attribute:{node.target}"
    return operation_name(node)


def _value(node: fx.Node) -> Any:
    for key in VALUE_KEYS:
        if node.meta.get(key) is not None:
            return node.meta[key]
    if node.op == "get_attr":
        return _attribute(node)
    return None


def _attribute(node: fx.Node) -> Any:
    """What a `get_attr` node reads, or `None` for a graph without its module."""
    found: Any = node.graph.owning_module
    for part in str(node.target).split("."):
        found = getattr(found, part, None)
    return found


def shape_and_dtype(value: Any) -> tuple[str, str]:
    """Shape and dtype of a node's value as text, such as `("[4, 3]", "float32")`.

    Takes a tensor (a fake one too), a `TensorMetadata`, a mapping with `shape` and `dtype` (what was decoded),
    a number, or a tuple or list of these. `None` gives `("?", "?")`; in a tuple it is what was not asked for.
    """
    if value is None:
        return UNKNOWN, UNKNOWN
    if isinstance(value, (torch.Tensor, TensorMetadata)):
        return _shape(value.shape), str(value.dtype).removeprefix("torch.")
    if isinstance(value, Mapping):
        if "shape" not in value or "dtype" not in value:
            return "", str(value.get("type", type(value).__name__))
        return _shape(value["shape"]), str(value["dtype"]).removeprefix("torch.")
    if isinstance(value, (tuple, list)):
        parts = [("none", "") if element is None else shape_and_dtype(element) for element in value]
        dtypes = list(dict.fromkeys(dtype for _, dtype in parts if dtype))
        return _several([shape for shape, _ in parts], 3), "/".join(dtypes)
    if isinstance(value, fx.GraphModule):
        return "", f"graph of {len(value.graph.nodes)} nodes"
    return "", type(value).__name__


def _shape(shape: Any) -> str:
    return "[" + ", ".join(str(size) for size in shape) + "]"


def _several(texts: list[str], most: int) -> str:
    shown = ", ".join(texts[:most])
    return f"({shown}, … {len(texts)} in all)" if len(texts) > most else f"({shown})"


def _arguments(node: fx.Node) -> str:
    if node.op in ("placeholder", "get_attr"):
        return ""
    texts = [_argument(argument) for argument in node.args]
    texts += [f"{key}={_argument(argument)}" for key, argument in node.kwargs.items()]
    text = ", ".join(texts)
    if len(text) <= _LONGEST_ARGUMENTS:
        return text
    return f"{text[:_LONGEST_ARGUMENTS].rstrip(', ')} … (reads {len(node.all_input_nodes)} nodes)"


def _argument(argument: Any) -> str:
    if isinstance(argument, fx.Node):
        return readable_parameter_name(argument.name)
    if isinstance(argument, (tuple, list)):
        inside = ", ".join(_argument(element) for element in argument)
        if isinstance(argument, list):
            return f"[{inside}]"
        return f"({inside},)" if len(argument) == 1 else f"({inside})"
    if isinstance(argument, Mapping):
        return "{" + ", ".join(f"{key!r}: {_argument(element)}" for key, element in argument.items()) + "}"
    if isinstance(argument, slice):
        parts = (
            (argument.start, argument.stop) if argument.step is None else (argument.start, argument.stop, argument.step)
        )
        return ":".join("" if part is None else _argument(part) for part in parts)
    # A function or object prints its address, which differs from run to run.
    return _ADDRESS.sub("", repr(argument)).removeprefix("torch.")


def _parameter_names(graph: fx.Graph) -> frozenset[str]:
    """Names of the nodes that stand for parameters and buffers."""
    names = set()
    # torch.export puts parameters (p_), buffers (b_) and constants (c_) before the caller's inputs.
    before_inputs = any(isinstance(node.target, torch._ops.OpOverload) for node in graph.nodes)
    for node in graph.nodes:
        if node.op == "get_attr":
            if isinstance(_attribute(node), torch.nn.Parameter) or _is_buffer(node):
                names.add(node.name)
        elif node.op == "placeholder":
            before_inputs = before_inputs and _EXPORT_STATE.match(node.name) is not None
            by_name = before_inputs or _DYNAMO_STATE.search(f"{node.target}") is not None
            if by_name or isinstance(_value(node), torch.nn.Parameter) or _described_as_state(node):
                names.add(node.name)
    return frozenset(names)


def _described_as_state(node: fx.Node) -> bool:
    """Whether AOTAutograd's own description (`node.meta["desc"]`) calls the placeholder a parameter or buffer."""
    return type(node.meta.get("desc")).__name__ in ("ParamAOTInput", "BufferAOTInput")


def _is_buffer(node: fx.Node) -> bool:
    owner: Any = node.graph.owning_module
    *path, last = str(node.target).split(".")
    for part in path:
        owner = getattr(owner, part, None)
    return isinstance(owner, torch.nn.Module) and last in owner._buffers


def readable_parameter_name(name: str) -> str:
    """The path of a parameter within its model, from the name that Dynamo gave its placeholder.

    `l_self_modules_layers_modules_0_parameters_weight_` becomes `layers.0.weight`; other names stay.
    """
    if not _DYNAMO_STATE.search(name):
        return name
    path = re.sub(r"^[lL]_.*?_(?=modules_|parameters_|buffers_)", "_", name).strip("_")
    return re.sub(r"_(?:modules|parameters|buffers)_", ".", f"_{path}").lstrip("._")
