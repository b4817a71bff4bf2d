"""Who called whom in a trace: worked out from the same events, with a mistake or without."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from autograder.exchange.evidence import Case, Evidence
from autograder.exercises.u1.layers_of_a_call.visible import FACTS
from autograder.exercises.u1.traces import BACKWARD, PIECES, Event, trace

MISCONCEPTIONS = {
    "no rows": f"`take_apart` returns a list of dictionaries with these keys: {', '.join(FACTS)}.",
    "threads mixed": (
        "Events contain one another only within a thread. Two threads overlap in time and have nothing to do with "
        "each other."
    ),
    "order believed": "Events come in no order. Sort them, or ask of each pair.",
    "touching is inside": "An event that begins when another one ends isn't inside it.",
    "ties cut off": "An event may begin, or end, at the same time as the one around it. It's still inside.",
    "longer is around": (
        "Of two events that begin at once, the longer one is around the other. Sorted by their start alone they come "
        "in any order: sort by the start, and then the longer one first."
    ),
    "inner operators too": "A row is for an operator that isn't inside another *operator*.",
    "python is a layer": (
        "Python may be around an operator, and also inside one: a backward function written in Python. What that "
        "calls is still inside the operator."
    ),
    "ranges are operators": "A named range (kind `annotation`) is no operator: look through it.",
    "ranges nest": (
        "A named range may begin inside an event and end after it, as the profiler's own `ProfilerStep` does. A stack "
        "or a tree of all events then takes the wrong ones for open. A range calls nothing: leave ranges out before "
        "you look for who is inside whom."
    ),
    "outermost python": "`python` is the *innermost* Python function around the operator: the one that called it.",
    "ranges are python": "A named range is no Python function.",
    "direct calls": "`work` names operators that call no other operator, however deep they are.",
    "own is all": "`own` is what's left of the operator's time without the operators that it calls directly.",
    "own without all inside": (
        "`own` takes away the operators that are called *directly*. Time of those deeper inside is part of theirs."
    ),
    "sequence alone": (
        "Each thread counts sequence numbers for itself. A backward operator belongs to a forward operator on the "
        "thread that `forward thread` names."
    ),
    "first of a number": (
        "Several forward operators may have the same sequence number: each states the number that the *next* "
        "recorded node would get. The node belongs to the last one that began."
    ),
    "outermost of a number": (
        "The forward operator that recorded the node may be inside another one, and begin at once with it."
    ),
    "derivative of itself": "Look for the forward operator among those that have no `forward thread`.",
    "another order": "Rows are in the order of their operators' start, and of the thread where that is equal.",
    "wrong rows": "The rows are for other operators than the outermost ones.",
    "wrong python": "Another Python function called the operator, or none.",
    "wrong work": "Other operators did the work, or in another order.",
    "wrong own": "The operator's own time is another one.",
    "wrong derivative": "The backward operator belongs to another forward operator, or to none.",
}

FLAWS = (
    "threads mixed",
    "order believed",
    "touching is inside",
    "ties cut off",
    "longer is around, closed at the top",
    "longer is around, closed when they end earlier",
    "inner operators too",
    "python is a layer",
    "ranges are operators",
    "ranges nest, closed at the top",
    "ranges nest, closed when they end earlier",
    "ranges nest, in a tree",
    "outermost python",
    "ranges are python",
    "direct calls",
    "own is all",
    "own without all inside",
    "sequence alone",
    "outermost of a number",
    "first of a number",
    "derivative of itself",
    "another order",
    "outermost of a number, as the list has them",
)
"""Mistakes in `rows`: names of misconceptions, some with the way to make it behind a comma."""

OF_A_FACT = {
    "operator": "wrong rows",
    "python": "wrong python",
    "work": "wrong work",
    "own": "wrong own",
    "derivative of": "wrong derivative",
}


def hidden_cases(random: Random) -> list[Case]:
    """One case for each thing that is easily forgotten, then random programs on several threads."""

    def seed() -> int:
        return random.randrange(1 << 30)

    cases = [
        Case("deep inside", {"events": trace([["linear", "product"]], seed())}),
        Case("Python inside", {"events": trace([["cubed", "add", BACKWARD]], seed())}),
        Case("nothing recorded", {"events": trace([["constant", BACKWARD]], seed())}),
        Case("the same number", {"events": trace([["no_grad", "zeros", "linear", BACKWARD]], seed())}),
        Case("numbers of two threads", {"events": trace([["relu", "add", BACKWARD], ["square", BACKWARD]], seed())}),
        Case(
            "a thread for the engine", {"events": trace([["linear", "softmax", BACKWARD]], seed(), engine_thread=True)}
        ),
        Case(
            "ranges around everything",
            {"events": trace([["layer_norm", "cat", "module", BACKWARD], ["turned"]], seed(), ranges=True)},
        ),
        Case("nothing happened", {"events": []}),
        Case("many things at once", {"events": at_once()}),
        Case("many things at once, told the other way round", {"events": at_once()[::-1]}),
        Case("ranges that cross", {"events": crossing(random)}),
        Case("ranges across calls", {"events": crossed(trace([["softmax", "module", BACKWARD]], seed()), random)}),
        Case("zeros outside", {"events": with_zeros(0, 1)}),
        Case("zeros inside", {"events": with_zeros(1, 0)}),
    ]
    for number in range(4):
        programs = [random_program(random) for _ in range(random.randint(1, 2))]
        options = {"engine_thread": random.random() < 0.5, "ranges": random.random() < 0.5}
        events = trace(programs, seed(), **options)
        cases.append(Case(f"random {number}", {"events": crossed(events, random) if options["ranges"] else events}))
    return cases


def event(number: int, kind: str, start: int, end: int, thread: int = 0, **more: Any) -> Event:
    """An event by hand."""
    plain = {"id": number, "name": f"{kind} {number}", "kind": kind, "thread": thread, "start": start, "end": end}
    return {**plain, "sequence": None, "forward thread": None, **more}


def with_zeros(outer: int, inner: int) -> list[Event]:
    """A call of two operators, and the engine's, in which whatever may be 0 is: 0 is a number like any other."""
    return [
        event(2, "operator", 9, 20, 7000, sequence=0, **{"forward thread": 0}),
        event(inner, "operator", 0, 5, sequence=0),
        event(outer, "operator", 0, 8, sequence=0),
    ]


