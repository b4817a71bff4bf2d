"""not True

Takes the position of the flag for granted: the third argument of any operator that is True.
"""

import torch
from torch import fx
from torch.export.graph_signature import ConstantArgument


def nodes_of(module):
    """The nodes of a graph module and of all branches, found where cond names them."""
    for node in module.graph.nodes:
        yield node
        for one in node.all_input_nodes if node.op == "call_function" else ():
            if one.op == "get_attr":
                inner = (
                    module.get_submodule(one.target)
                    if "." not in one.target
                    and hasattr(module, one.target)
                    and isinstance(getattr(module, one.target), fx.GraphModule)
                    else None
                )
                if inner is not None:
                    yield from nodes_of(inner)


def losses(module, signature, target):
    found = []
    if not target["state"]:
        for table in (signature.buffers_to_mutate, signature.parameters_to_mutate):
            found += [("state", name) for name in table.values()]
    found += [("input", name) for name in signature.user_inputs_to_mutate.values()]
    for spec in signature.input_specs:
        if isinstance(spec.arg, ConstantArgument):
            found.append(("argument", spec.arg.name))
    for node in nodes_of(module):
        if not isinstance(node.target, torch._ops.OpOverload):
            continue
        name = str(node.target)
        if name not in target["operators"]:
            found.append(("operator", name))
        given = {argument.name: value for argument, value in zip(node.target._schema.arguments, node.args)} | dict(
            node.kwargs
        )
        if any(given.get(key) is True for key in ("train", "training")) or (
            len(node.args) > 2 and node.args[2] is True
        ):
            found.append(("training", name))
    return list(dict.fromkeys(found))
