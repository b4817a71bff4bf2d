"""mode switched

Puts the graph into evaluation mode each time before it runs.
"""


class GraphRecorder:
    def __init__(self):
        self.graphs = []

    def __call__(self, graph_module, example_inputs):
        self.graphs.append(graph_module)
        return lambda *inputs: graph_module.eval()(*inputs)
