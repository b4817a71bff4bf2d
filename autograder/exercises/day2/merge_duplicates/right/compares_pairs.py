"""Compares each node with all before it, and asks of every pair whether something stands between them."""

import torch
from torch.utils._pytree import tree_flatten

from fxopt_core.graphs.aliases import Storages
from fxopt_core.graphs.effects import effects_of


def same(a, b, found):
    if (a.op, a.target) != (b.op, b.target) or set(a.kwargs) != set(b.kwargs):
        return False
    for one, other in [(a.args, b.args), *((a.kwargs[k], b.kwargs[k]) for k in a.kwargs)]:
        leaves, spec = tree_flatten(opened(one))
        others, other_spec = tree_flatten(opened(other))
        if spec != other_spec:
            return False
        for x, y in zip(leaves, others):
            if isinstance(x, torch.fx.Node) or isinstance(y, torch.fx.Node):
                if found.get(x, x) is not found.get(y, y):
                    return False
            elif type(x) is not type(y) or repr(x) != repr(y):
                return False
    return True


def opened(value):
    """The argument with its slices as tuples, whose parts may be nodes."""
    if isinstance(value, slice):
        return ("slice", value.start, value.stop, value.step)
    return type(value)(map(opened, value)) if isinstance(value, (list, tuple)) else value


def stands_between(node):
    effects = effects_of(node)
    return effects.writes or effects.context or effects.opaque


def find_duplicates(graph_module):
    nodes = list(graph_module.graph.nodes)
    storages, found, groups = Storages(graph_module.graph), {}, {}
    for j, b in enumerate(nodes):
        if not b.op.startswith("call") or effects_of(b).observable or storages.written(b):
            continue
        for i in range(j - 1, -1, -1):
            a = nodes[i]
            if stands_between(a):
                break
            if a in found or not a.op.startswith("call") or storages.written(a) or not same(a, b, found):
                continue
            members = groups.setdefault(a, [a])
            if b in storages.returned and any(member in storages.returned for member in members):
                continue
            found[b] = a
            members.append(b)
            break
    return found


def merge_duplicates(graph_module):
    for duplicate, first in reversed(find_duplicates(graph_module).items()):
        duplicate.replace_all_uses_with(first)
        duplicate.graph.erase_node(duplicate)
    graph_module.recompile()
    return graph_module
