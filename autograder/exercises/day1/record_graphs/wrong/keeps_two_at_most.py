"""graphs missing

Keeps the first and the last graph.
"""


class GraphRecorder:
    def __init__(self):
        self.graphs = []

    def __call__(self, graph_module, example_inputs):
        self.graphs = [*self.graphs[:1], graph_module]
        return graph_module.forward
