"""unused missed

Notes the names that are read: an input and a buffer of one name are one.
"""

from torch.export.graph_signature import InputKind


def read_signature(program):
    lists = {"parameters": [], "buffers": [], "inputs": [], "unused": []}
    names, read = [], set()
    items = {item.arg.name: item for item in program.graph_signature.input_specs}
    for node in program.graph.find_nodes(op="placeholder"):
        item = items[node.name]
        kind = {InputKind.PARAMETER: "parameters", InputKind.BUFFER: "buffers", InputKind.USER_INPUT: "inputs"}.get(
            item.kind
        )
        if kind is None:
            continue
        name = node.name if kind == "inputs" else item.target
        lists[kind].append(name)
        names.append(name)
        if node.users:
            read.add(name)
    lists["unused"] = [name for name in names if name not in read]
    return lists
