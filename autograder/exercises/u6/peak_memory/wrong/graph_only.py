"""inputs left out

Counts only what the graph makes.
"""

import torch
from torch.utils._pytree import tree_leaves


def peak(graph: torch.fx.Graph) -> tuple[int, str]:
    """Most bytes that are alive at a time, and the name of a node at which they are."""
    nodes = list(graph.nodes)
    place = {node: number for number, node in enumerate(nodes)}
    sizes, first, last = {}, {}, {}
    given = [node.meta["val"] for node in nodes if node.op == "placeholder"]
    inputs = {tensor.untyped_storage()._cdata for tensor in given}
    for node in nodes:
        for tensor in tree_leaves(node.meta.get("val")):
            if not isinstance(tensor, torch.Tensor) or node.op == "placeholder":
                continue
            storage = tensor.untyped_storage()
            key = storage._cdata
            if key in inputs:
                continue
            sizes[key] = storage.nbytes()
            first.setdefault(key, place[node])
            end = len(nodes) if node.op == "placeholder" else max([place[node], *(place[one] for one in node.users)])
            last[key] = max(last.get(key, 0), end)
            if node.op == "placeholder":
                first[key] = 0
    alive = [sum(sizes[key] for key in sizes if first[key] <= now <= last[key]) for now in range(len(nodes))]
    return max(alive), nodes[alive.index(max(alive))].name
