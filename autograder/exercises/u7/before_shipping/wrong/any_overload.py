"""another overload

Compares operators without their overload.
"""

import torch
from torch import fx
from torch.export.graph_signature import ConstantArgument


def losses(module, signature, target):
    found = []
    for name in signature.buffers_to_mutate.values():
        if not target["state"]:
            found.append(("state", name))
    for name in signature.parameters_to_mutate.values():
        if not target["state"]:
            found.append(("state", name))
    found += [("input", name) for name in signature.user_inputs_to_mutate.values()]
    found += [("argument", spec.arg.name) for spec in signature.input_specs if isinstance(spec.arg, ConstantArgument)]
    for graph in module.modules():
        if not isinstance(graph, fx.GraphModule):
            continue
        for node in graph.graph.nodes:
            if not isinstance(node.target, torch._ops.OpOverload):
                continue
            name = str(node.target)
            if name.rsplit(".", 1)[0] not in {o.rsplit(".", 1)[0] for o in target["operators"]}:
                found.append(("operator", name))
            given = {a.name: v for a, v in zip(node.target._schema.arguments, node.args)}
            given |= node.kwargs
            if given.get("train") is True or given.get("training") is True:
                found.append(("training", name))
    return list(dict.fromkeys(found))
