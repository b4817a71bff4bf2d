"""Walks over the placeholders and looks each one up."""


def read_signature(program):
    signature = program.graph_signature
    found = {"parameters": [], "buffers": [], "inputs": [], "unused": []}
    for node in program.graph.find_nodes(op="placeholder"):
        if node.name in signature.inputs_to_parameters:
            kind, name = "parameters", signature.inputs_to_parameters[node.name]
        elif node.name in signature.inputs_to_buffers:
            kind, name = "buffers", signature.inputs_to_buffers[node.name]
        elif node.name in signature.user_inputs:
            kind, name = "inputs", node.name
        else:
            continue
        found[kind].append(name)
        if len(node.users) == 0:
            found["unused"].append(name)
    return found
