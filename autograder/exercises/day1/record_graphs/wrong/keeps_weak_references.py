"""graphs let go

Keeps weak references, which hold no graph.
"""

import weakref


class GraphRecorder:
    def __init__(self):
        self.references = []

    @property
    def graphs(self):
        return [graph for reference in self.references if (graph := reference()) is not None]

    def __call__(self, graph_module, example_inputs):
        self.references.append(weakref.ref(graph_module))
        return graph_module.forward
