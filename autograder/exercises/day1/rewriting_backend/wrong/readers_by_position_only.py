"""GELUs left

Hands the new node to those who read the old one by position, and not within a list.
"""


def make_backend(compile_inner):
    def backend(graph_module, example_inputs):
        graph = graph_module.graph
        for node in list(graph.nodes):
            if getattr(node.target, "__name__", "") == "gelu" and node.kwargs.get("approximate", "none") == "none":
                with graph.inserting_before(node):
                    new = graph.call_function(node.target, node.args, {**node.kwargs, "approximate": "tanh"})
                for user in list(node.users):
                    if user.op == "output":
                        user.replace_input_with(node, new)
                    user.args = tuple(new if value is node else value for value in user.args)
                if not node.users:
                    graph.erase_node(node)
        graph_module.recompile()
        return compile_inner(graph_module, example_inputs)

    return backend
