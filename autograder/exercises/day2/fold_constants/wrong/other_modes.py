"""folded across a switch

Folds behind a switch of the mode as well, and computes outside of that mode.
"""

import torch
from torch import nn
from fxopt_core.graphs.aliases import Storages
from fxopt_core.graphs.effects import effects_of


def is_constant(node: torch.fx.Node, graph_module: torch.fx.GraphModule, storages: Storages, values: dict) -> bool:
    """Whether a node's value is the same at every call. `values` holds those of the constants before it."""
    if node.op == "get_attr":
        value = torch.fx.Interpreter(graph_module).fetch_attr(node.target)
        will_change = graph_module.training and isinstance(value, nn.Parameter)
        return not (will_change or storages.written(node) or node in storages.returned)
    if not node.op.startswith("call") or not node.all_input_nodes:
        return False
    if node.op == "call_module" and graph_module.training:
        return False
    if effects_of(node).observable or storages.written(node) or node in storages.returned:
        return False
    return all(source in values for source in node.all_input_nodes)


@torch.no_grad()
def fold_constants(graph_module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Store the values of all operations that are constant, and read them."""
    graph = graph_module.graph
    storages, values = Storages(graph), {}
    interpreter = torch.fx.Interpreter(graph_module)
    for node in graph.nodes:
        if effects_of(node).context or effects_of(node).opaque:
            pass
        if is_constant(node, graph_module, storages, values):
            interpreter.env = dict(values)
            values[node] = interpreter.run_node(node)
    for node in reversed(list(values)):
        is_tensor = isinstance(values[node], torch.Tensor)
        if node.op == "get_attr" or (node.users and not is_tensor):  # a size, say, fits in no buffer
            continue
        if node.users:
            name = f"{node.name}_folded"
            while hasattr(graph_module, name):  # the model may have a buffer of this name
                name += "_"
            graph_module.register_buffer(name, values[node].detach())
            with graph.inserting_before(node):
                node.replace_all_uses_with(graph.get_attr(name))
        graph.erase_node(node)
    graph.lint()
    graph_module.recompile()
    return graph_module
