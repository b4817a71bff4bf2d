"""failed on a hidden case

Lets go of what an object refers to by recursion, which ends at a chain of a thousand.
"""


def in_use(snapshot):
    found, edge = set(), set(snapshot["variables"])
    while edge:
        found |= edge
        edge = {other for name in edge for other in snapshot["objects"][name]["refers_to"]} - found
    return found


def let_go(objects, counts, name):
    """Take one reference to an object away; the bytes that this frees."""
    counts[name] -= 1
    if counts[name]:
        return 0
    return objects[name]["bytes"] + sum(let_go(objects, counts, other) for other in objects[name]["refers_to"])


def find_leak(before, after):
    old, objects = before["objects"], after["objects"]
    references = [*after["variables"], *(other for one in objects.values() for other in one["refers_to"])]
    used = in_use(after)
    holders = {}
    for name in used & in_use(before):
        own = objects[name]["refers_to"]
        if len(own) > len(old[name]["refers_to"]):
            counts = {one: references.count(one) for one in objects}
            holders[name] = sum(let_go(objects, counts, other) for other in own if other not in old)
    return {"garbage": sum(one["bytes"] for name, one in objects.items() if name not in used), "holders": holders}
