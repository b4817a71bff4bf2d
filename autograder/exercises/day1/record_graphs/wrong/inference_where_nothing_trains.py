"""inference tensors

Where gradients are switched off, runs the graph in inference mode, to make it faster.
"""

import torch


class GraphRecorder:
    def __init__(self):
        self.graphs = []

    def __call__(self, graph_module, example_inputs):
        self.graphs.append(graph_module)

        def run(*inputs):
            with torch.inference_mode(not torch.is_grad_enabled()):
                return graph_module(*inputs)

        return run
