"""used called unused

Takes what has no gradient for unused.
"""


def read_signature(program):
    signature = program.graph_signature
    return {
        "parameters": list(signature.parameters),
        "buffers": list(signature.buffers),
        "inputs": list(signature.user_inputs),
        "unused": list(signature.buffers),
    }
