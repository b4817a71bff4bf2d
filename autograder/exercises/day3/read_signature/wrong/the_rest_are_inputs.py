"""listed a constant

Takes for an input whatever is neither parameter nor buffer.
"""


def read_signature(program):
    signature = program.graph_signature
    found = {"parameters": [], "buffers": [], "inputs": [], "unused": []}
    for node in program.graph.find_nodes(op="placeholder"):
        if node.name in signature.inputs_to_parameters:
            kind, name = "parameters", signature.inputs_to_parameters[node.name]
        elif node.name in signature.inputs_to_buffers:
            kind, name = "buffers", signature.inputs_to_buffers[node.name]
        else:
            kind, name = "inputs", node.name
        found[kind].append(name)
        if len(node.users) == 0:
            found["unused"].append(name)
    return found
