"""not a sequence

Keeps the graphs in a dictionary by number.
"""


class GraphRecorder:
    def __init__(self):
        self.graphs = {}

    def __call__(self, graph_module, example_inputs):
        self.graphs[len(self.graphs)] = graph_module
        return graph_module.forward
