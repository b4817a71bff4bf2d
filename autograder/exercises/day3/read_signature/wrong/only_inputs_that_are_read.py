"""inputs missed

Leaves out what is not read.
"""


def read_signature(program):
    signature = program.graph_signature
    unused = {node.name for node in program.graph.nodes if node.op == "placeholder" and not node.users}
    return {
        "parameters": list(signature.parameters),
        "buffers": list(signature.buffers),
        "inputs": [name for name in signature.user_inputs if name not in unused],
        "unused": [item.target or item.arg.name for item in signature.input_specs if item.arg.name in unused],
    }
