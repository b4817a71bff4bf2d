"""An interpreter that knows the values of constants and nothing else."""

import torch

from fxopt_core.graphs import aliases, effects


class Known(torch.fx.Interpreter):
    """Runs what is constant; everything else has no value."""

    def __init__(self, module):
        super().__init__(module, garbage_collect_values=False)
        self.storages = aliases.Storages(module.graph)

    def is_constant(self, node):
        what = effects.effects_of(node)
        if node.op in ("placeholder", "output") or what.observable or self.storages.written(node):
            return False
        if node.op == "get_attr":
            if node in self.storages.returned:
                return False
            return not (self.module.training and isinstance(self.fetch_attr(node.target), torch.nn.Parameter))
        if self.module.training and node.op == "call_module":
            return False
        return bool(node.all_input_nodes) and all(source in self.env for source in node.all_input_nodes)

    def fill(self):
        for node in self.module.graph.nodes:
            if effects.effects_of(node).context or effects.effects_of(node).opaque:
                break
            if self.is_constant(node):
                value = self.run_node(node)
                self.env[node] = value.detach() if isinstance(value, torch.Tensor) else value
        return self.env


def fold_constants(graph_module):
    known = Known(graph_module)
    values = known.fill()
    graph = graph_module.graph
    for number, node in enumerate(list(graph.nodes)):
        if node not in values or node.op == "get_attr" or node in known.storages.returned:
            continue
        if any(user not in values or user in known.storages.returned for user in node.users):
            if not isinstance(values[node], torch.Tensor):
                continue
            while hasattr(graph_module, f"c{number}_{node.name}"):
                number += 1
            graph_module.register_buffer(f"c{number}_{node.name}", values[node])
            with graph.inserting_after(node):
                stored = graph.get_attr(f"c{number}_{node.name}")
            node.replace_all_uses_with(stored)
    for node in reversed(list(graph.nodes)):
        if node in values and not node.users and node not in known.storages.returned:
            graph.erase_node(node)
    graph_module.recompile()
    return graph_module
