"""recorded when running

Records in the compiled callable instead of in the backend.
"""


class GraphRecorder:
    def __init__(self):
        self.graphs = []

    def __call__(self, graph_module, example_inputs):
        def compiled(*inputs):
            self.graphs.append(graph_module)
            return graph_module(*inputs)

        return compiled
