"""GELUs left

Leaves a GELU that reads a GELU.
"""

from torch import nn


def make_backend(compile_inner):
    def backend(graph_module, example_inputs):
        for node in graph_module.graph.nodes:
            if (
                node.op == "call_function"
                and node.target is nn.functional.gelu
                and getattr((node.args or tuple(node.kwargs.values()))[0], "target", None) is not nn.functional.gelu
            ):
                if node.kwargs.get("approximate", "none") == "none":
                    node.kwargs = {**node.kwargs, "approximate": "tanh"}
        graph_module.recompile()
        return compile_inner(graph_module, example_inputs)

    return backend
