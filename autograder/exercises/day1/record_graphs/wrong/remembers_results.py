"""writes lost

Remembers what came out for the same tensors, and does not run the graph again.
"""

from functools import lru_cache


class GraphRecorder:
    def __init__(self):
        self.graphs = []

    def __call__(self, graph_module, example_inputs):
        self.graphs.append(graph_module)
        return lru_cache(graph_module.forward)
