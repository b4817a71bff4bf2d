"""ranges nest

Keeps all events on one stack, and closes what has ended only where it lies on top.
"""


def take_apart(events: list[dict]) -> list[dict]:
    """Who called whom in a trace."""

    surrounded, open_events = {}, {}
    for event in sorted(events, key=lambda one: (one["start"], -one["end"])):
        stack = open_events.setdefault(event["thread"], [])
        while stack and stack[-1]["end"] <= event["start"]:
            stack.pop()
        surrounded[event["id"]] = stack[::-1]  # From the innermost to the outermost.
        stack.append(event)

    def caller(event):
        return next((one["id"] for one in surrounded[event["id"]] if one["kind"] == "operator"), None)

    operators = sorted((one for one in events if one["kind"] == "operator"), key=lambda one: one["start"])
    called = {one["id"]: [] for one in operators}
    for one in operators:
        if caller(one) is not None:
            called[caller(one)].append(one)

    def work(operator):
        if not called[operator["id"]]:
            return [operator["id"]]
        return [number for one in called[operator["id"]] for number in work(one)]

    def recorded_by(event):
        if event["forward thread"] is None:
            return None
        there = [
            one
            for one in operators
            if one["forward thread"] is None
            and one["thread"] == event["forward thread"]
            and one["sequence"] == event["sequence"]
        ]
        last = max(there, key=lambda one: (one["start"], -one["end"]), default=None)
        return None if last is None else last["id"]

    rows = []
    for one in sorted(operators, key=lambda one: (one["start"], one["thread"])):
        if caller(one) is None:
            rows.append(
                {
                    "operator": one["id"],
                    "python": next((o["id"] for o in surrounded[one["id"]] if o["kind"] == "python"), None),
                    "work": work(one),
                    "own": one["end"] - one["start"] - sum(o["end"] - o["start"] for o in called[one["id"]]),
                    "derivative of": recorded_by(one),
                }
            )
    return rows
