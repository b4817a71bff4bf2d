"""unread inputs left out

Passes over inputs that no node reads.
"""

import torch
from torch.utils._pytree import tree_leaves


def peak(graph: torch.fx.Graph) -> tuple[int, str]:
    """Most bytes that are alive at a time, and the name of a node at which they are."""
    places = {node: place for place, node in enumerate(graph.nodes)}
    sizes, made, used = {}, {}, {}
    for node, place in places.items():
        if node.op == "placeholder" and not node.users:
            continue  # Nobody reads it.
        for value in tree_leaves(node.meta.get("val")):
            if not isinstance(value, torch.Tensor):
                continue
            storage = value.untyped_storage()
            key = storage._cdata
            sizes[key] = storage.nbytes()
            end = max([place, *(places[user] for user in node.users)])
            if node.op == "placeholder":
                place, end = 0, len(places)
            made[key] = min(made.get(key, place), place)
            used[key] = max(used.get(key, end), end)
    most, name = -1, ""
    for node, place in places.items():
        alive = sum(size for key, size in sizes.items() if made[key] <= place <= used[key])
        if alive > most:
            most, name = alive, node.name
    return most, name
