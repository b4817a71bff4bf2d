"""Goes through each thread in order of time, with a stack of what is open."""

from collections import defaultdict


def take_apart(events):
    open_on = defaultdict(list)
    python, parent, children = {}, {}, defaultdict(list)
    ordered = sorted(events, key=lambda event: (event["thread"], event["start"], -event["end"]))
    for event in ordered:
        stack = open_on[event["thread"]]
        while stack and stack[-1]["end"] < event["end"]:
            stack.pop()
        # What ends where this one begins is over, unless it is longer and holds it.
        while stack and stack[-1]["end"] <= event["start"]:
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
        if event["forward thread"] is None and event["sequence"] is not None:
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
    for event in operators:
        if parent[event["id"]] is None:
            own = event["end"] - event["start"]
            for one in children[event["id"]]:
                own -= one["end"] - one["start"]
            rows.append(
                (
                    event["start"],
                    event["thread"],
                    {
                        "operator": event["id"],
                        "python": python[event["id"]],
                        "work": work(event),
                        "own": own,
                        "derivative of": recorded.get((event["forward thread"], event["sequence"])),
                    },
                )
            )
    return [row for _, _, row in sorted(rows, key=lambda row: row[:2])]
