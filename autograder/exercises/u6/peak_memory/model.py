"""Which storages are alive at each node of a graph, and what a count that overlooks something makes of it.

Without a flaw it agrees with what the profiler measures (a test compares them).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import fx
from torch.utils._pytree import tree_leaves

FLAWS = (
    "inputs left out",
    "inputs die",
    "views counted",
    "views keep nothing",
    "freed too early",
    "never freed",
    "result freed",
    "tuples left out",
    "first of several",
    "four bytes each",
    "bytes of the view",
    "unread left out",
    "unread inputs left out",
    "inputs one by one",
    "keywords left out",
)


@dataclass
class Life:
    """A storage of a graph.

    Attributes:
        size: in bytes.
        born: number of the node that makes it.
        last: number of the last node that uses it.
        given: whether it comes from the caller.
    """

    size: int
    born: int
    last: int
    given: bool


def lives(graph: fx.Graph, flaw: str = "") -> list[Life]:
    """The storages of a graph whose nodes have `meta["val"]`, with one flaw or none."""
    nodes = list(graph.nodes)
    number = {node: place for place, node in enumerate(nodes)}
    found: dict[object, Life] = {}
    for place, node in enumerate(nodes):
        last = max((number[user] for user in node.users if _reads(user, node, flaw)), default=place)
        for key, size in _storages(node, flaw):
            life = found.setdefault(key, Life(size, place, place, node.op == "placeholder"))
            if flaw != "views keep nothing" or life.born == place:
                life.last = max(life.last, last)
    return list(found.values())


def _reads(user: fx.Node, node: fx.Node, flaw: str) -> bool:
    """Whether a user of a node is counted as one."""
    if flaw == "keywords left out":
        return any(one is node for one in tree_leaves(user.args))
    return not (flaw == "result freed" and user.op == "output")


def _storages(node: fx.Node, flaw: str) -> list[tuple[object, int]]:
    value = node.meta.get("val")
    if flaw == "tuples left out" and isinstance(value, tuple | list):
        return []
    tensors = [one for one in tree_leaves(value) if isinstance(one, torch.Tensor)]
    if flaw == "first of several":
        tensors = tensors[:1]
    if flaw == "views counted":
        return [((node, place), one.numel() * one.element_size()) for place, one in enumerate(tensors)]
    if flaw == "unread left out" and not node.users and node.op != "placeholder":
        return []
    if flaw == "unread inputs left out" and not node.users and node.op == "placeholder":
        return []
    if flaw == "inputs one by one" and node.op == "placeholder":
        storages = [one.untyped_storage() for one in tensors]
        # Views of an input are not counted once more.
        return [(node, one.nbytes()) for one in storages] + [(one._cdata, 0) for one in storages]
    if flaw == "bytes of the view":
        return [(one.untyped_storage()._cdata, one.numel() * one.element_size()) for one in tensors]
    width = 4 if flaw == "four bytes each" else 0
    return [
        (storage._cdata, storage.nbytes() // one.element_size() * width if width else storage.nbytes())
        for one in tensors
        for storage in [one.untyped_storage()]
    ]


def alive(graph: fx.Graph, flaw: str = "") -> dict[str, int]:
    """For each node the bytes that are alive while it runs, with one flaw or none."""
    found = lives(graph, flaw)
    sizes = {}
    for place, node in enumerate(graph.nodes):
        sizes[node.name] = sum(life.size for life in found if _counts(life, place, flaw))
    return sizes


def _counts(life: Life, place: int, flaw: str) -> bool:
    if life.given and flaw == "inputs left out":
        return False
    if life.given and flaw != "inputs die":
        return True
    if flaw == "never freed":
        return life.born <= place
    # Freed before the result is there: what the node reads for the last time makes room for what it writes.
    last = life.last - (flaw == "freed too early" and life.last > life.born)
    return life.born <= place <= last
