"""used called unused

Looks at arguments, and not at what is in a list among them.
"""

from torch import fx


def read_signature(program):
    signature = program.graph_signature
    arguments = {
        value for node in program.graph.nodes for value in (*node.args, *node.kwargs.values()) if type(value) is fx.Node
    }
    arguments |= set(program.graph.output_node().all_input_nodes)
    names = {item.arg.name: item.target or item.arg.name for item in signature.input_specs}
    found = [node for node in program.graph.nodes if node.name in names and "CONSTANT" not in kind_of(signature, node)]
    return {
        "parameters": list(signature.parameters),
        "buffers": list(signature.buffers),
        "inputs": list(signature.user_inputs),
        "unused": [names[node.name] for node in found if node not in arguments],
    }


def kind_of(signature, node):
    return next(item.kind.name for item in signature.input_specs if item.arg.name == node.name)
