"""only one graph kept

Believes that a model is one graph.
"""


class GraphRecorder:
    def __init__(self):
        self.graphs = []

    def __call__(self, graph_module, example_inputs):
        self.graphs = [graph_module]
        return graph_module.forward
