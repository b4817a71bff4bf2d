"""mode switched

Puts what it keeps into evaluation mode, as one does before looking at a model.
"""


class GraphRecorder:
    def __init__(self):
        self.graphs = []

    def __call__(self, graph_module, example_inputs):
        self.graphs.append(graph_module.eval())
        return graph_module.forward
