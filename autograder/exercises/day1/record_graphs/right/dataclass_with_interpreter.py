"""A dataclass that runs a copy of the graph by interpretation."""

import copy
from dataclasses import dataclass, field

import torch


@dataclass
class GraphRecorder:
    graphs: list = field(default_factory=list)

    def __call__(self, graph_module, example_inputs):
        self.graphs.append(copy.deepcopy(graph_module))
        return torch.fx.Interpreter(graph_module).run
