"""reader that nobody reads

Removes dead code before it looks for readers.
"""


def read_signature(program):
    program.graph.eliminate_dead_code()
    signature = program.graph_signature
    listed = [item for item in signature.input_specs if item.kind.name != "CONSTANT_TENSOR"]
    names = {item.arg.name: item.target or item.arg.name for item in listed}
    unread = [node for node in program.graph.nodes if node.name in names and not node.users]
    return {
        "parameters": list(signature.parameters),
        "buffers": list(signature.buffers),
        "inputs": list(signature.user_inputs),
        "unused": [names[node.name] for node in unread],
    }
