"""The gradient of the whole batch, and the lists that were added on the way: the judge adds them itself."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from random import Random
from typing import Any

from autograder.exchange.evidence import Case, Evidence
from autograder.exercises.u7.average_gradients.visible import batch

MISCONCEPTIONS = {
    "no list": (
        "`average_gradients` must return a list with one entry for each parameter: a list of numbers as long as the "
        "parameter, or `None`."
    ),
    "a rank stays away": (
        "Some ranks wait in `all_reduce` for others that never come. Every rank must call it equally often, also one "
        "that has no rows or no gradient: a collective waits for everybody."
    ),
    "unlike lists": (
        "The ranks called `all_reduce` with lists of unlike lengths. All must make the same buckets: what goes into "
        "one may not depend on what only this rank knows."
    ),
    "mean of means": (
        "You gave each rank the same weight. The mean over all rows weighs each rank by its rows: a rank with 2 rows "
        "counts for less than one with 6."
    ),
    "sum of means": "You added the ranks' means. Weigh each with its share of all rows.",
    "only those who used it": (
        "You divided by the rows of those ranks that used the parameter. The loss is a mean over *all* rows; those "
        "that did not use it contribute zeros."
    ),
    "kept its own": "A rank returned its own gradient, or `None`, where another one had something to add.",
    "zeros for nobody": "No rank used this parameter: its gradient must be `None`. An optimiser leaves it alone then.",
    "zeros are unused": (
        "A rank used this parameter, and its gradient happens to be all zeros, or has no numbers. That is a gradient: "
        "only `None` says that a rank did not use it."
    ),
    "wrong gradient": "A gradient is not that of the mean over all rows.",
    "too much ahead": (
        "Before the buckets, one call of at most `1 + len(sizes)` numbers is free: whatever the ranks must agree on "
        "fits into it."
    ),
    "one by one": "You reduced each parameter by itself. Every call costs a round trip: fill buckets.",
    "all at once": (
        "You put everything into one bucket. It could leave only when the last gradient is there, so nothing would "
        "travel while the backward pass still computes. Start a new one when the limit is reached."
    ),
    "from the front": (
        "You filled the buckets from the first parameter on. The backward pass makes the last parameter's gradient "
        "first: begin there, so that the first bucket can leave early."
    ),
    "nobody's parameters travel": "A parameter that no rank used takes up room in a bucket.",
    "cut through": "A bucket holds a piece of a parameter. Parameters stay whole, however large they are.",
    "an empty call": (
        "You called `all_reduce` with an empty list. A bucket begins with its first parameter: where none is open, or "
        "no rank used any parameter, there is nothing to send."
    ),
    "other buckets": (
        "The buckets are others. From the last parameter to the first, each goes into the open bucket if it fits, and "
        "into a new one if not. One without numbers always fits."
    ),
    "not by the network": "The gradients that came out did not go through `all_reduce`. Ranks share nothing else.",
}

TOLERANCE = 1e-9


def hidden_cases(random: Random) -> list[Case]:
    """Each thing that goes wrong with uneven parts, once; then two batches of everything."""
    sizes = [3, 5, 2, 4]
    cases = [
        _drawn(random, "a rank without rows", sizes, [3, 0, 2], 7),
        _drawn(random, "one for nobody, one all zeros", sizes, [2, 5], 6, unused={(0, 1), (1, 1)}, zeros={3}),
        _drawn(random, "larger than a bucket", [1, 9, 2, 1], [4, 1], 4),
        _drawn(random, "exactly full", [1, 1, 2, 2, 4], [1, 3], 4),
        _drawn(random, "one rank", [1, 2, 3], [5], 4),
        _drawn(random, "nobody used the last", [1, 2, 2], [3, 1], 4, unused={(0, 2), (1, 2)}),
        _drawn(
            random, "nobody used anything", [2, 1], [3, 1], 4, unused={(rank, one) for rank in (0, 1) for one in (0, 1)}
        ),
        _drawn(random, "the last is larger than a bucket", [2, 1, 9], [2, 1], 4),
        _drawn(random, "a parameter without numbers", [2, 0, 3], [2, 1], 9, unused={(1, 1)}),
        _drawn(random, "one without numbers where all is full", [0, 2, 2], [2, 1], 4),
    ]
    for number in range(2):
        world, parameters = random.randint(3, 5), random.randint(5, 8)
        rows = [random.randint(1, 9) for _ in range(world)]
        rows[random.randrange(world)] = 0
        unused = {(rank, one) for rank in range(world) for one in range(parameters) if random.random() < 0.3}
        cases.append(
            _drawn(random, f"drawn {number}", [random.randint(1, 6) for _ in range(parameters)], rows, 8, unused=unused)
        )
    return cases


def _drawn(
    random: Random,
    name: str,
    sizes: list[int],
    rows: list[int],
    most: int,
    unused: Collection[tuple[int, int]] = (),
    zeros: Collection[int] = (),
) -> Case:
    gradients: list[list[list[float] | None]] = [
        [
            None
            if not own or (rank, number) in unused
            else [0.0 if number in zeros else random.uniform(-4, 4) for _ in range(size)]
            for number, size in enumerate(sizes)
        ]
        for rank, own in enumerate(rows)
    ]
    return batch(name, gradients, sizes, rows, most)


Gradients = list[list[float] | None]


def wanted(given: dict[str, Any]) -> Gradients:
    """The gradient of the mean over all rows, for each parameter."""
    total = sum(given["rows"])
    return _weighed(given, [rows / total for rows in given["rows"]])


def _weighed(given: dict[str, Any], shares: Sequence[float]) -> Gradients:
    found: Gradients = []
    for number, size in enumerate(given["sizes"]):
        own = [
            (share, rank[number])
            for share, rank in zip(shares, given["gradients"], strict=True)
            if rank[number] is not None
        ]
        if not own:
            found.append(None)
            continue
        found.append([sum(share * one[place] for share, one in own) for place in range(size)])
    return found


def _by_users(given: dict[str, Any]) -> Gradients:
    """The mean over the rows of those ranks only that used a parameter."""
    found = _weighed(given, given["rows"])
    for number, one in enumerate(found):
        rows = sum(
            rows for rows, rank in zip(given["rows"], given["gradients"], strict=True) if rank[number] is not None
        )
        found[number] = None if one is None else [value / rows for value in one]
    return found


def buckets(given: dict[str, Any], *, backwards: bool = True, everybody: bool = False) -> list[list[int]]:
    """The parameters of each bucket."""
    used = [
        number
        for number in range(len(given["sizes"]))
        if everybody or any(rank[number] is not None for rank in given["gradients"])
    ]
    found: list[list[int]] = []
    for number in reversed(used) if backwards else used:
        if not found or sum(given["sizes"][one] for one in [*found[-1], number]) > given["most"]:
            found.append([])
        found[-1].append(number)
    return found


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """The first thing that is wrong: of the calls, of the gradients, of the buckets, of what travelled."""
    given, values = case.parameters, evidence.values
    if values["stuck"]:
        yield "a rank stays away", f"({values['stuck']})"
        return
    if values["unlike"]:
        yield "unlike lists", f"({values['unlike']})"
        return
    if len(values["results"]) != len(given["rows"]) or any(one is None for one in values["results"]):
        yield "no list", ""
        return
    right = wanted(given)
    for rank, found in enumerate(values["results"]):
        for number, (one, other) in enumerate(zip(found, right, strict=True)):
            if not _same(one, other):
                yield _named(given, rank, number, one, other), f"(rank {rank}, parameter {number}: {_in_words(one)})"
                return
    lengths = [len(one[0]) for one in values["seen"]]
    ours = [sum(given["sizes"][one] for one in bucket) for bucket in buckets(given)]
    after = lengths[len(lengths) - len(ours) :]
    if after != ours or len(lengths) > len(ours) + 1 or (len(lengths) > len(ours) and lengths[0] > 1 + len(right)):
        yield _named_buckets(given, lengths), f"(calls of {lengths} numbers, wanted buckets of {ours})"
        return
    sums = [
        [sum(column) for column in zip(*lists, strict=True)] for lists in values["seen"][len(lengths) - len(ours) :]
    ]
    for bucket, found in zip(buckets(given), sums, strict=True):
        if not _travelled(found, right, bucket):
            front = buckets(given, backwards=False)
            forward = len(front) == len(sums) and all(
                len(one) == sum(given["sizes"][number] for number in own) and _travelled(one, right, own)
                for one, own in zip(sums, front, strict=True)
            )
            yield ("from the front" if forward else "not by the network"), f"(bucket of the parameters {bucket})"
            return


def _same(found: list[float] | None, other: list[float] | None) -> bool:
    if found is None or other is None:
        return found is other
    return len(found) == len(other) and all(
        math.isfinite(one) and abs(one - two) <= TOLERANCE * (1 + abs(two))
        for one, two in zip(found, other, strict=True)
    )


def _travelled(sums: list[float], right: Gradients, bucket: list[int]) -> bool:
    """Whether the sums are the bucket's gradients in some order, perhaps all scaled alike."""
    numbers = sorted(value for one in bucket for value in right[one] or ())
    largest, ours = max(map(abs, sums), default=0.0), max(map(abs, numbers), default=0.0)
    if largest == 0.0 or ours == 0.0:
        return largest == ours
    return any(
        all(abs(one * ours / largest - sign * two) <= 1e-6 * ours for one, two in zip(ordered, numbers, strict=True))
        for sign, ordered in ((1, sorted(sums)), (-1, sorted(sums, reverse=True)))
    )


