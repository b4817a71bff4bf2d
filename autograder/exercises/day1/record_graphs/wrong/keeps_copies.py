"""copies kept

Copies each graph to be on the safe side.
"""

import copy


class GraphRecorder:
    def __init__(self):
        self.graphs = []

    def __call__(self, graph_module, example_inputs):
        self.graphs.append(copy.deepcopy(graph_module))
        return graph_module.forward
