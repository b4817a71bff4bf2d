"""original handed on

Rewrites a copy and hands on the original.
"""

import copy


def make_backend(compile_inner):
    def backend(graph_module, example_inputs):
        rewritten = copy.deepcopy(graph_module)
        for node in rewritten.graph.nodes:
            if getattr(node.target, "__name__", "") == "gelu":
                node.kwargs = {**node.kwargs, "approximate": "tanh"}
        rewritten.recompile()
        return compile_inner(graph_module, example_inputs)

    return backend
