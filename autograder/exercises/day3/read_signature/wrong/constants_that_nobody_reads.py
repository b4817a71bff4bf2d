"""listed a constant

Keeps constants out of three lists, and calls one unused that nobody reads.
"""


def read_signature(program):
    signature = program.graph_signature
    names = {item.arg.name: item.target or item.arg.name for item in signature.input_specs}
    return {
        "parameters": list(signature.parameters),
        "buffers": list(signature.buffers),
        "inputs": list(signature.user_inputs),
        "unused": [names[node.name] for node in program.graph.nodes if node.name in names and not node.users],
    }
