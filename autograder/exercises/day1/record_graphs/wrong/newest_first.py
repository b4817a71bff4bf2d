"""wrong order

Puts each graph in front of the others.
"""


class GraphRecorder:
    def __init__(self):
        self.graphs = []

    def __call__(self, graph_module, example_inputs):
        self.graphs.insert(0, graph_module)
        return graph_module.forward
