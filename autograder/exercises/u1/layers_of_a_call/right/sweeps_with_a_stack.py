"""Goes through all calls in order of time, with a stack of what is open on each thread. Ranges call nothing."""

from collections import defaultdict


def take_apart(events):
    open_on = defaultdict(list)
    python, parent, children = {}, {}, defaultdict(list)
    calls = [event for event in events if event["kind"] != "annotation"]
    ordered = sorted(calls, key=lambda event: (event["start"], -event["end"]))
    for event in ordered:
        stack = open_on[event["thread"]]
        while stack and stack[-1]["end"] < event["end"]:
            stack.pop()
        if event["kind"] == "operator":
            python[event["id"]] = next((one["id"] for one in stack[::-1] if one["kind"] == "python"), None)
            above = next((one for one in stack[::-1] if one["kind"] == "operator"), None)
            parent[event["id"]] = above
            if above is not None:
                children[above["id"]].append(event)
        stack.append(event)

    operators = [event for event in ordered if event["kind"] == "operator"]
    recorded = {}
    for event in operators:
        if event["forward thread"] is None:
            recorded[event["thread"], event["sequence"]] = event["id"]

    def work(event):
        inner = children[event["id"]]
        if not inner:
            return [event["id"]]
        found = []
        for one in inner:
            found += work(one)
        return found

    rows = []
    outermost = [event for event in operators if parent[event["id"]] is None]
    for event in sorted(outermost, key=lambda event: (event["start"], event["thread"])):
        own = event["end"] - event["start"]
        for one in children[event["id"]]:
            own -= one["end"] - one["start"]
        rows.append(
            {
                "operator": event["id"],
                "python": python[event["id"]],
                "work": work(event),
                "own": own,
                "derivative of": recorded.get((event["forward thread"], event["sequence"])),
            }
        )
    return rows
