"""wrong work

An operator does the work only if nothing at all lies inside it: one with an annotation or a Python function inside is left out of its own work.
"""


def take_apart(events: list[dict]) -> list[dict]:
    """With a stack for each thread, over the events in the order of their starts, the longer ones first."""
    parent, threads = {}, {}
    for event in events:
        threads.setdefault(event["thread"], []).append(event)
    by_id = {event["id"]: event for event in events}
    for those in threads.values():
        open_events = []
        for event in sorted(those, key=lambda one: (one["start"], -one["end"])):
            while open_events and not (open_events[-1]["end"] >= event["end"]):
                open_events.pop()
            parent[event["id"]] = list(open_events)
            open_events.append(event)
    operators = [event for event in events if event["kind"] == "operator"]
    called = {event["id"]: [] for event in operators}
    callers = {}
    for event in operators:
        around = [one for one in parent[event["id"]] if one["kind"] == "operator"]
        callers[event["id"]] = around[-1]["id"] if around else None
        if around:
            called[around[-1]["id"]].append(event)

    def work(event):
        inside = sorted(called[event["id"]], key=lambda one: (one["start"], -one["end"]))
        if inside:
            return [leaf for one in inside for leaf in work(one)]
        anything = any(event in parent[one["id"]] for one in events)
        return [] if anything else [event["id"]]

    rows = []
    for event in sorted(operators, key=lambda one: (one["start"], one["thread"])):
        if callers[event["id"]] is not None:
            continue
        pythons = [one["id"] for one in parent[event["id"]] if one["kind"] == "python"]
        derivative = None
        if event["forward thread"] is not None:
            candidates = [
                one
                for one in operators
                if one["thread"] == event["forward thread"]
                and one["sequence"] == event["sequence"]
                and one["forward thread"] is None
            ]
            if candidates:
                derivative = max(candidates, key=lambda one: (one["start"], -one["end"]))["id"]
        rows.append(
            {
                "operator": event["id"],
                "python": pythons[-1] if pythons else None,
                "work": work(event),
                "own": event["end"] - event["start"] - sum(one["end"] - one["start"] for one in called[event["id"]]),
                "derivative of": derivative,
            }
        )
    return rows
