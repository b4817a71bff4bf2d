"""graphs missing

Lets a graph that is captured anew for other sizes take the place of the one before.
"""


class GraphRecorder:
    def __init__(self):
        self.graphs = []
        self._shapes = []

    def __call__(self, graph_module, example_inputs):
        shapes = [value.shape for value in example_inputs]
        for number, kept in enumerate(self.graphs):
            if kept.code == graph_module.code and self._shapes[number] != shapes:
                self.graphs[number] = graph_module
                break
        else:
            self.graphs.append(graph_module)
            self._shapes.append(shapes)
        return graph_module.forward
