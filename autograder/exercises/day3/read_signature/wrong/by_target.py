"""used called unused

Looks every input up by the target of its node. The output's target is `output`, and so may that of an input be.
"""


def read_signature(program):
    signature = program.graph_signature
    readers = {node.target: len(node.users) for node in program.graph.nodes}
    named = {item.arg.name: item.target or item.arg.name for item in signature.input_specs}
    constants = set(signature.inputs_to_lifted_tensor_constants)
    return {
        "parameters": list(signature.parameters),
        "buffers": list(signature.buffers),
        "inputs": list(signature.user_inputs),
        "unused": [name for key, name in named.items() if key not in constants and not readers[key]],
    }
