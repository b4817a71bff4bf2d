"""Keeps the graphs in a deque; the backend is a closure that the instance calls."""

from collections import deque


class GraphRecorder:
    def __init__(self):
        self.graphs = kept = deque()

        def backend(graph_module, example_inputs):
            kept.append(graph_module)
            return lambda *inputs: graph_module(*inputs)

        self._backend = backend

    def __call__(self, *given):
        return self._backend(*given)
