"""The learner's side: ranks with gradients of unequal parts of a batch; the all-reduce lies outside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autograder.exchange.evidence import Case, Evidence
from autograder.exercises.u7.ranks import Ranks, StuckError, plain_numbers
from autograder.learner_side.outside import Ask, held

MOST_NUMBERS = 2000
"""Longest list that is reduced at once."""


class UnlikeError(RuntimeError):
    """The ranks called `all_reduce` with lists of unlike lengths."""


class Summing:
    """Adds the lists of all ranks.

    Attributes:
        record: the lists of each call, one a rank.
    """

    def __init__(self) -> None:
        self.record: list[list[list[float]]] = []

    def answer(self, question: Any) -> Any:
        """The sums of some equally long lists of numbers."""
        lists = [plain_numbers(one) for one in question]
        if not lists or any(one is None or len(one) > MOST_NUMBERS for one in lists):
            raise ValueError("lists of numbers are added")
        self.record.append(question)
        return [sum(column) for column in zip(*question, strict=True)]


def instrument(case: Case) -> Summing:
    """What adds for the ranks of a case, as new."""
    return Summing()


class Collective:
    """The `all_reduce` of all ranks: it answers when each of them has called it.

    Args:
        ranks: takes turns.
        ask: asks what adds.
    """

    def __init__(self, ranks: Ranks, ask: Ask) -> None:
        self._ranks, self._ask = ranks, ask
        self._offered: dict[int, list[float]] = {}
        self._sums: list[list[float]] = []

    def of(self, rank: int) -> Callable[[Any], list[float]]:
        """The `all_reduce` of one rank."""
        calls = 0

        def all_reduce(numbers: Any) -> list[float]:
            nonlocal calls
            if plain_numbers(numbers) is None or len(numbers) > MOST_NUMBERS:
                raise TypeError(f"all_reduce takes a list of at most {MOST_NUMBERS} numbers")
            number, calls = calls, calls + 1
            self._offered[rank] = list(numbers)
            if len(self._offered) == self._ranks.world:
                lists = [self._offered[one] for one in range(self._ranks.world)]
                if len({len(one) for one in lists}) > 1:
                    raise UnlikeError(f"call {number}: lists of {', '.join(str(len(one)) for one in lists)} numbers")
                self._offered = {}
                self._sums.append(self._ask(lists))
            self._ranks.wait(rank, lambda: len(self._sums) > number, f"in call {number} of all_reduce")
            return list(self._sums[number])

        return all_reduce


def batch(name: str, gradients: list[list[list[float] | None]], sizes: list[int], rows: list[int], most: int) -> Case:
    """A case: gradients of each rank (a list for each parameter, or `None`), and how many rows each rank has."""
    return Case(name, {"gradients": gradients, "sizes": sizes, "rows": rows, "most": most})


def visible_cases() -> list[Case]:
    """Equal parts; unequal parts with two buckets; and a parameter that one rank did not use."""
    return [
        batch("equal parts", [[[2.0, 4.0], [1.0]], [[4.0, 0.0], [3.0]]], [2, 1], [4, 4], 8),
        batch(
            "unequal parts",
            [
                [[1.0, 2.0, 3.0], [4.0, 8.0], [8.0, 0.0], [1.0]],
                [[5.0, 6.0, 7.0], [8.0, 0.0], [0.0, 4.0], [9.0]],
            ],
            [3, 2, 2, 1],
            [6, 2],
            4,
        ),
        batch(
            "a parameter that one rank did not use",
            [[[1.0], [2.0, 2.0]], [[3.0], None], [[5.0], [6.0, 0.0]]],
            [1, 2],
            [2, 1, 1],
            2,
        ),
    ]


def probe(case: Case, average_gradients: Any) -> Evidence:
    """Run the learner's function once for each rank."""
    given = case.parameters
    world = len(given["rows"])
    ask, seen = held(lambda: instrument(case))
    ranks = Ranks(world)
    collective = Collective(ranks, ask)

    def program(rank: int) -> Callable[[], Any]:
        own = [None if one is None else list(one) for one in given["gradients"][rank]]
        sizes, rows, most = list(given["sizes"]), given["rows"][rank], given["most"]
        return lambda: average_gradients(own, sizes, rows, most, collective.of(rank))

    values: dict[str, Any] = {"stuck": "", "unlike": "", "results": [], "seen": seen}
    try:
        found = ranks.run([program(rank) for rank in range(world)])
    except StuckError as error:
        return Evidence(values | {"stuck": str(error)[:400]})
    except UnlikeError as error:
        return Evidence(values | {"unlike": str(error)[:400]})
    return Evidence(values | {"results": [_handed_over(one, len(given["sizes"])) for one in found]})


def _handed_over(found: Any, parameters: int) -> list[Any] | None:
    """Numbers of each parameter, or `None` for it, as JSON; `None` for what is no such list."""
    if not isinstance(found, (list, tuple)) or len(found) != parameters:
        return None
    lists = [None if one is None else plain_numbers(one) for one in found]
    unlike = any(one is not None and handed is None for one, handed in zip(found, lists, strict=True))
    return None if unlike else lists


def show(case: Case, evidence: Evidence) -> list[Any]:
    """How long each call was, and what the first rank has in the end."""
    values = evidence.values
    lines = [f"{case.name}: {len(values['seen'])} calls of all_reduce"]
    lines += [f"  call {number}: {len(one[0])} numbers of each rank" for number, one in enumerate(values["seen"][:8])]
    lines += [f"  {values[name]}" for name in ("stuck", "unlike") if values[name]]
    lines += [f"  rank {rank} has {found}" for rank, found in enumerate(values["results"][:2])]
    return ["\n".join(lines)]
