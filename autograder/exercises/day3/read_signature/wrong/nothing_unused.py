"""unused missed

Believes that an exported graph has only what is needed.
"""


def read_signature(program):
    signature = program.graph_signature
    return {
        "parameters": list(signature.parameters),
        "buffers": list(signature.buffers),
        "inputs": list(signature.user_inputs),
        "unused": [],
    }
