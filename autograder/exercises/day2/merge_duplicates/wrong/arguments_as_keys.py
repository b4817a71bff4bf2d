"""raised

Uses args as a dictionary key: lists have no hash in a plain tuple of lists.
Also: equal literals.
"""

import torch

from fxopt_core.graphs.aliases import Storages
from fxopt_core.graphs.effects import effects_of


def key_of(node, stand_in):
    def key(value):
        if isinstance(value, torch.fx.Node):
            return stand_in.get(value, value)
        return list(value) if isinstance(value, list) else value

    return node.op, node.target, tuple(map(key, node.args)), tuple(sorted((k, str(v)) for k, v in node.kwargs.items()))


def find_duplicates(graph_module):
    storages, stand_in, seen = Storages(graph_module.graph), {}, {}
    returned = set(storages.returned)
    for node in graph_module.graph.nodes:
        effects = effects_of(node)
        if effects.writes:
            seen.clear()
        if not node.op.startswith("call") or effects.observable or storages.written(node):
            continue
        first = seen.setdefault(key_of(node, stand_in), node)
        if first is node or (first in returned and node in returned):
            continue
        stand_in[node] = first
        if node in returned:
            returned.add(first)
    return stand_in


def merge_duplicates(graph_module):
    for node, first in find_duplicates(graph_module).items():
        node.replace_all_uses_with(first)
        graph_module.graph.erase_node(node)
    graph_module.graph.lint()
    graph_module.recompile()
    return graph_module
