"""compiler never called

Rewrites the graph and runs it without a compiler.
"""


def make_backend(compile_inner):
    def backend(graph_module, example_inputs):
        for node in graph_module.graph.nodes:
            if getattr(node.target, "__name__", "") == "gelu":
                node.kwargs = {**node.kwargs, "approximate": "tanh"}
        graph_module.recompile()
        return graph_module.forward

    return backend
