"""not graph modules

Keeps the printed code.
"""


class GraphRecorder:
    def __init__(self):
        self.graphs = []

    def __call__(self, graph_module, example_inputs):
        self.graphs.append(graph_module.code)
        return graph_module.forward
