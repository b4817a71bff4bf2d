"""reader that nobody reads

Counts as readers only nodes whose value is read in turn.
"""


def read_signature(program):
    signature = program.graph_signature
    listed = [item for item in signature.input_specs if item.kind.name != "CONSTANT_TENSOR"]
    names = {item.arg.name: item.target or item.arg.name for item in listed}
    placeholders = [node for node in program.graph.nodes if node.name in names]
    unread = [node for node in placeholders if not any(user.users or user.op == "output" for user in node.users)]
    return {
        "parameters": list(signature.parameters),
        "buffers": list(signature.buffers),
        "inputs": list(signature.user_inputs),
        "unused": [names[node.name] for node in unread],
    }
