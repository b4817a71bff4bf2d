"""buffer missed

Asks the state_dict of the program.
"""


def read_signature(program):
    signature = program.graph_signature
    state = program.state_dict
    unused = {node.name for node in program.graph.nodes if node.op == "placeholder" and not node.users}
    return {
        "parameters": [name for name, value in state.items() if isinstance(value, nn.Parameter)],
        "buffers": [name for name, value in state.items() if not isinstance(value, nn.Parameter)],
        "inputs": list(signature.user_inputs),
        "unused": [item.target or item.arg.name for item in signature.input_specs if item.arg.name in unused],
    }
