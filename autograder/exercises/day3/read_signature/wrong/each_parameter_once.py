"""list is not right

Lists a parameter that the model has under two names once.
"""

from torch.export.graph_signature import InputKind


def read_signature(program):
    found = {"parameters": [], "buffers": [], "inputs": [], "unused": []}
    names = {}
    for item in program.graph_signature.input_specs:
        if item.kind is InputKind.PARAMETER:
            names[item.arg.name] = item.target
            held = program.state_dict[item.target]
            if not any(
                program.state_dict[name] is held or program.state_dict[name].data_ptr() == held.data_ptr()
                for name in found["parameters"]
            ):
                found["parameters"].append(item.target)
        elif item.kind is InputKind.BUFFER:
            names[item.arg.name] = item.target
            found["buffers"].append(item.target)
        elif item.kind is InputKind.USER_INPUT:
            names[item.arg.name] = item.arg.name
            found["inputs"].append(item.arg.name)
    for node in program.graph.nodes:
        if node.op == "placeholder" and not node.users and node.name in names:
            found["unused"].append(names[node.name])
    return found
