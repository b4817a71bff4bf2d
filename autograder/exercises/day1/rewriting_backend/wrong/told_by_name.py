"""told by name

Believes that a node is named after what it calls, with a number behind it.
"""


def make_backend(compile_inner):
    def backend(graph_module, example_inputs):
        for node in graph_module.graph.nodes:
            if node.name.startswith("gelu") and node.kwargs.get("approximate", "none") == "none":
                node.kwargs = {**node.kwargs, "approximate": "tanh"}
        graph_module.recompile()
        return compile_inner(graph_module, example_inputs)

    return backend
