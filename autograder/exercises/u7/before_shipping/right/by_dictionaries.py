"""Keeps an order, by a dictionary without values."""

import torch
from torch import fx
from torch.export.graph_signature import ConstantArgument


def losses(module: fx.GraphModule, signature, target: dict) -> list[tuple[str, str]]:
    """What the target would lose of a program."""
    found = {("input", name) for name in signature.user_inputs_to_mutate.values()}
    found |= {("argument", one.arg.name) for one in signature.input_specs if isinstance(one.arg, ConstantArgument)}
    if not target["state"]:
        found |= {("state", name) for name in signature.buffers_to_mutate.values()}
        found |= {("state", name) for name in signature.parameters_to_mutate.values()}
    graphs = [part.graph for _, part in module.named_modules() if hasattr(part, "graph")]
    for node in (node for graph in graphs for node in graph.nodes):
        if not hasattr(node.target, "_overloadname"):
            continue
        if str(node.target) not in target["operators"]:
            found.add(("operator", str(node.target)))
        named = zip((argument.name for argument in node.target._schema.arguments), node.args, strict=False)
        given = {**dict(named), **node.kwargs}
        if given.get("train") is True or given.get("training") is True:
            found.add(("training", str(node.target)))
    return list(dict.fromkeys(found))
