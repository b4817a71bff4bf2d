"""something else

Forgets only what reads the very node that is written; a write through a view is missed.
Also: merged across a write.
"""

import torch

from fxopt_core.graphs.aliases import Storages
from fxopt_core.graphs.effects import effects_of


def key_of(node, stand_in):
    def key(value):
        if isinstance(value, torch.fx.Node):
            return stand_in.get(value, value)
        if isinstance(value, (list, tuple)):
            return tuple(key(item) for item in value)
        if isinstance(value, dict):
            return tuple((name, key(value[name])) for name in sorted(value))
        return type(value), repr(value)

    return node.op, node.target, key(node.args), key(node.kwargs)


def find_duplicates(graph_module):
    storages, stand_in, seen = Storages(graph_module.graph), {}, {}
    returned = set(storages.returned)
    for node in graph_module.graph.nodes:
        effects = effects_of(node)
        if effects.writes:
            seen = {k: n for k, n in seen.items() if not set(n.all_input_nodes) & set(effects.writes)}
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
