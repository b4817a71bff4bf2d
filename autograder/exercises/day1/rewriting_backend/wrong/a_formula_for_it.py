"""GELU gone

Writes another approximation out, operation by operation.
"""


def make_backend(compile_inner):
    def backend(graph_module, example_inputs):
        graph = graph_module.graph
        for node in list(graph.nodes):
            if getattr(node.target, "__name__", "") == "gelu" and node.kwargs.get("approximate", "none") == "none":
                (x,) = node.all_input_nodes
                with graph.inserting_before(node):
                    scaled = graph.call_function(torch.mul, (x, 1.702))
                    new = graph.call_function(torch.mul, (x, graph.call_function(torch.sigmoid, (scaled,))))
                node.replace_all_uses_with(new)
                graph.erase_node(node)
        graph_module.recompile()
        return compile_inner(graph_module, example_inputs)

    return backend
