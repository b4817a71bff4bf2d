"""failed on a hidden case

Believes that each graph has a GELU.
"""


def make_backend(compile_inner):
    def backend(graph_module, example_inputs):
        found = [node for node in graph_module.graph.nodes if getattr(node.target, "__name__", "") == "gelu"]
        first, *others = found
        for node in (first, *others):
            node.kwargs = {**node.kwargs, "approximate": "tanh"}
        graph_module.recompile()
        return compile_inner(graph_module, example_inputs)

    return backend
