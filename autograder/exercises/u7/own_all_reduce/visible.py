"""The learner's side: ranks with a network between them, which lies outside; cases, probe and display."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from autograder.exchange.evidence import Case, Evidence
from autograder.exercises.u7.ranks import Ranks, StuckError, whole_numbers
from autograder.learner_side.outside import Ask, held

MOST_NUMBERS = 1000
"""Longest message, in numbers."""


class Network:
    """Carries messages between ranks, in order, and keeps them until they are fetched.

    Attributes:
        record: what happened: `["send", rank, to, numbers]` and `["receive", rank, source, numbers]`.
    """

    def __init__(self, world: int) -> None:
        self._world = world
        self._boxes: dict[tuple[int, int], deque[list[int]]] = {}
        self.record: list[list[Any]] = []

    def answer(self, question: Any) -> Any:
        """Take a message (`["send", rank, to, numbers]`), or hand out the oldest one (`["receive", rank, source]`)."""
        what, rank, other, *rest = question
        if type(rank) is not int or type(other) is not int or not all(0 <= one < self._world for one in (rank, other)):
            raise ValueError("messages go from rank to rank")
        if what == "send":
            [numbers] = rest
            if whole_numbers(numbers) is None or len(numbers) > MOST_NUMBERS or rank == other:
                raise ValueError("a message is a list of whole numbers, to another rank")
            self._boxes.setdefault((rank, other), deque()).append(numbers)
            self.record.append(["send", rank, other, numbers])
            return None
        if what != "receive":
            raise ValueError("messages are sent or received")
        box = self._boxes.get((other, rank))
        if not box:
            raise ValueError("there is no such message")
        numbers = box.popleft()
        self.record.append(["receive", rank, other, numbers])
        return numbers


def instrument(case: Case) -> Network:
    """The network of a case, as new."""
    return Network(len(case.parameters["numbers"]))


class Endpoints:
    """What the ranks send and receive with.

    Args:
        ranks: takes turns.
        ask: asks the network.
    """

    def __init__(self, ranks: Ranks, ask: Ask) -> None:
        self._ranks, self._ask = ranks, ask
        self._sent: dict[tuple[int, int], int] = {}

    def send(self, rank: int) -> Callable[[int, Any], None]:
        """The `send` of a rank."""

        def send(to: int, numbers: Any) -> None:
            whole = whole_numbers(numbers)
            if whole is None or len(whole) > MOST_NUMBERS:
                raise TypeError(f"send takes a list of at most {MOST_NUMBERS} whole numbers")
            self._check(rank, to)
            self._ask(["send", rank, to, whole])
            self._sent[rank, to] = self._sent.get((rank, to), 0) + 1

        return send

    def receive(self, rank: int) -> Callable[[int], list[int]]:
        """The `receive` of a rank."""

        def receive(source: int) -> list[int]:
            self._check(rank, source)
            self._ranks.wait(rank, lambda: self._sent.get((source, rank), 0) > 0, f"for a message of rank {source}")
            self._sent[source, rank] -= 1
            found: list[int] = self._ask(["receive", rank, source])
            return list(found)

        return receive

    def _check(self, rank: int, other: Any) -> None:
        if type(other) is not int or not 0 <= other < self._ranks.world:
            raise ValueError(f"there is no rank {other!r}: ranks go from 0 to {self._ranks.world - 1}")
        if other == rank:
            raise ValueError(f"rank {rank} sends and receives messages of other ranks, not its own")


def readable(world: int, length: int) -> list[list[int]]:
    """Numbers that show whose they are: element `i` is `i + 1` two digits further left on each rank."""
    return [[(element + 1) * 100**rank for element in range(length)] for rank in range(world)]


def visible_cases() -> list[Case]:
    """Two ranks, four ranks with elements that can be dealt out evenly, and three ranks with one left over."""
    return [
        Case("2 ranks, 4 numbers", {"numbers": readable(2, 4)}),
        Case("4 ranks, 8 numbers", {"numbers": readable(4, 8)}),
        Case("3 ranks, 7 numbers", {"numbers": readable(3, 7)}),
    ]


def probe(case: Case, all_reduce: Any) -> Evidence:
    """Run the learner's function once for each rank; where the case says so, after another all-reduce.

    What happens in the earlier one is its own affair. Only its results are told: whoever gets those right and the later
    ones wrong has kept something.
    """
    earlier: list[list[int]] = case.parameters.get("earlier", [])
    before = _run(all_reduce, earlier, Network(len(earlier)).answer) if earlier else []
    ask, seen = held(lambda: instrument(case))
    try:
        found = _run(all_reduce, case.parameters["numbers"], ask)
    except StuckError as error:
        return Evidence({"stuck": str(error)[:400], "results": [], "seen": seen, "earlier": before})
    return Evidence({"stuck": "", "results": found, "seen": seen, "earlier": before})


def _run(all_reduce: Any, numbers: list[list[int]], ask: Ask) -> list[list[int] | None]:
    """What each rank returns.

    Raises:
        StuckError: no rank could go on.
    """
    world = len(numbers)
    ranks = Ranks(world)
    ends = Endpoints(ranks, ask)

    def program(rank: int) -> Callable[[], Any]:
        return lambda: all_reduce(list(numbers[rank]), rank, world, ends.send(rank), ends.receive(rank))

    return [whole_numbers(one) for one in ranks.run([program(rank) for rank in range(world)])]


def show(case: Case, evidence: Evidence) -> list[Any]:
    """The first messages, and what each rank has in the end."""
    values = evidence.values
    lines = [f"{case.name}: the first messages"]
    sent = [one for one in values["seen"] if one[0] == "send"]
    lines += [f"  rank {rank} to rank {to}: {numbers}" for _, rank, to, numbers in sent[:8]]
    lines += ["  …"] if len(sent) > 8 else []
    if values["stuck"]:
        lines.append(f"  nobody goes on: {values['stuck']}")
    lines += [f"  rank {rank} has {found}" for rank, found in enumerate(values["results"])]
    return ["\n".join(lines)]
