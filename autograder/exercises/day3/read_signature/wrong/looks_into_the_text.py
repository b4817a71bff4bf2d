"""unused missed

Looks for the name in the text of the graph, where another name contains it.
"""


def read_signature(program):
    signature = program.graph_signature
    lists = {
        "parameters": list(signature.parameters),
        "buffers": list(signature.buffers),
        "inputs": list(signature.user_inputs),
    }
    text = "\n".join(str(node.args) + str(node.kwargs) for node in program.graph.nodes if node.op != "placeholder")
    lists["unused"] = []
    for item in signature.input_specs:
        if item.kind.name in ("PARAMETER", "BUFFER", "USER_INPUT") and item.arg.name not in text:
            lists["unused"].append(item.arg.name if item.kind.name == "USER_INPUT" else item.target)
    return lists
