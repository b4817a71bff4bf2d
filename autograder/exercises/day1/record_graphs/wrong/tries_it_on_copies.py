"""random numbers used up

Runs the graph once, on copies, so that no write is seen. What it draws is gone all the same.
"""


class GraphRecorder:
    def __init__(self):
        self.graphs = []

    def __call__(self, graph_module, example_inputs):
        self.graphs.append(graph_module)
        graph_module(*[value.clone() for value in example_inputs])
        return graph_module.forward
