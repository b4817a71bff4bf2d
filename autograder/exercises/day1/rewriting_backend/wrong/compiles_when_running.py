"""compiled at every call

Calls the compiler in the function that runs the model.
"""


def make_backend(compile_inner):
    def backend(graph_module, example_inputs):
        for node in graph_module.graph.nodes:
            if getattr(node.target, "__name__", "") == "gelu" and node.kwargs.get("approximate", "none") == "none":
                node.kwargs = {**node.kwargs, "approximate": "tanh"}
        graph_module.recompile()

        def compiled(*inputs):
            return compile_inner(graph_module, example_inputs)(*inputs)

        return compiled

    return backend
