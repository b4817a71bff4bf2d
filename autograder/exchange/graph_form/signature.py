"""How a graph packs its inputs and outputs: the pytree structure of its arguments, builtin containers only."""

from __future__ import annotations

from typing import Any

import torch.utils._pytree as pytree
from torch import fx
from torch.fx.graph import CodeGen, _PyTreeCodeGen, _PyTreeInfo

from autograder.exchange.graph_form.format import GraphFormatError, Limits, entries, identifier, listed, shown

_CONTAINERS: dict[str, Any] = {"list": list, "tuple": tuple, "dict": dict}


def encode_signature(graph: fx.Graph, where: str) -> dict[str, Any] | None:
    """Names of the arguments and the structure of inputs and outputs; `None` for a graph without a structure.

    Raises:
        GraphFormatError: inputs or outputs are held in something else than lists, tuples and dictionaries.
    """
    codegen = graph._codegen
    if not isinstance(codegen, _PyTreeCodeGen):
        # A graph that `capture` gave checks its calls besides; that stays behind.
        if type(codegen) is not CodeGen and not getattr(codegen, "generates_plain_code", False):
            raise GraphFormatError(
                f"{where}: the graph generates its code in a way of its own, which cannot be encoded"
            )
        return None
    info = codegen.pytree_info
    return {
        "arguments": list(info.orig_args),
        "inputs": _encode(info.in_spec, f"{where}: inputs"),
        "outputs": None if info.out_spec is None else _encode(info.out_spec, f"{where}: outputs"),
    }


def _encode(spec: pytree.TreeSpec, where: str) -> Any:
    if spec.is_leaf():
        return "leaf"
    name = next((name for name, container in _CONTAINERS.items() if spec.type is container), None)
    if name is None:
        raise GraphFormatError(
            f"{where}: held in a {spec.type.__name__}, which cannot be encoded; expected tuples, lists and "
            "dictionaries. Return a tuple, or take ExportedProgram.graph_module, whose signature is flat"
        )
    children = [_encode(spec.child(i), where) for i in range(spec.num_children)]
    if name == "dict":
        if any(type(key) not in (str, int) for key in spec.context):
            raise GraphFormatError(f"{where}: a dictionary with keys that are neither strings nor integers")
        return {"dict": [[key, child] for key, child in zip(spec.context, children, strict=True)]}
    return {name: children}


def decode_signature(signature: Any, placeholders: int, outputs: int, limits: Limits, where: str) -> CodeGen:
    """The generator of code that packs inputs and outputs in the way that `signature` says.

    Args:
        signature: what `encode_signature` gave, unchecked.
        placeholders: how many placeholders the graph has.
        outputs: how many values its output node returns, when it returns a sequence; else 1.
        limits: for names and nesting.
        where: what to name in messages.

    Raises:
        GraphFormatError: it has another form, or another number of leaves than the graph has inputs or outputs.
    """
    if signature is None:
        return CodeGen()
    entries(signature, ("arguments", "inputs", "outputs"), where)
    names = [
        identifier(name, limits, f"{where}: arguments") if name != "self" else name
        for name in listed(signature["arguments"], limits.nodes, f"{where}: arguments")
    ]
    if len(set(names)) != len(names):
        raise GraphFormatError(f"{where}: two arguments of one name")
    inputs = pytree.tree_structure(_decode(signature["inputs"], limits, f"{where}: inputs", 0))
    outs = None
    if signature["outputs"] is not None:
        outs = pytree.tree_structure(_decode(signature["outputs"], limits, f"{where}: outputs", 0))
    if inputs.num_leaves != placeholders or (outs is not None and outs.num_leaves != outputs):
        raise GraphFormatError(f"{where}: does not fit the {placeholders} inputs and {outputs} outputs of the graph")
    return _PyTreeCodeGen(_PyTreeInfo(names, inputs, outs))


def _decode(structure: Any, limits: Limits, where: str, depth: int) -> Any:
    """Lists, tuples and dictionaries as `structure` says, with 0 in the place of each leaf."""
    if depth > limits.nesting:
        raise GraphFormatError(f"{where}: nested more than {limits.nesting} deep")
    if structure == "leaf":
        return 0
    if type(structure) is dict and len(structure) == 1:
        ((name, content),) = structure.items()
        if name in ("list", "tuple"):
            return _CONTAINERS[name](
                _decode(child, limits, where, depth + 1) for child in listed(content, limits.nodes, where)
            )
        if name == "dict":
            items = {}
            for pair in listed(content, limits.nodes, where):
                if type(pair) is not list or len(pair) != 2 or type(pair[0]) not in (str, int) or pair[0] in items:
                    raise GraphFormatError(
                        f"{where}: 'dict' holds pairs of a new key and a structure, got {shown(pair)}"
                    )
                items[pair[0]] = _decode(pair[1], limits, where, depth + 1)
            return items
    raise GraphFormatError(f"{where}: {shown(structure)} is no structure; expected 'leaf', list, tuple or dict")
