"""not the four lists

Returns one list.
"""


def read_signature(program):
    return [item.target or item.arg.name for item in program.graph_signature.input_specs]
