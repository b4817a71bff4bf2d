"""forgot recompile

Has the code written anew only where it has merged something.
"""

import torch

from fxopt_core.graphs.aliases import Storages
from fxopt_core.graphs.effects import effects_of


def key_of(node, stand_in):
    def key(value):
        if isinstance(value, torch.fx.Node):
            return ("node", stand_in.get(value, value))
        if isinstance(value, slice):
            return ("slice", key(value.start), key(value.stop), key(value.step))
        if isinstance(value, (list, tuple)):
            return ("list" if isinstance(value, list) else "tuple", *map(key, value))
        if isinstance(value, dict):
            return ("dict", frozenset((key(name), key(item)) for name, item in value.items()))
        return (type(value), repr(value))

    return (node.op, node.target, key(node.args), key(dict(node.kwargs)))


def find_duplicates(graph_module):
    storages = Storages(graph_module.graph)
    stand_in, seen, returned = {}, {}, set(storages.returned)
    for node in graph_module.graph.nodes:
        if node.op in ("placeholder", "output"):
            continue
        effects = effects_of(node)
        if effects.writes or effects.context or effects.opaque:
            seen.clear()
        if effects.observable or storages.written(node):
            continue
        first = seen.setdefault(key_of(node, stand_in), node)
        if first is node:
            continue
        if storages.written(first):
            continue
        if node in returned and first in returned:
            continue
        stand_in[node] = first
        if node in returned:
            returned.add(first)
    return stand_in


def merge_duplicates(graph_module):
    duplicates = find_duplicates(graph_module)
    for node, first in duplicates.items():
        node.replace_all_uses_with(first)
    for node in reversed(list(duplicates)):
        graph_module.graph.erase_node(node)
    if duplicates:
        graph_module.graph.lint()
        graph_module.recompile()
    return graph_module
