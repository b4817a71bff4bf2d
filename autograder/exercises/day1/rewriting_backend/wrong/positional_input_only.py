"""input by name missed

Believes that a GELU takes its input by position.
"""


def make_backend(compile_inner):
    def backend(graph_module, example_inputs):
        for node in graph_module.graph.nodes:
            if (
                node.args
                and getattr(node.target, "__name__", "") == "gelu"
                and node.kwargs.get("approximate", "none") == "none"
            ):
                node.kwargs = {**node.kwargs, "approximate": "tanh"}
        graph_module.recompile()
        return compile_inner(graph_module, example_inputs)

    return backend