def at_once() -> list[Event]:
    """A trace in which several things begin together: calls, threads, and what lies between an operator and another.

    One thread and one function are number 0, which is false, and a number like any other.
    """
    engine = {"sequence": 300, "forward thread": 0}
    return [
        event(1007, "operator", 312, 320, sequence=300),
        event(1000, "operator", 310, 330, 7000, sequence=300),
        event(1004, "operator", 310, 400, sequence=300),
        event(1006, "operator", 312, 340, sequence=300),
        event(1012, "operator", 505, 525, 7101, **engine),
        event(1003, "annotation", 305, 440),
        event(0, "python", 300, 450),
        event(1009, "operator", 361, 380),
        event(1001, "python", 300, 500),
        event(1005, "python", 312, 360),
        event(1008, "annotation", 360, 380),
        event(1011, "operator", 500, 530, 7101, **engine),
        event(1013, "operator", 530, 540, 7101),
        # It calls no operator, and does the work itself, whatever else lies in it.
        event(1014, "operator", 650, 690, 7200),
        event(1015, "annotation", 655, 680, 7200),
        event(1016, "python", 660, 670, 7200),
        # It begins with another thread's operator, is shorter, and its thread comes first.
        event(1017, "operator", 650, 660, 7199),
        # The engine runs it, and what recorded its node was before the trace began.
        event(1018, "operator", 700, 720, 7101, **{**engine, "sequence": 299}),
        # The last to begin takes longer than the one before it, which has the same number.
        event(1021, "operator", 420, 422, sequence=298),
        event(1022, "operator", 430, 440, sequence=298),
        event(1023, "operator", 600, 610, 7101, **{**engine, "sequence": 298}),
        # The engine doesn't run it, but what it calls.
        event(1019, "operator", 700, 740, 7200),
        event(1020, "operator", 705, 730, 7200, **engine),
    ]


