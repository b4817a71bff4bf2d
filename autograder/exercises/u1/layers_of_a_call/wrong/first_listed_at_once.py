"""outermost of a number

Of two forward operators that begin at once, takes the one that the list tells first.
"""


def take_apart(events: list[dict]) -> list[dict]:
    """Who called whom in a trace."""

    def inside(one, other):
        return (
            one is not other
            and one["thread"] == other["thread"]
            and other["start"] <= one["start"]
            and one["end"] <= other["end"]
        )

    def length(event):
        return event["end"] - event["start"]

    def begin(event):
        return event["start"], -event["end"]

    operators = [event for event in events if event["kind"] == "operator"]
    around = {one["id"]: sorted((other for other in events if inside(one, other)), key=length) for one in events}
    caller = {
        one["id"]: next((other["id"] for other in around[one["id"]] if other["kind"] == "operator"), None)
        for one in operators
    }
    called = {
        one["id"]: sorted((other for other in operators if caller[other["id"]] == one["id"]), key=begin)
        for one in operators
    }

    def leaves(one):
        return [leaf for other in called[one["id"]] for leaf in leaves(other)] or [one["id"]]

    def recorded_by(one):
        found = [
            other
            for other in operators
            if other["forward thread"] is None
            and other["thread"] == one["forward thread"]
            and other["sequence"] == one["sequence"]
        ]
        return (
            max(found, key=lambda other: other["start"])["id"] if found and one["forward thread"] is not None else None
        )

    outermost = [one for one in operators if caller[one["id"]] is None]
    return [
        {
            "operator": one["id"],
            "python": next((other["id"] for other in around[one["id"]] if other["kind"] == "python"), None),
            "work": leaves(one),
            "own": length(one) - sum(length(other) for other in called[one["id"]]),
            "derivative of": recorded_by(one),
        }
        for one in sorted(outermost, key=lambda one: (one["start"], one["thread"]))
    ]
