"""wrong inputs

Lets every new node read the graph's last placeholder's first user chain instead of the old node's input.
"""

import torch


def make_backend(compile_inner):
    def backend(graph_module, example_inputs):
        graph = graph_module.graph
        for node in list(graph.nodes):
            if getattr(node.target, "__name__", "") == "gelu" and node.kwargs.get("approximate", "none") == "none":
                with graph.inserting_after(node):
                    new = graph.call_function(torch.nn.functional.gelu, (node,), {"approximate": "tanh"})
                node.replace_all_uses_with(new, delete_user_cb=lambda user, new=new: user is not new)
                before = node.args[0]
                node.replace_all_uses_with(before.args[0] if before.op == "call_function" else before)
                graph.erase_node(node)
        graph_module.recompile()
        return compile_inner(graph_module, example_inputs)

    return backend
