"""Whether views meet, worked out exactly; a position that is named is looked for in both views.

Short dimensions are tried one by one; what is left is a linear equation in two whole numbers with bounds, which the
extended Euclidean algorithm solves (Knuth, *The Art of Computer Programming*, volume 2, 4.5.2).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import gcd, prod
from random import Random
from typing import Any

from autograder.exchange.evidence import Case, Evidence
from autograder.exercises.u2.common_elements.visible import ShortView, in_words

MISCONCEPTIONS = {
    "asked PyTorch": "Your functions make tensors. Work it out from the numbers: such tensors may not even fit into "
    "memory.",
    "not a position": "Return a position, which is one whole number, or `None`. `True` and `False` are neither.",
    "ranges compared": (
        "These views lie in the same stretch of memory and still do not meet: like the teeth of two combs, they may "
        "pass between each other. Only a position that both really reach counts."
    ),
    "not reached by both": "One of the two views does not reach this position: no index leads there.",
    "offset forgotten": (
        "The position counts from the beginning of memory, not from that of the view: the offset is part of it."
    ),
    "beyond the end": (
        "Without the sizes there would be a meeting place, but it lies beyond the end of a view. That the greatest "
        "common divisor fits is needed, and is not enough."
    ),
    "met and not found": "These views meet, and you did not find where.",
    "gave up": (
        "These views meet far along, and you found nothing. Who tries indices never gets there: solve the equation, in "
        "whole numbers (`/` gives a float, which has 16 digits). If you do: is your solution moved to where *both* "
        "views have begun, and does the last index of a dimension count?"
    ),
    "0 is a position": (
        "Position 0 is the only one here, and you gave `None`. 0 is a position like any other, and is false, too: ask "
        "`is None`."
    ),
    "empty view": "A view with a size of 0 reaches nothing at all, so it can meet nothing, not even itself.",
    "stride 0": (
        "With a stride of 0 and more than one index, all of these indices lead to the same place: the view touches it "
        "twice."
    ),
    "touched once only": "Only one index of the view leads to this position, or none does.",
    "touched twice not found": "Two different indices of this view lead to the same position, and you did not find it.",
}

SHORT = 8
"""Longest size of all dimensions but one."""

MOST_WALKED = 1000
"""Longest size that is walked along to see whether 0 is the only common position."""


def hidden_cases(random: Random) -> list[Case]:
    """What is easily forgotten, one case for each kind, then random views around a place where they meet or just do "
    "not."""
    long = 10**12
    fixed: dict[str, tuple[list[list[ShortView]], list[ShortView]]] = {
        "no elements, no dimensions": (
            [
                [[[0], [1], 0], [[5], [1], 0]],
                [[[5, 0], [1, 1], 2], [[5, 0], [1, 1], 2]],
                [[[0], [0], 5], [[], [], 5]],
                [[[], [], 5], [[0], [0], 5]],
                [[[], [], 3], [[], [], 3]],
                [[[], [], 3], [[], [], 4]],
                [[[], [], 7], [[long], [7], 0]],
                [[[], [], 8], [[long], [7], 0]],
            ],
            [[[0, 4], [0, 0], 0], [[], [], 5], [[1], [0], 3], [[4, 1, 0], [0, 0, 0], 1]],
        ),
        # A step forward in one short dimension, and back in the other and in the long one.
        "back and forth": ([], [[[2, 3, 4], [1, 6, 5], 0], [[3, 2, 4], [6, 1, 5], 9], [[3, 2, 4], [1, 9, 7], 4]]),
        "stride 0": (
            [
                [[[4], [0], 6], [[long], [3], 0]],
                [[[4], [0], 7], [[long], [3], 0]],
                [[[long], [0], 5], [[long], [0], 5]],
                [[[long], [0], 5], [[long], [0], 6]],
                [[[8, 2], [0, 5], 3], [[3, 4], [1, 0], 8]],
                [[[2], [3], 0], [[2], [2], 0]],
            ],
            [[[3], [0], 0], [[long, 8], [1, 0], 3], [[long, 1], [1, 0], 3], [[2], [0], 9], [[8, 8], [0, 1], 0]],
        ),
        "just so": (
            # The only common place is the last element of one, or one step beyond it.
            [
                [[[long], [7], 0], [[3], [11], 7 * (long - 1)]],
                [[[long - 1], [7], 0], [[3], [11], 7 * (long - 1)]],
                [[[5], [7], 30], [[5], [9], 4]],
                [[[long], [2], 0], [[long], [2], 2 * long]],
                [[[long], [2], 0], [[long], [2], 2 * long - 2]],
                [[[3], [10], 100], [[long], [10], 0]],
            ],
            [[[8, 3], [3, 8], 0], [[8, 4], [3, 8], 0], [[8, 4], [3, 8], 11], [[8, 9], [9, 8], 4], [[9, 9], [9, 8], 4]],
        ),
        "combs": (
            [
                [[[long], [8], 0], [[long, 3], [8, 2], 1]],
                [[[long, 3], [8, 2], 0], [[long, 3], [8, 3], 1]],
                [[[long, 2, 2], [60, 20, 5], 0], [[long, 2], [60, 10], 1]],
                [[[long, 2, 2], [60, 20, 5], 0], [[2, long], [7, 60], 13]],
            ],
            [[[long, 4, 4], [16, 4, 1], 0], [[long, 4, 4], [15, 4, 1], 0], [[long, 5, 4], [16, 4, 1], 7]],
        ),
        "far away": (
            [
                [[[long], [10**6 + 3], 0], [[long], [10**6 + 33], 1]],
                [[[long], [10**6 + 3], 0], [[1000], [10**6 + 33], 1]],
                # The only common place is the middle one of the three: with floats it is lost.
                [[[long], [10**6 + 3], 0], [[3], [10**6 + 33], (10**6 + 3) * (long - 2) - 10**6 - 33]],
                [[[8, long], [1, 999_983], 0], [[long, 2], [1_000_003, 1], 500]],
                # The same with a small step, of which there would be more than a float can tell apart.
                *([[[long], [10**6 + 3], 0], [[3], [7], (10**6 + 3) * (long - 2) - 7 * i]] for i in range(6)),
                *([[[3], [7], (10**6 + 3) * (long - 2) - 7 * i], [[long], [10**6 + 3], 0]] for i in range(6)),
                # The second begins 1 behind an element of the first: as a float that is where the element lies.
                [[[2 * long], [10**5], 0], [[10**6], [1], 10**5 * long + 1]],
            ],
            [[[long, 8, 8], [10**6, 10**6 + 1, 7], 0], [[long, 8], [10**6, 3 * 10**6], 2], [[8, long], [12, 100], 1]],
        ),
    }
    fixed["one index or one place, and a long one"] = (_alone(long), [])
    cases = [Case(name, {"pairs": pairs, "views": views}) for name, (pairs, views) in fixed.items()]
    cases.append(Case("all small ones", {"pairs": _small_pairs(), "views": _small_views()}))
    for number in range(3):
        pairs = [_random_pair(random) for _ in range(8)]
        cases.append(Case(f"random {number}", {"pairs": pairs, "views": [_random_view(random) for _ in range(8)]}))
    return cases


