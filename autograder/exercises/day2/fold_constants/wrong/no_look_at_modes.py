"""folded across a switch

Stops at what is unknown, and not at a switch of the mode.
"""

from fxopt_core.graphs.aliases import memory_of


def _unstable_memory(graph_module, storages):
    """Memory of weights that the graph writes or hands to the caller; `None` if it may write any."""
    if storages.written_memory is None:
        return None
    lent = [node for node in storages.returned if node.op == "get_attr"]
    fetch = torch.fx.Interpreter(graph_module).fetch_attr
    return set(storages.written_memory) | {memory_of(fetch(node.target)) for node in lent}


def is_constant(node: torch.fx.Node, graph_module: torch.fx.GraphModule, storages: Storages, values: dict) -> bool:
    """Whether a node's value is the same at every call. `values` holds those of the constants before it."""
    if node.op in ("placeholder", "output") or storages.written(node):
        return False
    unstable = _unstable_memory(graph_module, storages)
    if unstable is None:
        return False
    if node.op == "get_attr":
        value = torch.fx.Interpreter(graph_module).fetch_attr(node.target)
        if not isinstance(value, torch.Tensor) or node in storages.returned or memory_of(value) in unstable:
            return False
        return not (graph_module.training and isinstance(value, nn.Parameter))
    if effects_of(node).observable or not node.all_input_nodes:
        return False
    if any(source not in values for source in node.all_input_nodes):
        return False
    if node.op == "call_module":
        module = graph_module.get_submodule(node.target)
        if graph_module.training or any(part.training for part in module.modules()):
            return False
        return not any(memory_of(held) in unstable for held in (*module.parameters(), *module.buffers()))
    return True


@torch.no_grad()
def fold_constants(graph_module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Store the values of all operations that are constant, and read them."""
    graph = graph_module.graph
    storages = Storages(graph)
    interpreter = torch.fx.Interpreter(graph_module)
    values = {}
    for node in graph.nodes:
        effects = effects_of(node)
        if effects.opaque:
            break
        if not is_constant(node, graph_module, storages, values):
            continue
        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), values.__getitem__)
        try:
            values[node] = getattr(interpreter, node.op)(node.target, args, kwargs)
        except Exception:
            continue  # it cannot be computed now: let it fail when the model is called
    number = 0
    for node in reversed(list(graph.nodes)):
        if node not in values:
            continue
        if not node.users:
            graph.erase_node(node)
            continue
        value = values[node]
        if node.op == "get_attr" or not isinstance(value, torch.Tensor) or node in storages.returned:
            continue
        while hasattr(graph_module, f"folded_{number}"):
            number += 1
        name = f"folded_{number}"
        graph_module.register_buffer(name, value.detach())
        with graph.inserting_before(node):
            constant = graph.get_attr(name)
        node.replace_all_uses_with(constant)
        graph.erase_node(node)
    graph.lint()
    graph_module.recompile()
    return graph_module
