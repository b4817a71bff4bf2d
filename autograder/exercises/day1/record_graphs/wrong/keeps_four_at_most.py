"""graphs missing

Keeps the last four, so that memory does not fill up.
"""

from collections import deque


class GraphRecorder:
    def __init__(self):
        self.graphs = deque(maxlen=4)

    def __call__(self, graph_module, example_inputs):
        self.graphs.append(graph_module)
        return graph_module.forward
