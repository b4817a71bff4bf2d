"""The reference answer of rewriting_backend, made from its notebook by `make notebooks`."""


def make_backend(compile_inner):
    """A Dynamo backend that turns exact GELUs into tanh GELUs and hands the graph on to `compile_inner`.

    `compile_inner(graph_module, example_inputs)` compiles a graph and returns a callable, as every backend does.
    """

    def backend(graph_module, example_inputs):
        for node in graph_module.graph.nodes:
            if getattr(node.target, "__name__", "") == "gelu" and node.kwargs.get("approximate", "none") == "none":
                node.kwargs = {**node.kwargs, "approximate": "tanh"}
        graph_module.graph.lint()
        graph_module.recompile()
        return compile_inner(graph_module, example_inputs)

    return backend
