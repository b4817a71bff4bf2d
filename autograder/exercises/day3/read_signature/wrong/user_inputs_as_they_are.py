"""value of a number

Takes the ready-made list of what the user hands in, in which a number has no name.
"""


def read_signature(program):
    signature = program.graph_signature
    names = {item.arg.name: item.target or item.arg.name for item in signature.input_specs}
    listed = {*signature.parameters, *signature.buffers, *signature.user_inputs}
    placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
    return {
        "parameters": list(signature.parameters),
        "buffers": list(signature.buffers),
        "inputs": list(signature.user_inputs),
        "unused": [names[node.name] for node in placeholders if not node.users and names[node.name] in listed],
    }
