"""new to the holder

Lets go of what the holder did not hold before, rather than of what was not there.
"""

from collections import Counter


def in_use(snapshot: dict) -> set[str]:
    """Breadth first."""
    reached, front = set(), set(snapshot["variables"])
    while front:
        reached |= front
        front = {name for one in front for name in snapshot["objects"][one]["refers_to"]} - reached
    return reached


def find_leak(before: dict, after: dict) -> dict:
    """Bytes of garbage, and for each object that grows the bytes that it alone keeps."""
    objects = after["objects"]
    used = in_use(after)
    holders = {}
    for name in in_use(before) & used:
        if len(objects[name]["refers_to"]) <= len(before["objects"][name]["refers_to"]):
            continue
        references = {one: 0 for one in objects}
        for one in after["variables"]:
            references[one] += 1
        for one in objects.values():
            for other in one["refers_to"]:
                references[other] += 1
        gone = [one for one in objects[name]["refers_to"] if one not in before["objects"][name]["refers_to"]]
        freed = 0
        while gone:
            one = gone.pop()
            references[one] -= 1
            if references[one] == 0:
                freed += objects[one]["bytes"]
                gone.extend(objects[one]["refers_to"])
        holders[name] = freed
    return {"garbage": sum(o["bytes"] for name, o in objects.items() if name not in used), "holders": holders}
