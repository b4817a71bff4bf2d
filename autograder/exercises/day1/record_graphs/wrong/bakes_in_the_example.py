"""example outputs baked in

Returns the result on the example inputs, wrapped so that it can be called.
"""


class GraphRecorder:
    def __init__(self):
        self.graphs = []

    def __call__(self, graph_module, example_inputs):
        self.graphs.append(graph_module)
        result = graph_module(*example_inputs)
        return lambda *inputs: result
