"""other operations changed

Replaces every activation, not only GELU.
"""

import torch


def make_backend(compile_inner):
    def backend(graph_module, example_inputs):
        for node in graph_module.graph.nodes:
            if getattr(node.target, "__name__", "") in ("gelu", "relu", "sigmoid", "mul"):
                node.target = torch.nn.functional.gelu
                node.args, node.kwargs = node.args[:1], {**node.kwargs, "approximate": "tanh"}
        graph_module.recompile()
        return compile_inner(graph_module, example_inputs)

    return backend
