"""Lets go of one generation after the other; counts references from a list of all."""

from collections import Counter


def in_use(snapshot):
    found, edge = set(), set(snapshot["variables"])
    while edge:
        found |= edge
        edge = {other for name in edge for other in snapshot["objects"][name]["refers_to"]} - found
    return found


def let_go(objects, counts, names):
    """Take away a reference to each of some objects; the bytes that this frees, and what goes with them."""
    freed = 0
    while names:
        counts.subtract(names)
        gone = [name for name in dict.fromkeys(names) if counts[name] == 0]
        freed += sum(objects[name]["bytes"] for name in gone)
        names = [other for name in gone for other in objects[name]["refers_to"]]
    return freed


def find_leak(before, after):
    old, objects = before["objects"], after["objects"]
    references = [*after["variables"], *(other for one in objects.values() for other in one["refers_to"])]
    used = in_use(after)
    holders = {}
    for name in used & in_use(before):
        own = objects[name]["refers_to"]
        if len(own) > len(old[name]["refers_to"]):
            holders[name] = let_go(objects, Counter(references), [other for other in own if other not in old])
    return {"garbage": sum(one["bytes"] for name, one in objects.items() if name not in used), "holders": holders}
