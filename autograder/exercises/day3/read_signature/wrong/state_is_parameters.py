"""buffers among parameters

Takes the whole state for parameters.
"""


def read_signature(program):
    signature = program.graph_signature
    unused = {node.name for node in program.graph.nodes if node.op == "placeholder" and not node.users}
    return {
        "parameters": [item.target for item in signature.input_specs if item.target],
        "buffers": list(signature.buffers),
        "inputs": list(signature.user_inputs),
        "unused": [item.target or item.arg.name for item in signature.input_specs if item.arg.name in unused],
    }
