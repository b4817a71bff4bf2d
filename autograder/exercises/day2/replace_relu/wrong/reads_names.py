"""went by the name

Takes everything whose target has relu in its name.
"""

import torch
import torch.nn.functional as F


def replace_relu(graph_module):
    graph = graph_module.graph
    for node in list(graph.nodes):
        if not node.op.startswith("call"):
            continue
        name = node.target if isinstance(node.target, str) else node.target.__name__
        module = graph_module.get_submodule(node.target) if node.op == "call_module" else None
        if "relu" not in name.lower() and "relu" not in type(module).__name__.lower():
            continue
        write = name.endswith("_") or node.kwargs.get("inplace", False) or getattr(module, "inplace", False)
        value = node.args[0] if node.args else node.kwargs["input"]
        with graph.inserting_before(node):
            new = graph.call_function(F.silu, (value,), {"inplace": write})
        node.replace_all_uses_with(new)
        graph.erase_node(node)
    graph_module.recompile()
    return graph_module
