"""From plain data, which may come from a hostile process, to an fx graph."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch import fx, nn

from autograder.exchange.graph_form.format import (
    DEFAULT_LIMITS,
    ENCODED_VALUE,
    FORMAT,
    OPS,
    VERSION,
    EncodedGraph,
    GraphFormatError,
    Limits,
    attribute_path,
    entries,
    flag,
    identifier,
    is_identifier,
    listed,
    shown,
)
from autograder.exchange.graph_form.literals import LiteralDecoder
from autograder.exchange.graph_form.modules import build_module
from autograder.exchange.graph_form.origin import mark
from autograder.exchange.graph_form.signature import decode_signature
from autograder.exchange.graph_form.source import check_generated_code
from autograder.exchange.graph_form.targets import check_call, check_strides, decode_function, decode_method
from autograder.exchange.graph_form.tensors import TensorDecoder
from autograder.exchange.graph_form.values import decode_value

_NODE_KEYS = ("name", "op", "target", "args", "kwargs", "value")
_PLACEHOLDER = re.compile(r"\*{0,2}([^*].*)", re.DOTALL)


def decode(encoded: EncodedGraph, *, limits: Limits = DEFAULT_LIMITS, ours: bool = False) -> fx.GraphModule:
    """The graph that `encoded` describes, as a new module on the CPU; `encoded` is not changed.

    Nothing in the document is imported, evaluated or taken for code. `torch.fx` generates Python code from the
    names and arguments of a graph, so all of these are checked before. A decoded graph can only compute, but it can
    compute for long, in much memory (`torch.zeros(10**12)`), or until a kernel crashes: `ask` and `run` put it into a
    process of its own where one is there for that. `run` also undoes what a graph leaves behind in the process.

    Args:
        encoded: what `encode` gave, or what claims to be that.
        limits: sizes above which it is refused.
        ours: whether the graph is our own, and may be executed where learners' graphs may not; see `origin`.

    Raises:
        GraphFormatError: `encoded` is no well-formed graph; the message names the entry and what was expected.
    """
    document = entries(encoded.document, ("format", "version", "tensors", "modules"), "document")
    if document["format"] != FORMAT or type(document["version"]) is not int or document["version"] != VERSION:
        raise GraphFormatError(
            f"document: expected the format {FORMAT!r} in version {VERSION}, "
            f"got {shown(document['format'])} in version {shown(document['version'])}"
        )
    return _Decoder(encoded, limits, ours).build()


class _Decoder:
    """Rebuilds the modules of one document in order; each may use only those before it."""

    def __init__(self, encoded: EncodedGraph, limits: Limits, ours: bool) -> None:
        self._limits = limits
        self._ours = ours
        self._rows = listed(encoded.document["modules"], limits.modules, "modules")
        self._tensors = TensorDecoder(encoded.document["tensors"], encoded.tensors, limits)
        self._literals = LiteralDecoder(limits)
        self._modules: list[nn.Module] = []
        self._depths: list[int] = []
        self._nodes_left = limits.nodes
        self._attributes_left = limits.attributes

    def build(self) -> fx.GraphModule:
        for index, row in enumerate(self._rows):
            where = f"modules[{index}]"
            kind = row.get("kind") if type(row) is dict else None
            if kind == "graph":
                module: nn.Module = self._graph(row, where)
            elif kind == "module":
                module = self._leaf(row, where)
                self._depths.append(0)
            else:
                raise GraphFormatError(f"{where}: expected an object of kind 'graph' or 'module', got {shown(row)}")
            self._modules.append(module)
        if not self._modules or not isinstance(self._modules[-1], fx.GraphModule):
            raise GraphFormatError("modules: the last entry has to be a graph")
        return self._modules[-1]

    def _leaf(self, row: dict[str, Any], where: str) -> nn.Module:
        entries(row, ("kind", "class", "training", "arguments", "state"), where)
        arguments = row["arguments"]
        if type(arguments) is not dict:
            raise GraphFormatError(f"{where}: arguments: expected an object, got {shown(arguments)}")
        values = {key: self._literals.decode(value, {}, f"{where}: {shown(key)}") for key, value in arguments.items()}
        state: dict[str, torch.Tensor] = {}
        for item in self._attributes(row["state"], f"{where}: state"):
            entries(item, ("path", "tensor"), f"{where}: state")
            path = ".".join(attribute_path(item["path"], self._limits, f"{where}: state"))
            if path in state:
                raise GraphFormatError(f"{where}: state: {path!r} twice")
            state[path] = self._tensors.get(item["tensor"], f"{where}: state: {path}")
        module = build_module(row["class"], values, set(state), where)
        for path, tensor in state.items():
            owner_path, _, name = path.rpartition(".")
            owner = module.get_submodule(owner_path)
            if (name in owner._parameters) != isinstance(tensor, nn.Parameter):
                raise GraphFormatError(
                    f"{where}: state: {path!r} is a parameter in one place and a buffer in the other"
                )
            setattr(owner, name, tensor)
        return module.train(flag(row["training"], f"{where}: training"))

    def _attributes(self, value: Any, where: str) -> list[Any]:
        rows = listed(value, self._attributes_left, where)
        self._attributes_left -= len(rows)
        return rows

    def _graph(self, row: dict[str, Any], where: str) -> fx.GraphModule:
        entries(row, ("kind", "training", "signature", "attributes", "nodes"), where)
        module = fx.GraphModule(nn.Module(), fx.Graph())
        containers = {id(module)}
        depth = 0
        # Modules first: a tensor may lie within one.
        for item in sorted(self._attributes(row["attributes"], where), key=_is_tensor):
            depth = max(depth, self._attach(module, item, containers, where))
        if depth > self._limits.module_depth:
            raise GraphFormatError(f"{where}: graphs nested more than {self._limits.module_depth} deep")
        self._depths.append(depth)
        graph = fx.Graph()
        rows = listed(row["nodes"], self._nodes_left, f"{where}: nodes")
        self._nodes_left -= len(rows)
        self._fill(graph, rows, module, where)
        nodes = list(graph.nodes)
        result = nodes[-1].args[0]
        graph.set_codegen(
            decode_signature(
                row["signature"],
                sum(node.op == "placeholder" for node in nodes),
                len(result) if isinstance(result, (list, tuple)) else 1,
                self._limits,
                f"{where}: signature",
            )
        )
        if row["signature"] is not None and any(node.op == "placeholder" and node.args for node in nodes):
            # torch.fx cuts such a default off at its first colon, even inside a string, and what follows becomes code.
            raise GraphFormatError(f"{where}: a graph with a signature has no placeholders with default values")
        training = flag(row["training"], f"{where}: training")
        if not self._ours:
            mark(graph)
        try:
            check_generated_code(graph, where)
            module.graph = graph  # generates and compiles the code of its forward
        except GraphFormatError:
            raise
        except Exception as error:  # the generator fails in many ways on a call such as `add` with one argument
            raise GraphFormatError(f"{where}: torch.fx cannot make a program of this graph: {error}") from error
        module.training = training
        return module

    def _attach(self, root: fx.GraphModule, item: Any, containers: set[int], where: str) -> int:
        """Put one attribute into its place; gives the depth that it adds."""
        keys = ("path", "tensor", "buffer") if _is_tensor(item) else ("path", "module")
        entries(item, keys, f"{where}: attributes")
        parts = attribute_path(item["path"], self._limits, f"{where}: attributes")
        at = f"{where}: attribute {item['path']!r}"
        owner: nn.Module = root
        for part in parts[:-1]:
            following = owner._modules.get(part)
            if following is None and id(owner) in containers and not hasattr(owner, part):
                following = nn.Module()
                containers.add(id(following))
                owner.add_module(part, following)
            if following is None:
                raise GraphFormatError(f"{at}: {part!r} is no module that can hold it")
            owner = following
        name = parts[-1]
        if "tensor" in item:
            self._attach_tensor(owner, name, item, id(owner) in containers, at)
            return 0
        index = item["module"]
        if type(index) is not int or not 0 <= index < len(self._modules):
            raise GraphFormatError(f"{at}: {shown(index)} is no index of a module before this one")
        if id(owner) not in containers or hasattr(owner, name):
            raise GraphFormatError(f"{at}: the place is taken")
        owner.add_module(name, self._modules[index])
        return self._depths[index] + 1

    def _attach_tensor(self, owner: nn.Module, name: str, item: dict[str, Any], is_container: bool, at: str) -> None:
        tensor = self._tensors.get(item["tensor"], at)
        kind = item["buffer"]
        if kind is not None and kind not in ("persistent", "temporary"):
            raise GraphFormatError(f"{at}: expected 'persistent', 'temporary' or null for buffer, got {shown(kind)}")
        if not is_container and getattr(owner, name, None) is tensor:
            return
        if not is_container or hasattr(owner, name):
            raise GraphFormatError(f"{at}: the place is taken")
        if kind is not None and isinstance(tensor, nn.Parameter):
            raise GraphFormatError(f"{at}: both a parameter and a buffer")
        if kind is None:
            setattr(owner, name, tensor)
        else:
            owner.register_buffer(name, tensor, persistent=kind == "persistent")

    def _fill(self, graph: fx.Graph, rows: list[Any], module: fx.GraphModule, where: str) -> None:
        nodes: dict[str, fx.Node] = {}
        arguments: set[str] = set()
        for index, row in enumerate(rows):
            entries(row, _NODE_KEYS, f"{where}: nodes[{index}]")
            name = identifier(row["name"], self._limits, f"{where}: nodes[{index}]")
            at = f"{where}: node {name!r}"
            if name in nodes:
                raise GraphFormatError(f"{at}: two nodes of this name")
            op = row["op"]
            if op not in OPS:
                raise GraphFormatError(f"{at}: {shown(op)} is no op; expected one of {', '.join(OPS)}")
            if (op == "output") != (index == len(rows) - 1):
                raise GraphFormatError(f"{at}: a graph ends with its output node and has only one")
            target = self._target(row, op, module, at)
            if op == "placeholder":
                bare = target.lstrip("*")
                if bare in arguments:
                    raise GraphFormatError(f"{at}: two placeholders for {bare!r}")
                arguments.add(bare)
            args = tuple(self._literals.decode(a, nodes, at) for a in listed(row["args"], self._limits.literals, at))
            kwargs = self._keywords(row["kwargs"], nodes, at)
            self._check_arguments(op, target, args, kwargs, at)
            node = graph.create_node(op, target, args, kwargs, name=name)
            # torch.fx renames nodes that share a name with a builtin; torch.export makes such nodes in the same way.
            node.name = name
            value = decode_value(row["value"], self._limits, at)
            if value is not None:
                node.meta[ENCODED_VALUE] = value
            nodes[name] = node
        if not rows:
            raise GraphFormatError(f"{where}: a graph without an output node")
        for node in nodes.values():
            # In generated code the argument and the node would be one variable.
            if node.name in arguments and not (node.op == "placeholder" and str(node.target).lstrip("*") == node.name):
                raise GraphFormatError(f"{where}: node {node.name!r}: has the name of another placeholder's argument")

    def _target(self, row: dict[str, Any], op: str, module: fx.GraphModule, at: str) -> Any:
        target = row["target"]
        if op == "call_function":
            return decode_function(target, at)
        if op == "call_method":
            return decode_method(target, at)
        if op in ("get_attr", "call_module"):
            found: Any = module
            for part in attribute_path(target, self._limits, at):
                found = _held(found, part)
            expected = (torch.Tensor, fx.GraphModule) if op == "get_attr" else nn.Module
            if not isinstance(found, expected) or found is module:
                raise GraphFormatError(f"{at}: the graph has no attribute {shown(target)} that this node could use")
            return target
        if op == "placeholder":
            match = _PLACEHOLDER.fullmatch(target) if type(target) is str else None
            if match is None or not is_identifier(match.group(1), self._limits):
                raise GraphFormatError(f"{at}: {shown(target)} is no name of an argument")
            identifier(match.group(1), self._limits, at)
            return target
        if target != "output":
            raise GraphFormatError(f"{at}: the target of an output node is 'output', got {shown(target)}")
        return target

    def _keywords(self, value: Any, nodes: dict[str, fx.Node], at: str) -> dict[str, Any]:
        if type(value) is not dict:
            raise GraphFormatError(f"{at}: kwargs: expected an object, got {shown(value)}")
        for key in value:
            if not is_identifier(key, self._limits):
                raise GraphFormatError(f"{at}: {shown(key)} is no name of a keyword argument")
        return {key: self._literals.decode(item, nodes, at) for key, item in value.items()}

    def _check_arguments(self, op: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], at: str) -> None:
        if op == "output" and (len(args) != 1 or kwargs):
            raise GraphFormatError(f"{at}: an output node has one argument")
        if op == "get_attr" and (args or kwargs):
            raise GraphFormatError(f"{at}: a get_attr node has no arguments")
        if op == "placeholder" and (len(args) > 1 or kwargs or any(isinstance(a, fx.Node) for a in args)):
            raise GraphFormatError(f"{at}: a placeholder has at most a default value")
        if op == "call_method" and not (args and isinstance(args[0], fx.Node)):
            raise GraphFormatError(f"{at}: the first argument of a method is the node that it is called on")
        if op == "call_method":
            check_strides(target, args, kwargs, at)
        if op == "call_function":
            check_call(target, args, kwargs, at)


def _is_tensor(item: Any) -> bool:
    return not (type(item) is dict and "module" in item)


def _held(owner: Any, name: str) -> Any:
    """The parameter, buffer, tensor or submodule `name` of a module: never a method or a property."""
    if not isinstance(owner, nn.Module):
        return None
    for place in (owner._parameters, owner._buffers, owner._modules, vars(owner)):
        if name in place:
            return place[name]
    return None
