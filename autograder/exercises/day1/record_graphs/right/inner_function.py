"""Returns the graph module itself, wrapped in a function of its own."""


class GraphRecorder:
    def __init__(self):
        self.graphs = []

    def __call__(self, graph_module, example_inputs):
        self.graphs = [*self.graphs, graph_module]

        def run(*inputs):
            return graph_module(*inputs)

        return run
