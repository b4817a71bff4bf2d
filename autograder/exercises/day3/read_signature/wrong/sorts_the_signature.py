"""program changed

Sorts the inputs in the signature itself, and not in a list of its own.
"""

from torch.export.graph_signature import InputKind

KINDS = {InputKind.PARAMETER: "parameters", InputKind.BUFFER: "buffers", InputKind.USER_INPUT: "inputs"}


def read_signature(program):
    users = {node.name: node.users for node in program.graph.nodes}
    found = {"parameters": [], "buffers": [], "inputs": [], "unused": []}
    specs = program.graph_signature.input_specs
    specs.sort(key=lambda item: str(item.target or item.arg.name), reverse=True)
    for item in specs:
        if item.kind not in KINDS:
            continue
        name = item.target or item.arg.name
        found[KINDS[item.kind]].append(name)
        if not users[item.arg.name]:
            found["unused"].append(name)
    return found
