"""original handed on

Compiles first and rewrites then.
"""


def make_backend(compile_inner):
    def backend(graph_module, example_inputs):
        compiled = compile_inner(graph_module, example_inputs)
        for node in graph_module.graph.nodes:
            if getattr(node.target, "__name__", "") == "gelu" and node.kwargs.get("approximate", "none") == "none":
                node.kwargs = {**node.kwargs, "approximate": "tanh"}
        graph_module.recompile()
        return compiled

    return backend
