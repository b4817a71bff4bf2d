"""other operations changed

Seeks "gelu" in every target, also where the target names an input: a weight of a layer that is held as `gelu`.
"""

import torch


def make_backend(compile_inner):
    def backend(graph_module, example_inputs):
        graph = graph_module.graph
        for node in list(graph.nodes):
            if "gelu" not in str(node.target) or node.kwargs.get("approximate", "none") != "none":
                continue
            with graph.inserting_before(node):
                new = graph.call_function(torch.nn.functional.gelu, node.args, {**node.kwargs, "approximate": "tanh"})
            node.replace_all_uses_with(new)
            graph.erase_node(node)
        graph_module.recompile()
        return compile_inner(graph_module, example_inputs)

    return backend