def _named(given: dict[str, Any], rank: int, number: int, found: list[float] | None, right: list[float] | None) -> str:
    if right is None:
        return "zeros for nobody"
    world = len(given["rows"])
    own = given["gradients"][rank][number]
    if _same(found, _weighed(given, [1 / world] * world)[number]):
        return "mean of means"
    with_rows = sum(rows > 0 for rows in given["rows"])
    if _same(found, _weighed(given, [1 / with_rows] * world)[number]):
        return "mean of means"
    if _same(found, _by_users(given)[number]):
        return "only those who used it"
    if _same(found, own):
        return "kept its own"
    if found is None and not any(right):
        return "zeros are unused"
    if _same(found, _weighed(given, [1.0] * world)[number]):
        return "sum of means"
    return "wrong gradient"


def _named_buckets(given: dict[str, Any], lengths: list[int]) -> str:
    sizes, right = given["sizes"], buckets(given)

    def ends(found: list[list[int]]) -> bool:
        ours = [sum(sizes[one] for one in bucket) for bucket in found]
        return len(lengths) - len(ours) in (0, 1) and lengths[len(lengths) - len(ours) :] == ours

    if 0 in lengths and all(sizes):
        return "an empty call"
    used = [one for bucket in right for one in bucket]
    if ends([[one] for one in used]) or ends([[one] for one in reversed(used)]):
        return "one by one"
    if ends([used]):
        return "all at once"
    if ends(buckets(given, backwards=False)):
        return "from the front"
    if ends(buckets(given, everybody=True)):
        return "nobody's parameters travel"
    whole = [sum(sizes[one] for one in bucket) for bucket in right]
    if lengths[len(lengths) - len(whole) :] == whole:
        return "too much ahead"
    total = sum(sizes[one] for one in used)
    pieces = [given["most"]] * (total // given["most"]) + ([total % given["most"]] if total % given["most"] else [])
    if lengths[max(0, len(lengths) - len(pieces)) :] == pieces:
        return "cut through"
    return "other buckets"


def _in_words(found: list[float] | None) -> str:
    return "None" if found is None else f"{[round(one, 4) for one in found[:4]]}"
