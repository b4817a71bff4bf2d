"""default missed

Looks only for GELUs that say approximate="none".
"""


def make_backend(compile_inner):
    def backend(graph_module, example_inputs):
        for node in graph_module.graph.nodes:
            if getattr(node.target, "__name__", "") == "gelu" and node.kwargs.get("approximate") == "none":
                node.kwargs = {**node.kwargs, "approximate": "tanh"}
        graph_module.recompile()
        return compile_inner(graph_module, example_inputs)

    return backend
