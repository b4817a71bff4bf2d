"""wrong derivative

Asks `if event["forward thread"]:`, which thread 0 does not pass.
"""


def take_apart(events):
    rows = []
    parent = {}
    lanes = {}
    for e in events:
        lanes.setdefault(e["thread"], []).append(e)
    for lane in lanes.values():
        lane.sort(key=lambda e: (e["start"], -e["end"]))
        stack = []
        for e in lane:
            while stack and not (stack[-1]["start"] <= e["start"] and e["end"] <= stack[-1]["end"]):
                stack.pop()
            parent[e["id"]] = stack[-1] if stack else None
            stack.append(e)

    def up(e, kind):
        e = parent[e["id"]]
        while e is not None and e["kind"] != kind:
            e = parent[e["id"]]
        return e

    operators = [e for e in events if e["kind"] == "operator"]
    children = {e["id"]: [] for e in operators}
    for e in operators:
        caller = up(e, "operator")
        if caller is not None:
            children[caller["id"]].append(e)

    def leaves(e):
        inner = sorted(children[e["id"]], key=lambda c: c["start"])
        return [leaf for c in inner for leaf in leaves(c)] or [e["id"]]

    for e in operators:
        if up(e, "operator") is not None:
            continue
        python = up(e, "python")
        source = None
        if e["forward thread"]:
            candidates = [
                c
                for c in operators
                if c["sequence"] == e["sequence"] and c["thread"] == e["forward thread"] and c["forward thread"] is None
            ]
            candidates.sort(key=lambda c: (c["start"], -c["end"]))
            source = candidates[-1]["id"] if candidates else None
        rows.append(
            (
                e["start"],
                e["thread"],
                {
                    "operator": e["id"],
                    "python": python and python["id"],
                    "work": leaves(e),
                    "own": e["end"] - e["start"] - sum(c["end"] - c["start"] for c in children[e["id"]]),
                    "derivative of": source,
                },
            )
        )
    return [row for *_, row in sorted(rows, key=lambda r: r[:2])]
