"""What one node of an FX graph is, in words: its kind, operation, arguments, shape and dtype."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torch.export.graph_signature import InputKind
from torch.fx.graph import _PyTreeCodeGen
from torch.fx.passes.shape_prop import TensorMetadata

from fxopt_core.graphs.names import operation_name

if TYPE_CHECKING:
    # Not at run time: a task may withhold how graphs are captured, and still show them.
    from fxopt_core.capture.captured_graph import CapturedGraph

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

STATES = ("parameter", "buffer", "constant", "object")
"""What a model can hold and a graph read: what is trained, what the model keeps beside it, a tensor that is neither,
and a script object."""

_EXPORTED = {
    InputKind.PARAMETER: "parameter",
    InputKind.BUFFER: "buffer",
    InputKind.CONSTANT_TENSOR: "constant",
    InputKind.CUSTOM_OBJ: "object",
}
INPUT_KIND = "fxopt_input_kind"
"""Key of a placeholder's `meta` under which a capture notes `GraphInput.kind`, where the graph alone would not tell."""

_DYNAMO_DICTIONARIES = {"_parameters": "parameter", "_buffers": "buffer"}
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_DYNAMO_STATE = re.compile(r"[lLgG]_\w*?_(parameters|buffers)_")
# torch.export puts parameters before buffers, and both before constants and objects (in any order).
_EXPORT_PREFIXES = {"p_": (0, "parameter"), "b_": (1, "buffer"), "c_": (2, "constant"), "obj_": (2, "object")}
# Tensors that belong to no module are named by who holds them: FX, torch.export, the recorder and our passes. FX
# registers them as buffers, and so do passes, since a buffer moves with the module to another device.
_MADE = re.compile(r"_tensor_constant\d+|_?lifted_tensor_\w+|_constant\d+|_folded_\w+")
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
        state: which of `STATES` it stands for, handed in or read (`get_attr`); empty for anything else.
        inputs: names of the nodes that it reads, each once, in order.
    """

    name: str
    kind: str
    operation: str
    arguments: str
    shape: str
    dtype: str
    state: str
    inputs: tuple[str, ...]

    @property
    def is_state(self) -> bool:
        """Whether it stands for something that the model holds: a parameter, a buffer, a constant or an object."""
        return bool(self.state)

    @property
    def word(self) -> str:
        """What the node is, in one word: `parameter`, `buffer`, `input`, `function`, …"""
        return self.state or self.kind


def describe(graph: fx.Graph, states: Mapping[str, str] | None = None) -> list[NodeDescription]:
    """Describe every node of `graph` in order.

    Args:
        graph: the graph; its nodes are not changed.
        states: what placeholders are known to stand for, by name (`exported_states`, `captured_states`): one of
            `STATES`, or empty for an input. Others are recognised as `state` tells.
    """
    known = states or {}
    before_inputs = _exported_names(graph)
    return [_describe_node(node, state(node, known, before_inputs)) for node in graph.nodes]


def state(node: fx.Node, known: Mapping[str, str], exported: Mapping[str, str]) -> str:
    """Which of `STATES` a node stands for; empty for an input of the caller's, a call, a graph or what is unknown.

    A `get_attr` node is what its module says: a `Parameter`, a registered buffer, or else a constant. Tensors that
    tracing or folding made are constants, though they are kept as buffers. A placeholder is what is `known` of it, what
    a capture wrote into its metadata, what AOTAutograd did, or what Dynamo and `torch.export` (`exported`) say by name.

    Args:
        node: any node.
        known: by the names of placeholders, as for `describe`.
        exported: by the names of placeholders, what names from `torch.export` tell.
    """
    if node.op == "get_attr":
        return _held_state(node)
    if node.op != "placeholder":
        return ""
    if node.name in known:
        return known[node.name]
    if INPUT_KIND in node.meta:
        return _only_state(node.meta[INPUT_KIND])
    return _described_state(node) or _dynamo_state(node) or exported.get(node.name, "")


def exported_states(program: torch.export.ExportedProgram) -> dict[str, str]:
    """What every placeholder of an exported program stands for, by its signature; empty for the caller's inputs."""
    return {spec.arg.name: _EXPORTED.get(spec.kind, "") for spec in program.graph_signature.input_specs}


def captured_states(captured: CapturedGraph) -> dict[str, str]:
    """What every placeholder of a captured graph stands for; empty for inputs and sizes."""
    nodes = {node.name: node for node in captured.graph_module.graph.find_nodes(op="placeholder")}
    return {one.name: _only_state(one.kind) or _held_by_module(nodes[one.name]) for one in captured.inputs}


def count_states(nodes: Iterable[NodeDescription]) -> dict[str, int]:
    """How many nodes stand for each of `STATES`, in this order, and only for those of which there are some."""
    counts = Counter(node.state for node in nodes)
    return {one: counts[one] for one in STATES if counts[one]}


