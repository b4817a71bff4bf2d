"""gradients switched on

Switches autograd on, so that no gradient can get lost.
"""

import torch


class GraphRecorder:
    def __init__(self):
        self.graphs = []

    def __call__(self, graph_module, example_inputs):
        self.graphs.append(graph_module)
        return torch.enable_grad()(graph_module.forward)
