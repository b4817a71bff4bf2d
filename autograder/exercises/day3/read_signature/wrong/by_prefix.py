"""list is not right

Also: inputs missed; unused missed
Goes by the letters with which placeholders begin.
"""


def read_signature(program):
    kinds = {"parameters": [], "buffers": [], "inputs": [], "unused": []}
    targets = {item.arg.name: item.target or item.arg.name for item in program.graph_signature.input_specs}
    for node in program.graph.nodes:
        if node.op == "placeholder":
            kind = {"p_": "parameters", "b_": "buffers"}.get(node.name[:2], "inputs")
            kinds[kind].append(targets[node.name])
            if not node.users:
                kinds["unused"].append(targets[node.name])
    return kinds
