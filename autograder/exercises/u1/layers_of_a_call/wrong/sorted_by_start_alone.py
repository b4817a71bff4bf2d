"""longer is around

Keeps a stack of events that are sorted by their start alone.
"""


def take_apart(events: list[dict]) -> list[dict]:
    """Who called whom in a trace."""
    parent, children = {}, {}
    stacks = {}
    nested = [event for event in events if event["kind"] != "annotation"]  # These never cross.
    nested.sort(key=lambda event: event["start"])
    for event in nested:
        stack = stacks.setdefault(event["thread"], [])
        while stack and stack[-1]["end"] < event["end"]:
            stack.pop()
        parent[event["id"]] = list(stack)
        stack.append(event)

    def caller(event):
        for outer in reversed(parent[event["id"]]):
            if outer["kind"] == "operator":
                return outer
        return None

    operators = [event for event in nested if event["kind"] == "operator"]
    rows, inside = [], {}
    for event in operators:
        above = caller(event)
        if above is None:
            rows.append(event)
        else:
            children.setdefault(above["id"], []).append(event)
        top = next((one for one in parent[event["id"]] if one["kind"] == "operator"), event)
        inside.setdefault(top["id"], []).append(event)

    def recorder(event):
        if event["forward thread"] is None or event["sequence"] is None:
            return None
        found = [
            one
            for one in operators
            if one["forward thread"] is None
            and one["thread"] == event["forward thread"]
            and one["sequence"] == event["sequence"]
        ]
        return max(found, key=lambda one: (one["start"], -one["end"]))["id"] if found else None

    rows.sort(key=lambda event: (event["start"], event["thread"]))
    return [
        {
            "operator": event["id"],
            "python": parent[event["id"]][-1]["id"] if parent[event["id"]] else None,
            "work": [one["id"] for one in inside[event["id"]] if one["id"] not in children],
            "own": event["end"]
            - event["start"]
            - sum(one["end"] - one["start"] for one in children.get(event["id"], [])),
            "derivative of": recorder(event),
        }
        for event in rows
    ]
