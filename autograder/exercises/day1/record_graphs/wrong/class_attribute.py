"""shared between recorders

Puts the list on the class.
"""


class GraphRecorder:
    graphs = []

    def __call__(self, graph_module, example_inputs):
        self.graphs.append(graph_module)
        return graph_module.forward