def states_in_words(counts: Mapping[str, int]) -> str:
    """Counts of states as text, such as `4 parameters, 3 buffers and 1 constant`."""
    texts = [f"{count} {one}{'' if count == 1 else 's'}" for one, count in counts.items()]
    return " and ".join(filter(None, (", ".join(texts[:-1]), *texts[-1:])))


def _describe_node(node: fx.Node, state: str) -> NodeDescription:
    shape, dtype = shape_and_dtype(_value(node))
    kind = KINDS[node.op]
    if state:
        kind = state if node.op == "placeholder" else f"get_attr {state}"
    if node.op == "output":
        shape = dtype = ""
    return NodeDescription(
        name=node.name,
        kind=kind,
        operation=_operation(node, state),
        arguments=_arguments(node),
        shape=shape,
        dtype=dtype,
        state=state,
        inputs=tuple(source.name for source in node.all_input_nodes),
    )


def _operation(node: fx.Node, state: str) -> str:
    if node.op in ("placeholder", "output"):
        return state or KINDS[node.op]
    if node.op == "get_attr":
        return f"{state or KINDS[node.op]}:{node.target}"
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


def _held_state(node: fx.Node) -> str:
    value = _attribute(node)
    if isinstance(value, torch.nn.Parameter):
        return "parameter"
    if isinstance(value, torch.ScriptObject):
        return "object"
    if not isinstance(value, torch.Tensor):
        return ""
    *path, last = str(node.target).split(".")
    owner: Any = node.graph.owning_module
    for part in path:
        owner = getattr(owner, part, None)
    registered = isinstance(owner, torch.nn.Module) and last in owner._buffers
    return "buffer" if registered and not _MADE.fullmatch(last) else "constant"


def _described_state(node: fx.Node) -> str:
    """What AOTAutograd's own description (`node.meta["desc"]`) says of a placeholder, or of what it is a part of."""
    description = node.meta.get("desc")
    for word, question in (("parameter", "is_param"), ("buffer", "is_buffer")):
        if getattr(description, question, bool)():
            return word
    return ""


def _dynamo_state(node: fx.Node) -> str:
    """What Dynamo says of a placeholder: by its class, by where it was found, or in a copied graph by its name."""
    if isinstance(_value(node), torch.nn.Parameter):
        return "parameter"
    if hasattr(node, "_dynamo_source"):
        return _held_by_module(node)
    found = _DYNAMO_STATE.match(str(node.target))
    if found is None:
        return ""
    # Dynamo's own example of a parameter would have been one: `L_my_parameters_w_` may be an argument, too.
    if found[1] == "parameters" and isinstance(node.meta.get("example_value"), torch.Tensor):
        return ""
    return found[1].removesuffix("s")


def _held_by_module(node: fx.Node) -> str:
    """What a module holds the tensor as, by Dynamo's note on its placeholder of where it was found; empty without one.

    Unlike a name, the note tells a buffer from an argument called `my_buffers_x`. A copied graph has lost it.
    """
    from torch._dynamo.source import NNModuleSource  # whoever has such a note has imported Dynamo; others wait for it

    place = source = getattr(node, "_dynamo_source", None)
    while place is not None and not isinstance(place, NNModuleSource):
        place = getattr(place, "base", None)
    if place is None or not isinstance(node.meta.get("example_value"), torch.Tensor):
        return ""
    return _DYNAMO_DICTIONARIES.get(getattr(getattr(source, "base", None), "member", ""), "constant")


def _exported_names(graph: fx.Graph) -> dict[str, str]:
    """What the placeholders of an exported graph without its signature stand for, as far as their names tell."""
    # A graph that flattens its arguments has its state in the module: `ExportedProgram.module()`.
    if isinstance(graph._codegen, _PyTreeCodeGen):
        return {}
    if not any(isinstance(node.target, torch._ops.OpOverload) for node in graph.nodes):
        return {}
    found: dict[str, str] = {}
    reached = 0
    for node in graph.find_nodes(op="placeholder"):
        prefix = next((one for one in _EXPORT_PREFIXES if node.name.startswith(one)), None)
        rank, word = _EXPORT_PREFIXES[prefix] if prefix else (-1, "")
        if rank < reached:
            break
        reached, found[node.name] = rank, word
    return found


def _only_state(kind: str) -> str:
    return kind if kind in STATES else ""


def readable_parameter_name(name: str) -> str:
    """The path of a parameter within its model, from the name that Dynamo gave its placeholder.

    `l_self_modules_layers_modules_0_parameters_weight_` becomes `layers.0.weight`; other names stay.
    """
    if not _DYNAMO_STATE.match(name):
        return name
    path = re.sub(r"^[lLgG]_.*?_(?=modules_|parameters_|buffers_)", "_", name).strip("_")
    return re.sub(r"_(?:modules|parameters|buffers)_", ".", f"_{path}").lstrip("._")
