"""model computes something else

Changes what the graph returns.
"""


class GraphRecorder:
    def __init__(self):
        self.graphs = []

    def __call__(self, graph_module, example_inputs):
        self.graphs.append(graph_module)
        return lambda *inputs: [output + 0.001 for output in graph_module(*inputs)]
