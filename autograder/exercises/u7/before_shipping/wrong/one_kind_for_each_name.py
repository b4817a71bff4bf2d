"""one loss for each name

Keeps one kind for each name of a value.
"""

import torch
from torch import fx
from torch.export.graph_signature import ConstantArgument


def losses(module: fx.GraphModule, signature, target: dict) -> list[tuple[str, str]]:
    """What the target would lose of a program."""
    kinds = {name: "input" for name in signature.user_inputs_to_mutate.values()}
    if not target["state"]:
        kinds |= {name: "state" for name in signature.buffers_to_mutate.values()}
        kinds |= {name: "state" for name in signature.parameters_to_mutate.values()}
    kinds |= {one.arg.name: "argument" for one in signature.input_specs if isinstance(one.arg, ConstantArgument)}
    found = {(kind, name) for name, kind in kinds.items()}
    graphs = [part.graph for part in module.modules() if isinstance(part, fx.GraphModule)]
    for node in (node for graph in graphs for node in graph.nodes):
        if not isinstance(node.target, torch._ops.OpOverload):
            continue
        if str(node.target) not in target["operators"]:
            found.add(("operator", str(node.target)))
        named = zip((argument.name for argument in node.target._schema.arguments), node.args, strict=False)
        given = {**dict(named), **node.kwargs}
        if given.get("train") is True or given.get("training") is True:
            found.add(("training", str(node.target)))
    return sorted(found)
