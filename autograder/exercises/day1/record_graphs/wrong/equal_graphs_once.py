"""graphs missing

Takes two graphs with the same operations for one.
"""


class GraphRecorder:
    def __init__(self):
        self.graphs = []

    def __call__(self, graph_module, example_inputs):
        names = [node.target for node in graph_module.graph.nodes]
        if names not in [[node.target for node in kept.graph.nodes] for kept in self.graphs]:
            self.graphs.append(graph_module)
        return graph_module.forward
