"""not the four lists

Lists the nodes instead of their names.
"""


def read_signature(program):
    signature = program.graph_signature
    listed = [item for item in signature.input_specs if item.kind.name != "CONSTANT_TENSOR"]
    names = {item.arg.name: item.target or item.arg.name for item in listed}
    return {
        "parameters": list(signature.parameters),
        "buffers": list(signature.buffers),
        "inputs": [node for node in program.graph.nodes if node.name in signature.user_inputs],
        "unused": [names[node.name] for node in program.graph.nodes if node.name in names and not node.users],
    }
