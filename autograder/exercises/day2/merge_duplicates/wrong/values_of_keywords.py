"""something else

The key of a call holds the values of its keywords, and not which keyword has which value.
"""

import torch
from fxopt_core.graphs.aliases import Storages
from fxopt_core.graphs.effects import effects_of


def key_of(node: torch.fx.Node, stand_in: dict[torch.fx.Node, torch.fx.Node]):
    """A key that is equal for nodes that apply the same function to the same values; `stand_in` as found so far."""

    def key(value):
        if isinstance(value, torch.fx.Node):
            return stand_in.get(value, value)
        if isinstance(value, slice):
            return slice, key([value.start, value.stop, value.step])
        if isinstance(value, (list, tuple)):
            return isinstance(value, list), *[key(item) for item in value]
        if isinstance(value, dict):
            return tuple(key(value[name]) for name in sorted(value))
        return type(value), repr(value)

    return node.op, node.target, key(node.args), key(node.kwargs)


def find_duplicates(graph_module: torch.fx.GraphModule) -> dict[torch.fx.Node, torch.fx.Node]:
    """For each node that need not be computed again the earlier node that stands in for it. Changes nothing."""
    storages, stand_in, seen = Storages(graph_module.graph), {}, {}
    returned = set(storages.returned)
    for node in graph_module.graph.nodes:
        effects = effects_of(node)
        if effects.writes or effects.context or effects.opaque:
            seen.clear()  # what was computed before the write, or in the other mode, is another value now
        if not node.op.startswith("call") or effects.observable or storages.written(node):
            continue
        first = seen.setdefault(key_of(node, stand_in), node)
        if first is node or (first in returned and node in returned):
            continue
        stand_in[node] = first
        if node in returned:
            returned.add(first)
    return stand_in


def merge_duplicates(graph_module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Compute once what is computed twice."""
    for node, first in find_duplicates(graph_module).items():
        node.replace_all_uses_with(first)
        graph_module.graph.erase_node(node)
    graph_module.graph.lint()
    graph_module.recompile()
    return graph_module
