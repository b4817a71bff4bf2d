"""wrong python

An id of 0 is taken for no Python function."""


def take_apart(events: list[dict]) -> list[dict]:
    around = {event["id"]: [] for event in events}
    open_now = {}
    for event in sorted(events, key=lambda one: (one["start"], -one["end"])):
        here = open_now.setdefault(event["thread"], [])
        here[:] = [one for one in here if one["end"] >= event["start"]]
        outer = [one for one in here if one["end"] >= event["end"]]
        around[event["id"]] = sorted(outer, key=lambda one: one["end"] - one["start"])
        here.append(event)

    def nearest(event, kind):
        return next((one for one in around[event["id"]] if one["kind"] == kind), None)

    operators = sorted(
        (one for one in events if one["kind"] == "operator"), key=lambda one: (one["start"], -one["end"])
    )
    called = {one["id"]: [] for one in operators}
    roots = []
    for one in operators:
        caller = nearest(one, "operator")
        (roots if caller is None else called[caller["id"]]).append(one)

    def leaves(one):
        if not called[one["id"]]:
            return [one["id"]]
        return [leaf for inner in called[one["id"]] for leaf in leaves(inner)]

    recorded = {}
    for one in operators:
        if one["sequence"] is not None and one["forward thread"] is None:
            recorded[one["thread"], one["sequence"]] = one["id"]
    rows = []
    for one in sorted(roots, key=lambda one: (one["start"], one["thread"])):
        python = nearest(one, "python")
        rows.append(
            {
                "operator": one["id"],
                "python": (python or {}).get("id") or None,
                "work": leaves(one),
                "own": one["end"] - one["start"] - sum(inner["end"] - inner["start"] for inner in called[one["id"]]),
                "derivative of": recorded.get((one["forward thread"], one["sequence"]))
                if one["forward thread"] is not None
                else None,
            }
        )
    return rows
