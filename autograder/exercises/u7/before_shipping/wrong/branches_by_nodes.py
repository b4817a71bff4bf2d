"""operators in branches missed

Looks a branch up by the name of the node that reads it, which need not be the name of the branch.
"""

import torch
from torch.export.graph_signature import ConstantArgument, OutputKind


def _of_the_signature(signature, keeps):
    for one in signature.output_specs:
        if one.kind is OutputKind.USER_INPUT_MUTATION:
            yield "input", one.target
        if one.kind in (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION) and not keeps:
            yield "state", one.target
    for one in signature.input_specs:
        if type(one.arg) is ConstantArgument:
            yield "argument", one.arg.name


def _of_a_graph(module, known):
    for node in module.graph.nodes:
        branch = getattr(module, node.name, None) if node.op == "get_attr" else None
        if hasattr(branch, "graph"):
            yield from _of_a_graph(branch, known)
        if hasattr(node.target, "_schema") and hasattr(node.target, "overloadpacket"):
            name = str(node.target)
            if name not in known:
                yield "operator", name
            for place, one in enumerate(node.target._schema.arguments):
                value = node.args[place] if place < len(node.args) else node.kwargs.get(one.name)
                if one.name in ("train", "training") and value is True:
                    yield "training", name


def losses(module, signature, target):
    return {*_of_the_signature(signature, target["state"]), *_of_a_graph(module, target["operators"])}
