"""The reference answer of read_signature, made from its notebook by `make notebooks`."""

from torch.export import ExportedProgram


def read_signature(program: ExportedProgram) -> dict[str, list[str]]:
    """The inputs of an exported program by kind, and those that no node reads."""
    signature = program.graph_signature
    listed = [item for item in signature.input_specs if item.kind.name != "CONSTANT_TENSOR"]
    names = {item.arg.name: item.target or item.arg.name for item in listed}
    unread = [node for node in program.graph.nodes if node.name in names and not node.users]
    return {
        "parameters": list(signature.parameters),
        "buffers": list(signature.buffers),
        "inputs": list(signature.user_inputs),
        "unused": [names[node.name] for node in unread],
    }
