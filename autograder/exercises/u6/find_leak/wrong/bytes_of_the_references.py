"""bytes compared

Compares the bytes that the references lead to.
"""

from collections import Counter


def in_use(snapshot: dict) -> set[str]:
    """Names of the objects that some variable leads to."""
    found, waiting = set(), list(snapshot["variables"])
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += snapshot["objects"][name]["refers_to"]
    return found


def find_leak(before: dict, after: dict) -> dict:
    """Bytes of garbage, and for each object that grows the bytes that it alone keeps."""
    objects, used, used_before = after["objects"], in_use(after), in_use(before)
    counts = Counter(after["variables"])
    for one in objects.values():
        counts.update(one["refers_to"])
    holders = {}
    for name in used & used_before:
        references = objects[name]["refers_to"]
        if sum(objects[o]["bytes"] for o in references) <= sum(
            before["objects"][o]["bytes"] for o in before["objects"][name]["refers_to"]
        ):
            continue
        waiting = [other for other in references if other not in before["objects"]]
        left, freed = counts.copy(), 0
        while waiting:
            other = waiting.pop()
            left[other] -= 1
            if left[other] == 0:
                freed += objects[other]["bytes"]
                waiting += objects[other]["refers_to"]
        holders[name] = freed
    garbage = sum(one["bytes"] for name, one in objects.items() if name not in used)
    return {"garbage": garbage, "holders": holders}