def _alone(long: int) -> list[list[ShortView]]:
    """A view that touches one place only, at both ends of a long one, beyond them, and between two of its elements."""
    alone = [[[1], [9], 0], [[5], [0], 0], [[], [], 0]]
    places = [63, 70, 63 + 7 * (long - 1), 63 + 7 * long, 56, 64, 63 + 7 * (long - 2) + 1]
    pairs = [[[*one[:2], place], [[long], [7], 63]] for one in alone for place in places]
    return [*pairs, *([other, one] for one, other in pairs)]


def _small_pairs() -> list[list[ShortView]]:
    """Every pair of two short progressions: of each step and size, and each distance between where they begin."""
    steps = [[[size], [stride]] for size in (1, 3) for stride in (0, 1, 2, 4, 6)]
    return [[[*one, 6], [*other, place]] for one in steps for other in steps for place in range(13)]


def _small_views() -> list[ShortView]:
    """Every view of two dimensions with small sizes and strides, and some of three."""
    two = [[*sizes, *strides] for sizes in product((1, 2, 3), (1, 2, 4)) for strides in product(range(6), repeat=2)]
    three = [[*sizes, *strides] for sizes in ((2, 1, 3), (2, 2, 2)) for strides in product(range(4), repeat=3)]
    return [[one[: len(one) // 2], one[len(one) // 2 :], 2] for one in (*two, *three)]


def _random_view(random: Random) -> ShortView:
    rank = random.randint(1, 3)
    sizes = [random.randint(1, SHORT) for _ in range(rank)]
    if random.random() < 0.7:
        sizes[random.randrange(rank)] = random.choice([20, 1000, 10**6, 10**10])
    return [sizes, [random.choice([0, 1, 2, 3, 5, 6, 8, 12, 30, 64, 1000]) for _ in range(rank)], random.randint(0, 50)]


def _random_pair(random: Random) -> list[ShortView]:
    """Two views; the second begins, one time in two, a little before or after a place that the first one reaches."""
    first, second = _random_view(random), _random_view(random)
    if random.random() < 0.5:
        index = [random.randrange(size) for size in first[0]]
        second[2] = max(
            0, first[2] + sum(i * stride for i, stride in zip(index, first[1], strict=True)) + random.choice([0, 1])
        )
    return [first, second]


def split(view: ShortView) -> tuple[list[int], int, int]:
    """Where the long dimension begins for each index of the short ones, then its size and stride."""
    sizes, strides, offset = view
    if not prod(sizes):
        return [], 0, 0
    long = max(range(len(sizes)), key=lambda dim: sizes[dim], default=None)
    others = [dim for dim in range(len(sizes)) if dim != long]
    starts = [
        offset + sum(i * strides[dim] for i, dim in zip(index, others, strict=True))
        for index in product(*(range(sizes[dim]) for dim in others))
    ]
    return starts, 1 if long is None else sizes[long], 0 if long is None else strides[long]


def ways(view: ShortView, place: int) -> int:
    """How many indices of a view lead to a position; no dimension but one is tried index by index."""
    starts, size, stride = split(view)
    if stride == 0:
        return size * starts.count(place)
    return sum((place - start) % stride == 0 and 0 <= (place - start) // stride < size for start in starts)


def where_they_meet(first: ShortView, second: ShortView, *, bounded: bool = True) -> int | None:
    """A position that both views reach; `None` where there is none. Without bounds, as if the long ones had no end."""
    starts, size, s = split(first)
    others, length, t = split(second)
    if not bounded:
        size, length = (10**30 if stride and count > 1 else count for stride, count in ((s, size), (t, length)))
    for start in set(starts):
        for other in set(others):
            place = _meeting(start, s, size, other, t, length)
            if place is not None:
                return place
    return None


def _meeting(start: int, s: int, size: int, other: int, t: int, length: int) -> int | None:
    """The lowest common value of two arithmetic progressions; a step of 0 is a progression of one value."""
    if s == 0 or size == 1:
        s, size = 1, 1
    if t == 0 or length == 1:
        t, length = 1, 1
    divisor = gcd(s, t)
    if (other - start) % divisor:
        return None
    period = s // divisor * t
    place = start + s * ((other - start) // divisor * pow(s // divisor, -1, t // divisor) % (t // divisor))
    lowest = max(start, other)
    place += (lowest - place) // period * period
    if place < lowest:
        place += period
    return place if place <= min(start + s * (size - 1), other + t * (length - 1)) else None


def where_twice(view: ShortView) -> int | None:
    """A position that two indices of a view lead to; `None` where there is none."""
    starts, size, stride = split(view)
    if not starts:
        return None
    if (stride == 0 and size > 1) or len(set(starts)) < len(starts):
        return next(start for start in starts if ways(view, start) > 1)
    for number, start in enumerate(starts):
        for other in starts[:number]:
            place = _meeting(start, stride, size, other, stride, size)
            if place is not None:
                return place
    return None


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """The misconception behind each wrong answer, once each."""
    said: set[str] = set()
    answers = [*evidence.values["pairs"], *evidence.values["views"]]
    questions = [*case.parameters["pairs"], *([view] for view in case.parameters["views"])]
    asked = list(zip(questions, answers, strict=True))
    # In which of the two functions the offsets are there, told by how many views it gets.
    knows = {len(views) for views, found in asked if _with_offsets(views, found.get("position"))}
    for views, found in asked:
        name = _difference(views, found)
        if name == "offset forgotten" and len(views) in knows:
            # The offsets were not forgotten elsewhere, so here the position fits without them by chance.
            name = "not reached by both" if len(views) > 1 else "touched once only"
        if name is not None and name not in said:
            said.add(name)
            yield name, f"({' and '.join(map(in_words, views))}: found {found.get('position', found.get('kind'))})"
    if not said and evidence.values["torch_calls"]:
        yield "asked PyTorch", f"(it called {', '.join(evidence.values['torch_calls'])})"


def _with_offsets(views: list[ShortView], place: int | None) -> bool:
    """Whether a position is right, and would not be without the offsets."""
    least = 1 if len(views) > 1 else 2
    if place is None or any(ways(view, place) < least for view in views):
        return False
    return any(ways([*view[:2], 0], place) < least for view in views)


def _difference(views: list[ShortView], found: dict[str, Any]) -> str | None:
    if "position" not in found:
        return "not a position"
    place = found["position"]
    if len(views) == 1:
        return _why_not_twice(views[0], place)
    right = where_they_meet(*views)
    if place is None:
        if right is None:
            return None
        if right == 0 and _only_at_0(*views):
            return "0 is a position"
        return "gave up" if right > 10**7 else "met and not found"
    if all(ways(view, place) for view in views):
        return None
    if not all(prod(view[0]) for view in views):
        return "empty view"
    if any(view[2] for view in views) and all(ways([*view[:2], 0], place) for view in views):
        return "offset forgotten"
    if right is None:
        return "beyond the end" if where_they_meet(*views, bounded=False) is not None else "ranges compared"
    return "not reached by both"


def _only_at_0(first: ShortView, second: ShortView) -> bool:
    """Whether two small views have position 0 in common and no other."""
    views = [split(view) for view in (first, second)]
    if any(size > MOST_WALKED for _, size, _ in views):
        return False
    one, other = ({start + i * step for start in starts for i in range(size)} for starts, size, step in views)
    return one & other == {0}


def _why_not_twice(view: ShortView, place: int | None) -> str | None:
    right = where_twice(view)
    if place is None:
        if right is None:
            return None
        if any(size > 1 and stride == 0 for size, stride in zip(*view[:2], strict=True)):
            return "stride 0"
        return "gave up" if min(view[1]) > 10**5 else "touched twice not found"
    if ways(view, place) > 1:
        return None
    if not prod(view[0]):
        return "empty view"
    if view[2] and ways(view, place + view[2]) > 1:
        return "offset forgotten"
    return "touched once only"
