"""one graph for all

Compiles once, and takes the result for whatever comes later.
"""


def make_backend(compile_inner):
    done = []

    def backend(graph_module, example_inputs):
        for node in graph_module.graph.nodes:
            if getattr(node.target, "__name__", "") == "gelu" and node.kwargs.get("approximate", "none") == "none":
                node.kwargs = {**node.kwargs, "approximate": "tanh"}
        graph_module.recompile()
        if not done:
            done.append(compile_inner(graph_module, example_inputs))
            return done[0]
        return graph_module.forward

    return backend
