"""Rebuilds the references without the dropped ones, and frees round after round what nothing refers to."""


def reachable(objects, names):
    found, seen = list(names), set(names)
    for name in found:  # it grows on the way
        found += (new := set(objects[name]["refers_to"]) - seen)
        seen |= new
    return seen


def freed(after, holder, dropped):
    living = dict(after["objects"])
    start = set(living)
    edges = {name: one["refers_to"] for name, one in living.items()}
    edges[holder] = [name for name in edges[holder] if name not in dropped]
    while True:
        held = set(after["variables"])
        for name in living:
            held.update(edges[name])
        # What was there and unreferenced before the cut does not exist in a snapshot.
        gone = [name for name in living if name not in held]
        if not gone:
            break
        for name in gone:
            del living[name]
    return sum(after["objects"][name]["bytes"] for name in start - set(living))


def find_leak(before, after):
    old, new = before["objects"], after["objects"]
    now, then = reachable(new, after["variables"]), reachable(old, before["variables"])
    holders = {}
    for name in new:
        if name in now and name in then and len(new[name]["refers_to"]) > len(old[name]["refers_to"]):
            dropped = {other for other in new[name]["refers_to"] if other not in old}
            holders[name] = freed(after, name, dropped)
    return {"garbage": sum(new[name]["bytes"] for name in new.keys() - now), "holders": holders}
