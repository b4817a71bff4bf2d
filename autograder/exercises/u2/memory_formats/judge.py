"""Which format it is: asked of PyTorch, on tensors without data.

Python cannot ask for the suggested format itself. The rule is that of `is_channels_last_strides_2d_s4` and `_3d_s5` in
`c10/core/MemoryFormat.h`; a test compares it with an operator that asks.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod
from random import Random

import torch

from autograder.exchange.evidence import Case, Evidence

NAMES = ("contiguous", "channels_last")

MISCONCEPTIONS = {
    "asked PyTorch": "Your functions ask PyTorch. Work it out from sizes and strides, as PyTorch does.",
    "not strides": "`channels_last_strides` returns a tuple of whole numbers, one for each dimension.",
    "not formats": (
        'The formats are named "contiguous" and "channels_last": a list of them from `formats_that_fit`, one from '
        "`suggested_format`."
    ),
    "strides in the order of memory": (
        "The strides stand in the order of the dimensions (batch, channels, …, width), whatever the order in memory. "
        "The 1 belongs to the channels."
    ),
    "contiguous strides": "These are the strides of the ordinary format, in which the width is the fastest.",
    "images only": "A volume has five dimensions: between batch and height comes the depth.",
    "wrong strides": "These are not the strides of a new tensor in channels-last order.",
    "size 1 counts": (
        "The stride of a dimension of size 1 is never used, so it cannot speak against a format. That is why both "
        "formats may fit."
    ),
    "only one fits": "Both formats fit here, since strides of dimensions of size 1 do not count: list both.",
    "no elements": (
        'Without elements "contiguous" always fits; "channels_last" fits if the strides are the products, 0 among '
        'them; and the suggested format is "contiguous".'
    ),
    "gaps do not fit": (
        "A tensor with gaps in memory fits no format: each stride must be exactly the product of the faster sizes. "
        "What is *suggested* for it is another matter."
    ),
    "wrong formats": "`formats_that_fit` says something else than `is_contiguous(memory_format=…)`.",
    "fits, so suggested": (
        "You took a format that fits for the one that PyTorch settles on. The rule asks only that strides do not fall "
        "along channels, width, height, batch: gaps do not matter to it, and where both fit it reads the strides of "
        "size-1 dimensions after all."
    ),
    "ambiguous is contiguous": (
        "Where nothing has grown until the batch is reached (channels, height and width of size 1, with equal "
        "strides), the strides say nothing, and PyTorch falls back to contiguous. The C++ has a line for it."
    ),
    "channels of stride 0": (
        "A stride of 0 for the channels comes from an expanded dimension: PyTorch says contiguous at once."
    ),
    "wrong suggestion": "`suggested_format` says something else than PyTorch. Go through the C++ loop by hand for "
    "this one.",
}


def hidden_cases(random: Random) -> list[Case]:
    """What is easily forgotten, one case for each kind, then random strides."""
    ones = [[sizes, fresh(sizes, name)] for sizes in _with_ones() for name in NAMES]
    no_elements = [[2, 0, 3, 4], [0, 3, 2, 2], [2, 3, 0, 5], [2, 3, 4, 0, 5], [2, 3, 4, 5, 0]]
    gaps = [
        [[2, 3, 4, 5], [240, 1, 40, 6]],
        [[2, 3, 4, 5], [240, 2, 40, 6]],
        [[2, 3, 2, 5], [60, 1, 30, 3]],
        [[2, 3, 4, 5], [3, 1, 6, 24]],
        [[4, 1, 1, 1], [5, 5, 5, 5]],
        [[4, 1, 1, 1], [500, 500, 500, 500]],
        # Only the width, or the depth or width of a volume, tells against channels last.
        [[5, 3, 3, 5], [360, 1, 10, 1]],
        [[2, 1, 5, 3, 2], [60, 1, 12, 2, 0]],
        [[2, 3, 2, 5, 4], [600, 1, 30, 60, 3]],
        [[1, 4, 1, 6], [24, 6, 6, 1]],
        [[1, 4, 1, 6], [24, 1, 1, 4]],
        [[2, 3, 4, 5, 6], [720, 1, 180, 36, 6]],
        [[2, 3, 4, 5, 6], [360, 1, 18, 72, 3]],
    ]
    expanded = [
        [[2, 3, 4, 5], [20, 0, 5, 1]],
        [[2, 3, 4, 5], [0, 1, 15, 3]],
        [[2, 3, 4, 5], [60, 1, 0, 3]],
        [[2, 1, 4, 5], [20, 0, 5, 1]],
        [[1, 3, 4, 5, 6], [0, 1, 90, 18, 3]],
    ]
    cases = [
        Case("sizes of one", {"shapes": _with_ones()[:8], "tensors": ones}),
        Case(
            "no elements",
            {
                "shapes": no_elements,
                "tensors": [
                    *([sizes, fresh(sizes, name)] for sizes in no_elements for name in NAMES),
                    # The stride of a dimension of size 0 counts.
                    *([[2, 0, 3, 4], [0, 7, 0, 0]], [[0, 3, 2, 2], [5, 1, 6, 3]], [[2, 3, 4, 0, 5], [0, 1, 0, 3, 3]]),
                ],
            },
        ),
        Case("gaps", {"shapes": [[7, 5, 3, 2], [3, 7, 2, 5, 4]], "tensors": gaps}),
        Case("expanded", {"shapes": [[2**20, 2**10, 2**12, 2**11]], "tensors": expanded}),
    ]
    for number in range(3):
        shapes = [[random.randint(2, 40) for _ in range(random.choice([4, 5]))] for _ in range(4)]
        cases.append(Case(f"random {number}", {"shapes": shapes, "tensors": [_random(random) for _ in range(24)]}))
    return cases


def _with_ones() -> list[list[int]]:
    """Every way in which sizes of an image may be 1, and some for a volume."""
    images = [[5 if batch else 1, *rest] for batch in (1, 0) for rest in product((1, 3), (1, 2), (1, 4))]
    return [*images, [2, 1, 3, 4, 5], [2, 3, 1, 1, 1], [4, 1, 1, 1, 1], [2, 3, 1, 4, 1], [1, 3, 2, 1, 4]]


def _random(random: Random) -> list[list[int]]:
    """Sizes with many ones, and strides in some order of the dimensions, sometimes with gaps, sometimes broken."""
    sizes = [random.choice([1, 1, 2, 3, 5]) for _ in range(random.choice([4, 4, 5]))]
    order = [[*range(len(sizes))], [0, *range(2, len(sizes)), 1], random.sample(range(len(sizes)), len(sizes))]
    strides, step = [0] * len(sizes), random.choice([1, 1, 2])
    for dim in reversed(random.choice(order)):
        strides[dim] = step
        step *= sizes[dim] * random.choice([1, 1, 1, 2])
    if random.random() < 0.2:
        strides[random.randrange(len(strides))] = random.choice([0, 1, 7])
    return [sizes, strides]


def fresh(sizes: list[int], name: str) -> list[int]:
    """Sizes of a tensor and the strides of a new one in that format."""
    order = [*range(len(sizes))] if name == NAMES[0] else [0, *range(2, len(sizes)), 1]
    strides = [0] * len(sizes)
    for place, dim in enumerate(order):
        strides[dim] = prod(sizes[faster] for faster in order[place + 1 :])
    return strides


LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


def strides_of(sizes: list[int]) -> list[int]:
    """Strides of a new tensor in channels-last order."""
    return list(torch.empty(sizes, device="meta", memory_format=LAST[len(sizes)]).stride())


def fitting(sizes: list[int], strides: list[int]) -> list[str]:
    """The formats in which PyTorch calls a tensor of these strides contiguous."""
    made = torch.empty_strided(sizes, strides, device="meta")
    formats = dict(zip(NAMES, (torch.contiguous_format, LAST[len(sizes)]), strict=True))
    return [name for name, one in formats.items() if made.is_contiguous(memory_format=one)]


def suggested(sizes: list[int], strides: list[int], mistake: str = "") -> str:
    """The format that PyTorch settles on; `mistake` leaves one of the conditions out."""
    if 0 in sizes or (strides[1] == 0 and mistake != "channels of stride 0"):
        return NAMES[0]
    least = 0
    for dim in (1, *range(len(sizes) - 1, 1, -1), 0):
        if strides[dim] < least or (dim == 0 and least == strides[1] and mistake != "ambiguous is contiguous"):
            return NAMES[0]
        least = strides[dim] * sizes[dim]
    return NAMES[1]


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """The misconceptions behind wrong strides, wrong formats and wrong suggestions, once each."""
    values, given = evidence.values, case.parameters
    said: dict[str, str] = {}
    for sizes, strides in zip(given["shapes"], values["strides"], strict=True):
        if strides != strides_of(sizes):
            said.setdefault(
                _why_these_strides(sizes, strides), f"(sizes {sizes}: found {strides}, wanted {strides_of(sizes)})"
            )
    for (sizes, strides), found, guess in zip(given["tensors"], values["fitting"], values["suggested"], strict=True):
        where = f"(sizes {sizes}, strides {strides}: "
        wanted, right = fitting(sizes, strides), suggested(sizes, strides)
        if found != wanted:
            said.setdefault(_why_these_formats(sizes, found, wanted), f"{where}found {found}, wanted {wanted})")
        if guess != right:
            said.setdefault(
                _why_this_suggestion(sizes, strides, guess, wanted), f"{where}found {guess}, wanted {right})"
            )
    yield from said.items()
    if not said and values["torch_calls"]:
        yield "asked PyTorch", f"(it called {', '.join(values['torch_calls'])})"


def _why_these_strides(sizes: list[int], found: list[int] | None) -> str:
    if found is None or len(found) != len(sizes):
        return "images only" if found is not None and len(sizes) == 5 else "not strides"
    if 0 in sizes:
        return "no elements"
    wanted = strides_of(sizes)
    if found == fresh(sizes, NAMES[0]):
        return "contiguous strides"
    if found == [wanted[0], *wanted[2:], wanted[1]]:
        return "strides in the order of memory"
    return "wrong strides"


def _why_these_formats(sizes: list[int], found: list[str] | None, wanted: list[str]) -> str:
    if found is None or not set(found) <= set(NAMES):
        return "not formats"
    if 0 in sizes:
        return "no elements"
    if len(wanted) == 2 and found == wanted[:1]:
        return "only one fits"
    if 1 in sizes and set(found) < set(wanted):
        return "size 1 counts"
    return "gaps do not fit" if found and not wanted else "wrong formats"


def _why_this_suggestion(sizes: list[int], strides: list[int], found: str | None, fit: list[str]) -> str:
    if found not in NAMES:
        return "not formats"
    if 0 in sizes:
        return "no elements"
    for name in ("channels of stride 0", "ambiguous is contiguous"):
        if found == suggested(sizes, strides, name):
            return name
    # What somebody says who takes the first, or the last, format that fits.
    habits = (fit[0], fit[-1]) if fit else (NAMES[0],)
    return "fits, so suggested" if found in habits else "wrong suggestion"
