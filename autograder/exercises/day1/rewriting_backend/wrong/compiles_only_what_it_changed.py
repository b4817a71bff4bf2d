"""compiler never called

Hands on only what it has rewritten.
Also: one graph for all.
"""


def make_backend(compile_inner):
    def backend(graph_module, example_inputs):
        for node in graph_module.graph.nodes:
            if getattr(node.target, "__name__", "") == "gelu" and node.kwargs.get("approximate", "none") == "none":
                node.kwargs = {**node.kwargs, "approximate": "tanh"}
        if not any(node.kwargs.get("approximate") == "tanh" for node in graph_module.graph.nodes):
            return graph_module.forward
        graph_module.recompile()
        return compile_inner(graph_module, example_inputs)

    return backend
