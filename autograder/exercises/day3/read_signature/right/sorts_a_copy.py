"""Changes as it likes what is a copy: the program that was handed in stays as it is."""

import copy

from torch.export.graph_signature import InputKind

KINDS = {InputKind.PARAMETER: "parameters", InputKind.BUFFER: "buffers", InputKind.USER_INPUT: "inputs"}


def read_signature(program):
    program.module()  # what runs is another module, and the program stays as it is
    graph, specs = copy.deepcopy(program.graph), sorted(program.graph_signature.input_specs, key=str)
    found = {"parameters": [], "buffers": [], "inputs": [], "unused": []}
    for node in graph.nodes:
        node.meta["read"] = bool(node.users)
    read = {node.name: node.meta["read"] for node in graph.nodes}
    for item in specs:
        if item.kind in KINDS:
            name = item.target or item.arg.name
            found[KINDS[item.kind]].append(name)
            if not read[item.arg.name]:
                found["unused"].append(name)
    return found