def crossing(random: Random) -> list[Event]:
    """Ranges that begin inside an event and end after it, or the other way around, and operators beside them.

    Operators and functions are inside one another or apart, as everywhere.
    """
    begin, numbers = random.randint(0, 50), random.sample(range(1000, 2000), 12)
    places = [
        # It ends the first operator's time for whoever keeps a stack, and the second one looks like a part of it.
        ("operator", 0, 10),
        ("annotation", 5, 15),
        ("operator", 6, 9),
        ("operator", 11, 14),
        # The function has ended, and the range that began in it has not.
        ("python", 20, 30),
        ("annotation", 25, 60),
        ("operator", 35, 40),
        # The function began within that range.
        ("python", 50, 80),
        ("operator", 52, 58),
        ("operator", 65, 75),
        # It begins in one operator and ends in another one.
        ("annotation", 54, 70),
        ("operator", 66, 69),
    ]
    events = [
        event(number, kind, begin + start, begin + end, sequence=None)
        for number, (kind, start, end) in zip(numbers, places, strict=True)
    ]
    random.shuffle(events)
    return events


def crossed(events: list[Event], random: Random) -> list[Event]:
    """The same events with up to three ranges, each of which begins inside one of them and ends after it."""
    taken = {(one["thread"], one["start"], one["end"]) for one in events}
    long = [one for one in events if one["end"] - one["start"] > 2]
    made: list[Event] = []
    for one in random.sample(long, min(3, len(long))):
        start = random.randint(one["start"] + 1, one["end"] - 1)
        place = one["thread"], start, one["end"] + random.randint(1, 40)
        if place not in taken:
            taken.add(place)
            number = max(other["id"] for other in [*events, *made]) + 1
            made.append(event(number, "annotation", *place[1:], one["thread"]))
    return random.sample([*events, *made], len(events) + len(made))


def random_program(random: Random) -> list[str]:
    """Two to four pieces, mostly with a backward pass."""
    pieces = random.choices(sorted(PIECES), k=random.randint(2, 4))
    return [*pieces, BACKWARD] if random.random() < 0.8 else pieces


class _Nesting:
    """Which event is inside which, with a mistake or without."""

    def __init__(self, events: list[Event], flaw: str) -> None:
        self.events, self.flaw = events, flaw
        self.place = {one["id"]: number for number, one in enumerate(events)}
        nested = self._nested() if flaw.startswith(("ranges nest", "longer is around")) else {}
        self.around = nested or {one["id"]: self._around(one) for one in events}
        self.operators = [one for one in events if self.is_operator(one)]
        self.callers = {one["id"]: self._caller(one) for one in self.operators}
        self.called: dict[int, list[Event]] = {one["id"]: [] for one in self.operators}
        for one in sorted(self.operators, key=lambda one: (one["start"], one["end"])):
            caller = self.callers[one["id"]]
            if caller is not None:
                self.called[caller["id"]].append(one)

    def _around(self, one: Event) -> list[Event]:
        """The events around one, the innermost first."""
        found = [other for other in self.events if other is not one and self._inside(one, other)]
        return sorted(found, key=lambda other: (other["end"] - other["start"], -other["start"]))

    def _nested(self) -> dict[int, list[Event]]:
        """The events around each one, for whoever believes that they are inside one another or apart."""
        around: dict[int, list[Event]] = {}
        inside: dict[tuple[str, int], list[Event]] = {}
        still_open: dict[int, list[Event]] = {}
        ties = self.flaw.startswith("longer is around")
        for one in sorted(self.events, key=lambda one: (one["start"], 0 if ties else -one["end"])):
            if ties and one["kind"] == "annotation":
                around[one["id"]] = []
                continue
            stack = still_open.setdefault(one["thread"], [])
            if self.flaw == "ranges nest, in a tree":
                stack = []
                beside = inside.setdefault(("thread", one["thread"]), [])
                while (above := next((other for other in beside if one["end"] <= other["end"]), None)) is not None:
                    stack.append(above)
                    beside = inside.setdefault(("event", above["id"]), [])
                beside.append(one)
            elif self.flaw.endswith("closed at the top"):
                while stack and stack[-1]["end"] <= one["start"]:
                    stack.pop()
            else:
                while stack and stack[-1]["end"] < one["end"]:
                    stack.pop()
            around[one["id"]] = stack[::-1]
            stack.append(one)
        return around

    def _inside(self, one: Event, other: Event) -> bool:
        if one["thread"] != other["thread"] and self.flaw != "threads mixed":
            return False
        if self.flaw == "order believed" and self.place[one["id"]] < self.place[other["id"]]:
            return False
        if self.flaw == "ties cut off":
            return bool(other["start"] < one["start"] and one["end"] < other["end"])
        if self.flaw == "touching is inside" and one["start"] == other["end"]:
            return True
        same = (one["start"], one["end"]) == (other["start"], other["end"])
        return bool(other["start"] <= one["start"] and one["end"] <= other["end"] and not same)

    def is_operator(self, one: Event) -> bool:
        """Whether an event is taken for an operator."""
        return one["kind"] == "operator" or (one["kind"] == "annotation" and self.flaw == "ranges are operators")

    def _caller(self, one: Event) -> Event | None:
        """The operator that is directly around one."""
        for other in self.around[one["id"]]:
            if self.is_operator(other):
                return other
            if self.flaw == "python is a layer" and other["kind"] == "python":
                return None
        return None

    def leaves(self, one: Event) -> list[int]:
        """The operators inside one (itself among them) that call no other."""
        called = self.called[one["id"]]
        if self.flaw == "direct calls" and called:
            return [other["id"] for other in called]
        return [leaf for other in called for leaf in self.leaves(other)] if called else [one["id"]]

    def python(self, one: Event) -> int | None:
        """The Python function around an operator."""
        kinds = ("python", "annotation") if self.flaw == "ranges are python" else ("python",)
        found = [other["id"] for other in self.around[one["id"]] if other["kind"] in kinds]
        return (found[-1] if self.flaw == "outermost python" else found[0]) if found else None

    def own(self, one: Event) -> int:
        """Nanoseconds of an operator without what it calls."""
        inside = self.called[one["id"]]
        if self.flaw == "own is all":
            inside = []
        elif self.flaw == "own without all inside":
            inside = [other for other in self.operators if one in self.around[other["id"]]]
        return int(one["end"] - one["start"] - sum(other["end"] - other["start"] for other in inside))

    def derivative_of(self, one: Event) -> int | None:
        """The forward operator that recorded the node which a backward operator runs."""
        if one["forward thread"] is None or one["sequence"] is None:
            return None
        found = [
            other
            for other in self.operators
            if other is not one
            and other["sequence"] == one["sequence"]
            and (other["forward thread"] is None or self.flaw == "derivative of itself")
            and (other["thread"] == one["forward thread"] or self.flaw in ("sequence alone", "derivative of itself"))
        ]
        if self.flaw == "outermost of a number":
            found = [other for other in found if self.callers[other["id"]] is None] or found
        # Of two that begin at once the inner one began later.
        inner = self.flaw != "outermost of a number, as the list has them"
        found.sort(
            key=lambda other: (other["start"], -other["end"] if inner else 0), reverse=self.flaw != "first of a number"
        )
        return found[0]["id"] if found else None


