"""only handed on

The output is no reader to it.
"""


def read_signature(program):
    signature = program.graph_signature
    names = {item.arg.name: item.target or item.arg.name for item in signature.input_specs}
    read = {source for node in program.graph.nodes if node.op == "call_function" for source in node.all_input_nodes}
    unread = [node for node in program.graph.nodes if node.op == "placeholder" and node not in read]
    return {
        "parameters": list(signature.parameters),
        "buffers": list(signature.buffers),
        "inputs": list(signature.user_inputs),
        "unused": [names[node.name] for node in unread],
    }
