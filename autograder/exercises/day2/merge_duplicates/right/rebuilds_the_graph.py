"""Copies node by node into a new graph, whose nodes are the value numbers."""

import torch

from fxopt_core.graphs.aliases import Storages
from fxopt_core.graphs.effects import effects_of


def find_duplicates(graph_module):
    graph = graph_module.graph
    storages = Storages(graph)
    result, names, values, epoch = {}, {}, {}, 0
    outside = {node for node in graph.nodes if node in storages.returned}
    for node in graph.nodes:
        effects = effects_of(node)
        epoch += bool(effects.writes or effects.context or effects.opaque)
        if node.op in ("placeholder", "get_attr", "output") or effects.observable or storages.written(node):
            continue
        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: names.get(n, n))
        target = id(node.target) if callable(node.target) else node.target
        number = f"{epoch} {node.op} {target} {args} {sorted(kwargs.items())}"  # texts tell 1, 1.0 and True apart
        if number not in values:
            values[number] = node
        elif not {node, values[number]} <= outside:
            result[node] = names[node] = values[number]
            if node in outside:
                outside.add(values[number])
    return result


def merge_duplicates(graph_module):
    duplicates = find_duplicates(graph_module)
    graph, copies = torch.fx.Graph(), {}
    for node in graph_module.graph.nodes:
        if node in duplicates:
            copies[node] = copies[duplicates[node]]
        else:
            copies[node] = graph.node_copy(node, lambda source: copies[source])
    return torch.fx.GraphModule(graph_module, graph)
