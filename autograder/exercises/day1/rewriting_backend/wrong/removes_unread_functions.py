"""other operations changed

Removes functions whose value nobody reads, since they write nothing.
"""


def make_backend(compile_inner):
    def backend(graph_module, example_inputs):
        for node in graph_module.graph.nodes:
            if getattr(node.target, "__name__", "") == "gelu" and node.kwargs.get("approximate", "none") == "none":
                node.kwargs = {**node.kwargs, "approximate": "tanh"}
        for node in reversed(graph_module.graph.nodes):
            if node.op == "call_function" and not node.users:
                graph_module.graph.erase_node(node)
        graph_module.recompile()
        return compile_inner(graph_module, example_inputs)

    return backend
