"""wrong order

Puts each graph behind the first one.
"""


class GraphRecorder:
    def __init__(self):
        self.graphs = []

    def __call__(self, graph_module, example_inputs):
        self.graphs.insert(1, graph_module)
        return graph_module.forward
