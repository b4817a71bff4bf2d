"""ranges nest

Builds one tree of all events, in which each has one place.
"""


class Span:
    def __init__(self, event):
        self.event, self.inside = event, []

    def put(self, other):
        for span in self.inside:
            if other.event["end"] <= span.event["end"]:  # it does not begin earlier
                span.put(other)
                return
        self.inside.append(other)

    @property
    def kind(self):
        return self.event["kind"]

    @property
    def time(self):
        return self.event["end"] - self.event["start"]

    def calls(self):
        """The operators inside, looking through Python and ranges."""
        found = []
        for span in self.inside:
            found += [span] if span.kind == "operator" else span.calls()
        return found

    def work(self):
        calls = self.calls()
        return sum((one.work() for one in calls), []) if calls else [self.event["id"]]


def take_apart(events):
    found = []

    def walk(span, python):
        for one in span.inside:
            if one.kind == "operator":
                found.append((one, python))
            else:
                walk(one, one.event["id"] if one.kind == "python" else python)

    for thread in {event["thread"] for event in events}:
        root = Span(None)
        # Longer ones first: what is inside comes later. Then in order of time, so that the branches are.
        for event in sorted(events, key=lambda event: (event["start"], -event["end"])):
            if event["thread"] == thread:
                root.put(Span(event))
        walk(root, None)

    def origin(event):
        best = None
        for other in events:
            if other["forward thread"] is None:
                if (other["thread"], other["sequence"]) == (event["forward thread"], event["sequence"]):
                    if best is None or (other["start"], -other["end"]) > (best["start"], -best["end"]):
                        best = other
        return best and best["id"]

    found.sort(key=lambda pair: (pair[0].event["start"], pair[0].event["thread"]))
    return [
        {
            "operator": span.event["id"],
            "python": python,
            "work": span.work(),
            "own": span.time - sum(one.time for one in span.calls()),
            "derivative of": origin(span.event),
        }
        for span, python in found
    ]
