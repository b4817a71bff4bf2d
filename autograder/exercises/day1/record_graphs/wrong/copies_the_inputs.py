"""writes lost

Runs the graph on copies of what it is given, so that nothing can be changed.
"""


class GraphRecorder:
    def __init__(self):
        self.graphs = []

    def __call__(self, graph_module, example_inputs):
        self.graphs.append(graph_module)
        return lambda *inputs: graph_module.forward(*[value.clone() for value in inputs])
