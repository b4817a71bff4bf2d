"""wrong inputs

Believes that a node reads the node that stands before it.
"""


def make_backend(compile_inner):
    def backend(graph_module, example_inputs):
        graph = graph_module.graph
        for node in list(graph.nodes):
            if getattr(node.target, "__name__", "") == "gelu" and node.kwargs.get("approximate", "none") == "none":
                with graph.inserting_before(node):
                    new = graph.call_function(node.target, (node.prev,), {"approximate": "tanh"})
                node.replace_all_uses_with(new)
                graph.erase_node(node)
        graph_module.recompile()
        return compile_inner(graph_module, example_inputs)

    return backend
