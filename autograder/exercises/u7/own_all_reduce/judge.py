"""What travelled, on a network that lies with the judge: whose elements each number holds, and what each rank carried.

The judge draws elements so that every sum of some ranks' elements has one reading. So it can follow who could know
what: a rank sends only sums of what it had or was sent, and whoever has the whole sum in the end was told of each part.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from random import Random
from typing import Any

from autograder.exchange.evidence import Case, Evidence

MISCONCEPTIONS = {
    "no list": "`all_reduce` must return a list of whole numbers, as long as `numbers`.",
    "everybody waits": (
        "The ranks wait for one another, and nobody goes on. `send` returns at once, `receive` waits: a rank has to "
        "send before it waits for what only comes after."
    ),
    "left over": "A message was sent and never received. Every rank must fetch all that it is sent.",
    "sums at one rank only": (
        "Only one rank has the sums. That is a *reduce*; in an *all*-reduce the others get them as well."
    ),
    "sums are scattered": (
        "Each rank has the sums of its own part and not of the others'. That is a *reduce-scatter*, the first half: "
        "now the finished parts have to go round."
    ),
    "rest forgotten": (
        "The first elements are summed, the last ones are not. When the length cannot be divided by the number of "
        "ranks, some parts are one longer."
    ),
    "other length": "A result has another length than `numbers`.",
    "added twice": "An element of a rank is in a sum twice. Say which parts are added, and which only replaced.",
    "ranks are missing": "In a result, elements of some ranks are missing.",
    "kept from an earlier call": (
        "The first all-reduce is right. The next one, of longer lists or among fewer ranks, is not: something was kept "
        "from the call before. An all-reduce runs after every step, and each call begins anew: work out the parts from "
        "`numbers` and `world`, in variables of the function."
    ),
    "rounded": (
        "A sum is nearly right: it was rounded. A float holds whole numbers exactly only up to 2**53; Python's `int` "
        "holds all of them."
    ),
    "other numbers": "A result is no sum of the ranks' elements.",
    "through one rank": (
        "One rank carries far more than the others: everything goes through it, and with more ranks it becomes the "
        "bottleneck. Let each rank sum a part."
    ),
    "everything everywhere": (
        "Each rank sends whole lists, so its traffic grows with the number of ranks. Cut the list into as many parts "
        "as there are ranks: then each rank needs to send less than twice the list, however many ranks there are."
    ),
    "more than its share": (
        "A rank carries more numbers than the rule allows. Cut the list into parts that differ by one number at most, "
        "and let every rank have one of them, also where the number of ranks is no power of two."
    ),
    "no sum on the way": (
        "A message holds a number that is no sum of some ranks' elements. Send elements and sums of them, nothing else."
    ),
    "not by the network": (
        "A rank sent or returned what no message had told it. Ranks share nothing but messages: no global variable, "
        "no list that two of them can reach."
    ),
}

MOST_WORLD = 8

ROUNDING = 2**-49
"""Of a sum; so much and no more is lost where a few floats are added."""


def hidden_cases(random: Random) -> list[Case]:
    """A call after another one; worlds that are no power of two, lengths that cannot be divided, fewer elements than
    ranks, one rank alone.
    """
    # First, with numbers of ranks that no case had before: in the earlier call nothing has been kept yet.
    calls = {
        "longer lists than before": ((6, 6), (6, 6 * random.randint(2, 4))),
        "fewer ranks than before": ((7, 42), (6, 42)),
    }
    cases = [
        Case(name, {"earlier": drawn(random, *earlier), "numbers": drawn(random, *later)})
        for name, (earlier, later) in calls.items()
    ]
    sizes = [("one rank", 1, 5), ("5 ranks", 5, 10), ("as many as ranks", 4, 4), ("fewer than ranks", 5, 3)]
    sizes += [("no numbers", 3, 0), ("one number", 2, 1)]
    world = random.choice([6, 7, MOST_WORLD])
    sizes += [("many ranks", world, world * random.randint(2, 3) + random.randint(1, world - 1))]
    cases += [Case(name, {"numbers": drawn(random, ranks, length)}) for name, ranks, length in sizes]
    return cases


def drawn(random: Random, world: int, length: int) -> list[list[int]]:
    """Elements of which every sum over some ranks has one reading.

    They are too large for a float, and no sum of eight needs more than 64 bits.
    """
    while True:
        numbers = [[random.randrange(2**57, 2**59) for _ in range(length)] for _ in range(world)]
        if len(readings(numbers)) == length * (2**world - 1):
            return numbers


def readings(numbers: list[list[int]]) -> dict[int, tuple[int, frozenset[int]]]:
    """For each sum of some ranks' elements at one position: the position and the ranks."""
    world = len(numbers)
    found = {}
    for element in range(len(numbers[0])):
        for count in range(1, world + 1):
            for ranks in combinations(range(world), count):
                found[sum(numbers[rank][element] for rank in ranks)] = (element, frozenset(ranks))
    return found


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """The first thing that is wrong: of the results, of what travelled, of how much of it."""
    numbers, values = case.parameters["numbers"], evidence.values
    world, seen = len(numbers), values["seen"]
    earlier = case.parameters.get("earlier", [])
    kept = bool(earlier) and values["earlier"] == [_sums(earlier)] * len(earlier)
    if values["stuck"]:
        yield ("kept from an earlier call" if kept else "everybody waits"), f"({values['stuck']})"
        return
    results = values["results"]
    if len(results) != world or any(one is None for one in results):
        yield "no list", ""
        return
    found = _wrong_result(numbers, results) or _left_over(numbers, seen)
    if kept and found is not None:
        found = "kept from an earlier call", found[1]
    found = found or _wrong_message(numbers, seen) or _wrong_traffic(numbers, seen)
    if found is not None:
        yield found


