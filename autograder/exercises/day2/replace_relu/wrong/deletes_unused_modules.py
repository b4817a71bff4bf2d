"""removed the modules

Deletes the modules that the graph no longer calls.
"""

F = nn.functional


def works_in_place(node, graph_module):
    if node.op == "call_module":
        module = graph_module.get_submodule(node.target)
        return module.inplace if type(module) is nn.ReLU else None
    if node.op == "call_method":
        return {"relu": False, "relu_": True}.get(node.target)
    if node.op == "call_function" and node.target is F.relu:
        return bool(node.args[1] if len(node.args) > 1 else node.kwargs.get("inplace", False))
    if node.op == "call_function":
        return {torch.relu: False, torch.relu_: True}.get(node.target)
    return None


def replace_relu(graph_module):
    graph = graph_module.graph
    for node in list(graph.nodes):
        writes = works_in_place(node, graph_module)
        if writes is None:
            continue
        value = node.args[0] if node.args else node.kwargs["input"]
        with graph.inserting_after(node):
            new = graph.call_function(F.silu, (value,), {"inplace": writes})
        node.replace_all_uses_with(new)
        graph.erase_node(node)
    graph_module.delete_all_unused_submodules()
    graph.lint()
    graph_module.recompile()
    return graph_module
