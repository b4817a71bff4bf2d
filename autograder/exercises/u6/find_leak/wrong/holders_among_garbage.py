"""wrong holders

An object that is garbage now counts as a holder."""


def find_leak(before, after):
    objects = after["objects"]

    def reachable(snapshot):
        found = set()
        frontier = set(snapshot["variables"])
        while frontier:
            found |= frontier
            frontier = {one for name in frontier for one in snapshot["objects"][name]["refers_to"]} - found
        return found

    references = dict.fromkeys(objects, 0)
    for name in [*after["variables"], *(one for about in objects.values() for one in about["refers_to"])]:
        references[name] += 1

    def freed(gone):
        left, total = dict(references), 0
        waiting = list(gone)
        for name in waiting:
            left[name] -= 1
            if left[name] == 0:
                total += objects[name]["bytes"]
                waiting.extend(objects[name]["refers_to"])
        return total

    then, now = reachable(before), reachable(after)
    holders = {}
    for name in then & set(objects):
        refers = objects[name]["refers_to"]
        if len(refers) > len(before["objects"][name]["refers_to"]):
            holders[name] = freed([one for one in refers if one not in before["objects"]])
    return {"garbage": sum(about["bytes"] for name, about in objects.items() if name not in now), "holders": holders}