def rows(events: list[Event], flaw: str = "") -> list[dict[str, Any]]:
    """What the task asks about a trace."""
    nesting = _Nesting(events, flaw)
    outermost = [
        one for one in nesting.operators if nesting.callers[one["id"]] is None or flaw == "inner operators too"
    ]
    if flaw != "another order":
        outermost.sort(key=lambda one: (one["start"], one["thread"]))
    return [
        {
            "operator": one["id"],
            "python": nesting.python(one),
            "work": nesting.leaves(one),
            "own": nesting.own(one),
            "derivative of": nesting.derivative_of(one),
        }
        for one in outermost
    ]


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """The mistake that leads to the learner's rows; else what is wrong with the first row that differs."""
    events, found = case.parameters["events"], evidence.values["rows"]
    if found is None or None in found:
        yield "no rows", ""
        return
    wanted = rows(events)
    if found == wanted:
        return
    told = _first_difference({one["id"]: one for one in events}, found, wanted)
    for flaw in FLAWS:
        if found == rows(events, flaw):
            yield flaw.partition(",")[0], told[1]
            return
    yield told


def _first_difference(
    events: dict[int, Event], found: list[dict[str, Any]], wanted: list[dict[str, Any]]
) -> tuple[str, str]:
    if sorted(row["operator"] or 0 for row in found) == sorted(row["operator"] for row in wanted):
        by_operator = {row["operator"]: row for row in found}
        if [row["operator"] for row in found] != [row["operator"] for row in wanted]:
            return "another order", ""
        for right in wanted:
            row = by_operator[right["operator"]]
            for fact in FACTS:
                if row[fact] != right[fact]:
                    name = events[right["operator"]]["name"]
                    return OF_A_FACT[fact], f"({name}, {fact}: found {row[fact]}, wanted {right[fact]})"
    return "wrong rows", f"(found {len(found)} rows, wanted {len(wanted)})"
