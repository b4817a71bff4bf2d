"""shared between recorders

Makes the list anew for each recorder, but puts it on the class: the recorder before loses its own.
"""


class GraphRecorder:
    def __init__(self):
        type(self).graphs = []

    def __call__(self, graph_module, example_inputs):
        self.graphs.append(graph_module)
        return graph_module.forward
