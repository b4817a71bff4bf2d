"""nothing recorded

Hands the graph on but keeps nothing.
"""


class GraphRecorder:
    def __init__(self):
        self.graphs = []

    def __call__(self, graph_module, example_inputs):
        graphs = []
        graphs.append(graph_module)
        return graph_module.forward
