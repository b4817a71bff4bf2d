"""said so missed

Looks only for GELUs that do not mention `approximate`.
"""


def make_backend(compile_inner):
    def backend(graph_module, example_inputs):
        for node in graph_module.graph.nodes:
            if getattr(node.target, "__name__", "") == "gelu" and "approximate" not in node.kwargs:
                node.kwargs = {**node.kwargs, "approximate": "tanh"}
        graph_module.recompile()
        return compile_inner(graph_module, example_inputs)

    return backend
