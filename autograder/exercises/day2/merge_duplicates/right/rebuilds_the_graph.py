"""Copies node by node into a new graph, whose nodes are the value numbers."""

import torch

from fxopt_core.graphs.aliases import Storages
from fxopt_core.graphs.effects import effects_of


def spell(value):
    """A text that tells apart what is different."""
    if isinstance(value, torch.fx.Node):
        return f"%{value.name}"
    if isinstance(value, (list, tuple)):
        brackets = "[]" if isinstance(value, list) else "()"
        return brackets[0] + ",".join(map(spell, value)) + brackets[1]
    return f"{type(value).__name__}:{value!r}"


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
        pairs = ",".join(f"{k}={spell(kwargs[k])}" for k in sorted(kwargs))
        number = f"{epoch} {node.op} {id(node.target) if callable(node.target) else node.target} {spell(args)} {pairs}"
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
