"""program changed

Takes the unused inputs out of the graph on the way.
"""


def read_signature(program):
    signature = program.graph_signature
    listed = [item for item in signature.input_specs if item.kind.name != "CONSTANT_TENSOR"]
    names = {item.arg.name: item.target or item.arg.name for item in listed}
    unused = []
    for node in program.graph.find_nodes(op="placeholder"):
        if not node.users:
            if node.name in names:
                unused.append(names[node.name])
            program.graph.erase_node(node)
    return {
        "parameters": list(signature.parameters),
        "buffers": list(signature.buffers),
        "inputs": list(signature.user_inputs),
        "unused": unused,
    }
