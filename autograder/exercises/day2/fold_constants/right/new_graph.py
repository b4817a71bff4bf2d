"""Writes a new graph, and carries a dictionary of constants along; clones what is returned."""

import torch

from fxopt_core.graphs.aliases import Storages
from fxopt_core.graphs.effects import effects_of


def fold_constants(graph_module):
    old, new = graph_module.graph, torch.fx.Graph()
    memory, constants, copies = Storages(old), {}, {}
    runner = torch.fx.Interpreter(graph_module, garbage_collect_values=False)

    def copied(node):
        if node not in copies and not isinstance(constants[node], torch.Tensor):
            return constants[node]
        if node not in copies:
            if node.op == "get_attr":
                copies[node] = new.node_copy(node)
            else:
                path = "known_" + node.name
                while hasattr(graph_module, path):
                    path = "well_" + path
                graph_module.register_buffer(path, constants[node].detach().clone())
                copies[node] = new.get_attr(path)
        return copies[node]

    plain = True
    for node in old.nodes:
        plain = plain and not (effects_of(node).context or effects_of(node).opaque)
        inputs = node.all_input_nodes
        fixed = False
        if node.op == "get_attr":
            value = runner.fetch_attr(node.target)
            fixed = (
                node not in memory.returned
                and not memory.written(node)
                and not (graph_module.training and isinstance(value, torch.nn.Parameter))
            )
        elif inputs and node.op != "output" and all(source in constants for source in inputs):
            fixed = not (effects_of(node).observable or memory.written(node) or node in memory.returned)
            fixed = fixed and not (graph_module.training and node.op == "call_module")
        if fixed and plain:
            runner.env.update(constants)
            with torch.no_grad():
                constants[node] = runner.run_node(node)
        else:
            copies[node] = new.node_copy(node, copied)
    return torch.fx.GraphModule(graph_module, new)
