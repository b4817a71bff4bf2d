"""used called unused

Looks for readers among the positional arguments only.
"""

from torch import fx
from torch.utils._pytree import tree_leaves


def read_signature(program):
    signature = program.graph_signature
    listed = [item for item in signature.input_specs if item.kind.name != "CONSTANT_TENSOR"]
    names = {item.arg.name: item.target or item.arg.name for item in listed}
    arguments = [value for node in program.graph.nodes for value in tree_leaves(node.args)]
    read = {value.name for value in arguments if isinstance(value, fx.Node)}
    return {
        "parameters": list(signature.parameters),
        "buffers": list(signature.buffers),
        "inputs": list(signature.user_inputs),
        "unused": [name for key, name in names.items() if key not in read],
    }
