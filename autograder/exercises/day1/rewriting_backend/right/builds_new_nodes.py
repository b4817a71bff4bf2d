"""Puts a new node in the place of each old one."""


def make_backend(compile_inner):
    def backend(graph_module, example_inputs):
        graph = graph_module.graph
        for node in list(graph.nodes):
            if node.op != "call_function" or "gelu" not in str(node.target):
                continue
            if node.kwargs.get("approximate", "none") != "none":
                continue
            with graph.inserting_before(node):
                new = graph.call_function(node.target, node.args, {**node.kwargs, "approximate": "tanh"})
            node.replace_all_uses_with(new)
            graph.erase_node(node)
        graph.lint()
        graph_module.recompile()
        return compile_inner(graph_module, example_inputs)

    return backend
