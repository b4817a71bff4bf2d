"""What the longest runs are: counted anew from the same numbers, by the place of the last break before each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import torch

from autograder.exchange.evidence import Case, Evidence
from autograder.exercises import cpp_answers
from autograder.exercises.cpp_answers import before_computing, follow_up
from autograder.exercises.u5.longest_run.visible import SCHEMA, call
from autograder.exercises.u5.native import FLOATS, make, tensor

__all__ = ["MISCONCEPTIONS", "follow_up", "hidden_cases", "judge"]

MISCONCEPTIONS = cpp_answers.MISCONCEPTIONS | {
    "not there": "Your library defines no operator `u5::longest_run`: `TORCH_LIBRARY(u5, m)` with `m.def(…)` does.",
    "another schema": f"The schema of your operator is another one than `{SCHEMA.removeprefix('u5::')}`.",
    "not for the CPU": (
        "No kernel is registered for the CPU: a function that `m.def(…)` is given runs on every device. Register it "
        "with `TORCH_LIBRARY_IMPL(u5, CPU, m)`."
    ),
    "refused": "Your operator refuses a tensor that it should take.",
    "not refused": (
        "Your operator takes a tensor that it should refuse: check with `TORCH_CHECK` what your loops rely on. A "
        "kernel that is registered for `CPU` never meets another device."
    ),
    "wrote into x": "Your operator writes into `x`. Its schema promises that it does not.",
    "ignores strides": (
        "Your loop walks through memory in the order of the addresses. Elements lie where the strides say: use an "
        "accessor, the strides, or a contiguous copy."
    ),
    "last run forgotten": "A run may last to the end of its row. Yours counts only those that something ends.",
    "goes on in the next row": "Each row begins anew. Your counter goes on where the row before ended.",
    "equal counts": "An element counts when it is greater than the limit. Yours counts equal ones, too.",
    "counts all": "You count all elements above the limit. A run ends at the first that is not.",
    "single precision": (
        "A number of double precision, in `x` or as the limit, loses digits when you read or compare it in single "
        "precision."
    ),
    "no default": "Where no limit is given it is 0. Write the default into the schema.",
    "long runs": (
        "Short runs are right and long ones are not. Which number is the largest that your counter can hold? And does "
        "a run go on where a block of your loop ends?"
    ),
    "another dtype": "The result has one int64 number for each row.",
    "another result": "The numbers are not the ones that the task asks for.",
}


def hidden_cases(random: Random) -> list[Case]:
    """Drawn sizes, strides, dtypes and limits; numbers that equal the limit; long rows; NaN and infinities."""
    size = random.randint(1, 3)
    cases = {"refused": [call(tensor(size, 2, 2, seed=1, dtype="float64"), 0.5)]}
    cases["refused"].append(call(tensor(2, 2, seed=2, dtype=random.choice(["int32", "bool", "int64"]))))
    cases["refused"] += [call(tensor(2, 2, seed=2, dtype=dtype)) for dtype in ("float16", "bfloat16", "complex64")]
    # Where there is nothing to read, too: whatever looks at the number of elements first lets these in.
    cases["refused, empty"] = [
        call(tensor(*shape, seed=2, dtype=dtype))
        for shape, dtype in (
            ((size, 0), random.choice(["int32", "bool", "int64"])),
            ((0, size), "float16"),
            ((0,), "float32"),
            ((size, 0, 2), "float32"),
            ((0, size, 2), "float64"),
        )
    ]
    cases["refused, empty"].append(call(tensor(size, 0, seed=2, device="meta")))
    for dtype in ("float32", "float64"):
        cases[f"whole numbers, {dtype}"] = [
            call(
                tensor(*_sizes(random, 2), seed=random.randrange(10**6), dtype="int8", low=-2.0, high=3.0)
                | {
                    "dtype": dtype,
                    "how": how,
                    "values": [float(random.randint(-2, 2)) for _ in range(64)],
                    "shape": [8, 8],
                },
                random.choice([None, 0.0, 1.0, -1.0]),
            )
            for how in ("plain", "transposed", "every other", "inside", "repeated")
        ]
    cases["fractions"] = [
        call(
            tensor(*_sizes(random), seed=random.randrange(10**6), dtype=random.choice(["float32", "float64"]), how=how),
            random.choice([-0.5, -1.5, 0.25]),
        )
        for how in ("plain", "transposed", "every other", "inside", "repeated")
    ]
    close = [0.1 + random.choice([-1, 0, 1]) * 1e-12 for _ in range(24)]
    cases["close to the limit"] = [call(tensor(4, 6, seed=0, dtype="float64", values=close), 0.1)]
    special = [random.choice([float("nan"), float("inf"), 1.0, -1.0]) for _ in range(40)]
    cases["special numbers"] = [
        call(tensor(5, 8, seed=0, values=special), limit)
        # The largest two are infinite in single precision.
        for limit in (random.choice([0.0, 1.0]), 1e39, -1e39, float("inf"), float("-inf"), float("nan"))
    ]
    # Smaller than any number of single precision that is not 0, and with digits of their own.
    tiny = [random.choice([1e-310, 5e-324, 0.0, -1e-310]) for _ in range(24)]
    cases["close to 0"] = [call(tensor(4, 6, seed=0, dtype="float64", values=tiny))]
    # Beyond what counters of 8 and 16 bits hold: some hundred breaks, no breaks, and as many rows.
    long = random.randint(66_000, 90_000)
    cases["long"] = [
        call(tensor(2, long, seed=random.randrange(10**6), low=-0.001, high=1.0, dtype="float64", how="transposed")),
        call(tensor(2, long, seed=random.randrange(10**6), low=-1e-5, high=1.0)),
        call(tensor(1, long, seed=random.randrange(10**6), low=0.1), 0.05),
        call(tensor(long, 2, seed=random.randrange(10**6)), 0.5),
    ]
    # From 2^24 on a counter of single precision stays where it is.
    length = 2**24 + random.randint(2, 99)
    cases["very long"] = [call(tensor(1, length, seed=0, fill=random.uniform(0.5, 2.0)), 0.25)]
    cases["empty"] = [call(tensor(random.randint(1, 5), 0, seed=0, dtype="float64"), -1.0)]
    found = []
    for name, calls in cases.items():
        found.append(Case(name, {"number": random.randrange(2**31)}, kept={"calls": calls}))
    return found


def _sizes(random: Random, least: int = 1) -> tuple[int, int]:
    return random.randint(least, 9), random.randint(least, 40)


def runs(x: torch.Tensor, limit: float) -> list[int]:
    """The longest run of each row."""
    return longest(x.double() > limit)


def longest(above: torch.Tensor, *, to_the_end: bool = True, anew: bool = True) -> list[int]:
    """The longest run of true values in each row; with what deviates from the defaults, one that makes a mistake.

    The length of a run so far is the distance to the last break before it: as quick for a long row as for a short one.
    """
    if not above.numel():
        return [0] * len(above)
    rows = above if anew else above.reshape(1, -1)
    places = torch.arange(rows.shape[1], dtype=torch.int32)
    lengths = (places - torch.where(rows, -1, places).cummax(1).values).reshape(above.shape)
    if not to_the_end:
        # The break after a run is where it counts.
        lengths = torch.where(above[:, 1:], 0, lengths[:, :-1])
    return lengths.amax(1).tolist() if lengths.shape[1] else [0] * len(above)


def in_memory(x: torch.Tensor) -> torch.Tensor:
    """What a loop over addresses reads, that takes a tensor for contiguous."""
    return torch.as_strided(x, x.shape, (x.shape[1], 1), x.storage_offset()) if _fits(x) else x


def _fits(x: torch.Tensor) -> bool:
    return x.storage_offset() + x.numel() <= x.untyped_storage().nbytes() // x.element_size()


FLAWS: dict[str, Callable[[torch.Tensor, float], list[int]]] = {
    "last run forgotten": lambda x, limit: longest(x.double() > limit, to_the_end=False),
    "goes on in the next row": lambda x, limit: longest(x.double() > limit, anew=False),
    "equal counts": lambda x, limit: longest(x.double() >= limit),
    "counts all": lambda x, limit: (x.double() > limit).sum(1).tolist(),
    "ignores strides": lambda x, limit: runs(in_memory(x), limit),
    "single precision": lambda x, limit: runs(x.float(), torch.tensor(limit, dtype=torch.float32).item()),
}

LONG = 256
"""Columns from which on a row is too long for the smallest counter."""

MOST = 2**20
"""Elements up to which it is tried which flaw gives a result."""


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """The misconception behind the first thing that is other than it should be."""
    if "calls" not in evidence.values:
        yield from before_computing(evidence)
        return
    schema = evidence.values["schema"]
    if schema is None:
        yield "not there", ""
        return
    if schema != SCHEMA:
        yield "no default" if schema == SCHEMA.replace("=0.", "") else "another schema", f"(found {schema})"
        return
    if not evidence.values["for the CPU"]:
        yield "not for the CPU", ""
        return
    wrong = []
    for number, (one, seen) in enumerate(zip(case.kept["calls"], evidence.values["calls"], strict=True)):
        x, limit = make(one["tensor"]), one["limit"] or 0.0
        if x.dim() != 2 or x.dtype not in FLOATS or x.is_meta:
            if not seen["raised"]:
                yield "not refused", f"({one['tensor']['shape']}, {one['tensor']['dtype']})"
                return
            continue
        if seen["raised"]:
            yield "refused", f"({one['tensor']['shape']}, {one['tensor']['dtype']}: {seen['raised']})"
            return
        if seen["written"]:
            yield "wrote into x", ""
            return
        found = evidence.tensors[str(number)]
        if found.dtype != torch.int64 or list(found.shape) != [len(x)]:
            yield "another dtype", f"(found {found.dtype}, {list(found.shape)})"
            return
        wrong.append((x, limit, found.tolist()))
    off = [(x, limit, lengths) for x, limit, lengths in wrong if runs(x, limit) != lengths]
    if off:
        x, limit, lengths = off[0]
        if x.numel() < MOST:
            fits = [name for name, flaw in FLAWS.items() if all(flaw(*one[:2]) == one[2] for one in wrong)]
        else:
            # No break at all: of the flaws only one can show, and without another count of so many.
            fits = [] if any(lengths) else ["last run forgotten"]
        fits += ["long runs"] if x.shape[1] >= LONG else []
        figures = f"(a row {x[0, :8].tolist()}, limit {limit:g}: found {lengths[:4]}, wanted {runs(x, limit)[:4]})"
        yield fits[0] if fits else "another result", figures
