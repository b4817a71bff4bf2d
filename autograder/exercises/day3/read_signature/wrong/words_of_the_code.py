"""unused missed

Looks for the name among the words of the code, where it can stand for something else.
"""

import re


def read_signature(program):
    signature = program.graph_signature
    listed = [item for item in signature.input_specs if item.kind.name != "CONSTANT_TENSOR"]
    names = {item.arg.name: item.target or item.arg.name for item in listed}
    signature_line, _, lines = program.graph_module.code.partition(":\n")
    words = set(re.findall(r"\w+", re.sub(r";.*", "", lines)))  # what comes after a semicolon forgets values
    return {
        "parameters": list(signature.parameters),
        "buffers": list(signature.buffers),
        "inputs": list(signature.user_inputs),
        "unused": [name for key, name in names.items() if key not in words],
    }
