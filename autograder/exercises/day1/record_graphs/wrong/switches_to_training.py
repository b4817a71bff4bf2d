"""mode switched

Puts every graph into training mode, whichever it came in.
"""


class GraphRecorder:
    def __init__(self):
        self.graphs = []

    def __call__(self, graph_module, example_inputs):
        self.graphs.append(graph_module.train())
        return graph_module.forward
