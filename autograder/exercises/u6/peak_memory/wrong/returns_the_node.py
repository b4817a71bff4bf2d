"""not its name

Returns the node in place of its name.
"""

import torch
from torch.utils._pytree import tree_leaves


def peak(graph: torch.fx.Graph) -> tuple[int, str]:
    """Most bytes that are alive at a time, and the name of a node at which they are."""
    nodes = list(graph.nodes)
    place = {node: number for number, node in enumerate(nodes)}
    sizes, first, last = {}, {}, {}
    for node in nodes:
        for tensor in tree_leaves(node.meta.get("val")):
            if not isinstance(tensor, torch.Tensor):
                continue
            storage = tensor.untyped_storage()
            key = storage._cdata
            sizes[key] = storage.nbytes()
            first.setdefault(key, place[node])
            end = len(nodes) if node.op == "placeholder" else max([place[node], *(place[one] for one in node.users)])
            last[key] = max(last.get(key, 0), end)
            if node.op == "placeholder":
                first[key] = 0
    alive = [sum(sizes[key] for key in sizes if first[key] <= now <= last[key]) for now in range(len(nodes))]
    return max(alive), nodes[alive.index(max(alive))]
