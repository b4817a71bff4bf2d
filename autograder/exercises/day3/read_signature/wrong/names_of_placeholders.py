"""names of the graph

Takes the names of the placeholders.
"""


def read_signature(program):
    names = [node.name for node in program.graph.nodes if node.op == "placeholder"]
    return {
        "parameters": [name for name in names if name.startswith("p_")],
        "buffers": [name for name in names if name.startswith("b_")],
        "inputs": [name for name in names if name[:2] not in ("p_", "b_")],
        "unused": [node.name for node in program.graph.nodes if node.op == "placeholder" and not node.users],
    }
