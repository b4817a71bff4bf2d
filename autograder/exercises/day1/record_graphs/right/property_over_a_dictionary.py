"""Keeps the graphs in a dictionary and offers them as a property."""


class GraphRecorder:
    def __init__(self):
        self._by_number = {}

    @property
    def graphs(self):
        return tuple(self._by_number[number] for number in sorted(self._by_number))

    def __call__(self, graph_module, example_inputs):
        self._by_number[len(self._by_number)] = graph_module
        return graph_module
