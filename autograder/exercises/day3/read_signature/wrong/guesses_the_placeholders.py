"""unused missed

Guesses what a parameter is called in the graph, where two names may come to the same.
"""


def read_signature(program):
    signature = program.graph_signature
    read = {source.name for node in program.graph.nodes for source in node.all_input_nodes}

    def guessed(letter, names):
        return [name for name in names if f"{letter}_{name.replace('.', '_')}" not in read]

    return {
        "parameters": list(signature.parameters),
        "buffers": list(signature.buffers),
        "inputs": list(signature.user_inputs),
        "unused": [
            *guessed("p", signature.parameters),
            *guessed("b", signature.buffers),
            *(name for name in signature.user_inputs if name not in read),
        ],
    }
