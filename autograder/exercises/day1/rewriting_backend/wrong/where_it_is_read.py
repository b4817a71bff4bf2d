"""moved

Makes the new node where the old one is read first.
"""


def make_backend(compile_inner):
    def backend(graph_module, example_inputs):
        graph = graph_module.graph
        for node in list(graph.nodes):
            if getattr(node.target, "__name__", "") == "gelu" and node.kwargs.get("approximate", "none") == "none":
                order = list(graph.nodes)
                readers = sorted(node.users, key=order.index)
                with graph.inserting_before(readers[0] if readers else node):
                    new = graph.call_function(node.target, node.args, {**node.kwargs, "approximate": "tanh"})
                node.replace_all_uses_with(new)
                graph.erase_node(node)
        graph_module.recompile()
        return compile_inner(graph_module, example_inputs)

    return backend