def _sums(numbers: list[list[int]]) -> list[int]:
    return [sum(column) for column in zip(*numbers, strict=True)]


def _wrong_result(numbers: list[list[int]], results: list[list[int]]) -> tuple[str, str] | None:
    """What is wrong with the sums."""
    world, length = len(numbers), len(numbers[0])
    wanted = _sums(numbers)
    wrong = [rank for rank in range(world) if results[rank] != wanted]
    if not wrong:
        return None
    rank = wrong[0]
    result = results[rank]
    figures = f"(rank {rank} has {_in_words(result)}, wanted {_in_words(wanted)})"
    if len(result) != length:
        return "other length", figures
    if all(abs(one - other) < ROUNDING * other for one, other in zip(result, wanted, strict=True)):
        return "rounded", figures
    if len(wrong) == world - 1 and world > 1:
        return "sums at one rank only", figures
    right = [[found == sum_ for found, sum_ in zip(one, wanted, strict=False)] for one in results]
    own = [[found == mine for found, mine in zip(*pair, strict=False)] for pair in zip(results, numbers, strict=True)]
    rest = length % world
    if rest and all(
        all(one[: length - rest]) and all(same[length - rest :]) for one, same in zip(right, own, strict=True)
    ):
        return "rest forgotten", figures
    known = readings(numbers)
    element = right[rank].index(False)
    if result[element] in {wanted[element] + part for part, (place, _) in known.items() if place == element}:
        return "added twice", f"(rank {rank}, element {element})"
    if all(any(column) for column in zip(*right, strict=True)) and any(True in one and False in one for one in right):
        return "sums are scattered", figures
    place, ranks = known.get(result[element], (-1, frozenset()))
    if place == element:
        missing = ", ".join(str(one) for one in range(world) if one not in ranks)
        return "ranks are missing", f"(rank {rank}, element {element}: without rank {missing})"
    return "other numbers", figures


def most_traffic(world: int, length: int) -> int:
    """How many numbers a rank may send, and receive: two rounds of all parts but one, each as long as the longest."""
    return 2 * (world - 1) * -(-length // world)


def _left_over(numbers: list[list[int]], seen: list[list[Any]]) -> tuple[str, str] | None:
    """Whether a message was never fetched."""
    sent, fetched = (sum(one[0] == what for one in seen) for what in ("send", "receive"))
    return ("left over", f"({sent - fetched} of {sent})") if sent != fetched else None


def _wrong_traffic(numbers: list[list[int]], seen: list[list[Any]]) -> tuple[str, str] | None:
    """Whether a rank carried too much."""
    world, length = len(numbers), len(numbers[0])
    carried = {
        (what, rank): sum(len(one[3]) for one in seen if one[:2] == [what, rank])
        for what in ("send", "receive")
        for rank in range(world)
    }
    most = most_traffic(world, length)
    over = {key: count for key, count in carried.items() if count > most}
    if not over:
        return None
    (what, rank), count = max(over.items(), key=lambda item: item[1])
    figures = f"(rank {rank} {what}s {count} numbers, {most} are enough)"
    if all(rank in one[1:3] for one in seen if one[3]):
        return "through one rank", figures
    whole = {one[1] for one in seen if one[0] == "send" and len(one[3]) == length}
    return ("everything everywhere" if len(whole) == world else "more than its share"), figures


def _wrong_message(numbers: list[list[int]], seen: list[list[Any]]) -> tuple[str, str] | None:
    """Whether a number travelled, or stands in a result, that the rank could not know."""
    world, length = len(numbers), len(numbers[0])
    known = readings(numbers)
    knows = [[{rank} for _ in range(length)] for rank in range(world)]
    for what, rank, other, carried in seen:
        assert isinstance(rank, int)
        assert isinstance(carried, list)
        for number in carried:
            if number not in known:
                return "no sum on the way", f"(rank {rank}, {what}: {number})"
            element, ranks = known[number]
            if what == "send" and not ranks <= knows[rank][element]:
                return "not by the network", f"(rank {rank} sends element {element} to rank {other})"
            if what == "receive":
                knows[rank][element] |= ranks
    for rank in range(world):
        for element in range(length):
            if len(knows[rank][element]) < world:
                return "not by the network", f"(rank {rank} returns element {element})"
    return None


def _in_words(found: list[int]) -> str:
    return f"{found[:6]}{' …' if len(found) > 6 else ''}"
