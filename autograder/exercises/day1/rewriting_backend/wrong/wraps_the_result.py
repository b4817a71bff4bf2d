"""result wrapped

Returns a function of its own, which cuts gradients off.
"""


def make_backend(compile_inner):
    def backend(graph_module, example_inputs):
        for node in graph_module.graph.nodes:
            if getattr(node.target, "__name__", "") == "gelu" and node.kwargs.get("approximate", "none") == "none":
                node.kwargs = {**node.kwargs, "approximate": "tanh"}
        graph_module.recompile()
        compiled = compile_inner(graph_module, example_inputs)
        return lambda *inputs: compiled(*[value.detach() for value in inputs])

    return backend
