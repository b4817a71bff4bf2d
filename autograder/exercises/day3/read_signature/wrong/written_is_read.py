"""written taken for read

Takes a buffer that the program overwrites for one that it reads.
"""


def read_signature(program):
    signature = program.graph_signature
    listed = [item for item in signature.input_specs if item.kind.name != "CONSTANT_TENSOR"]
    names = {item.arg.name: item.target or item.arg.name for item in listed}
    placeholders = [node for node in program.graph.nodes if node.name in names]
    written = signature.buffers_to_mutate.values()
    unread = [node for node in placeholders if not node.users and names[node.name] not in written]
    return {
        "parameters": list(signature.parameters),
        "buffers": list(signature.buffers),
        "inputs": list(signature.user_inputs),
        "unused": [names[node.name] for node in unread],
    }
