"""What decays to what, in plain Python; and which of the names that a library needs belong to PyTorch's C++."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import torch

from autograder.exchange.evidence import Case, Evidence, agrees
from autograder.exercises import cpp_answers
from autograder.exercises.cpp_answers import before_computing
from autograder.exercises.u5.native import FLOATS, in_figures, make, tensor
from autograder.exercises.u5.stable_decay.visible import SCHEMA, call

__all__ = ["MISCONCEPTIONS", "follow_up", "hidden_cases", "judge"]

MISCONCEPTIONS = cpp_answers.MISCONCEPTIONS | {
    "not there": "Your library defines no operator `u5::decay`: `STABLE_TORCH_LIBRARY(u5, m)` with `m.def(…)` does.",
    "another schema": f"The schema of your operator is another one than `{SCHEMA.removeprefix('u5::')}`.",
    "unstable names": (
        "Your library needs names from PyTorch's C++, which the next release may change. Include headers from "
        "`torch/csrc/stable` and `torch/headeronly` only, and take `torch::stable::Tensor` for a tensor."
    ),
    "headers from elsewhere": (
        "Your source includes a header of PyTorch from outside `torch/csrc/stable` and `torch/headeronly`. Whatever it "
        "declares may be gone, or mean something else, with the next release: the two folders have all that you need."
    ),
    "refused": "Your operator refuses a matrix that it should take.",
    "not refused": (
        "Your operator takes a tensor that it should refuse: check with `STD_TORCH_CHECK` what your loops rely on."
    ),
    "wrote into x": "Your operator writes into `x`. Its schema promises that it does not.",
    "another dtype": "The result has the shape and the dtype of `x`.",
    "ignores strides": "Your loop takes every matrix for contiguous. Ask `x.stride(…)`, or take `contiguous(x)`.",
    "rows in one piece": (
        "Your loop goes from row to row as it should, and takes the numbers of a row for neighbours in memory. Ask "
        "`x.stride(1)` as well."
    ),
    "row goes on": "Each row begins anew. Yours takes the last number of the row before along.",
    "sum of neighbours": (
        "What decays is the result before, which holds all numbers so far, not only the number before."
    ),
    "single precision": "`float` in a schema is `double` in C++: your rate has lost digits.",
    "another result": "The numbers are not the ones that the task asks for.",
}

UNSTABLE = re.compile(r"_Z\w*?(?<!\d)(3c10|2at|5torch|6caffe2)(?=[\dA-Z])")
"""How C++ writes the names of functions and classes in PyTorch's namespaces."""


OF_PYTORCH = ("torch/", "ATen/", "c10/", "caffe2/")
"""Beginnings of the names of PyTorch's headers; others, of the standard library, are free."""

STABLE = ("torch/csrc/stable/", "torch/headeronly/")
"""Those that the stable ABI consists of."""

COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)


SPECIAL = [
    *(1.0, float("inf"), 2.0, 3.0, -1.0),
    *(1.0, float("nan"), 2.0, float("inf"), 1.0),
    *(float("inf"), 1.0, float("-inf"), 2.0, 1.0),
    *(1.0, 2.0, 3.0, 4.0, 5.0),
]
"""Four rows, of which the last has ordinary numbers: nothing of the rows before may be left in it."""


def hidden_cases(random: Random) -> list[Case]:
    """Drawn sizes, layouts, dtypes and rates."""

    def drawn(**more: Any) -> dict[str, Any]:
        given = {"dtype": random.choice(["float32", "float64"]), **more}
        x = tensor(random.randint(2, 7), random.randint(2, 12), seed=random.randrange(10**6), **given)
        return call(x, random.choice([0.5, 0.9, -0.7, 1.0]))

    calls = {
        "layouts, drawn": [drawn(how=how) for how in ("plain", "transposed", "every other", "inside", "repeated")],
        "double precision, drawn": [drawn(dtype="float64") for _ in range(2)],
        "infinities and NaN": [
            call(tensor(4, 5, seed=0, dtype=dtype, values=SPECIAL), rate)
            for dtype in ("float32", "float64")
            for rate in (0.5, -1.0, 0.0)
        ],
        "refused, drawn": [
            drawn(dtype=dtype, low=0, high=3)
            for dtype in (random.choice(["int32", "bool", "int64"]), "float16", "bfloat16", "complex64")
        ],
        # Where there is nothing to read, too: whatever looks at the number of elements first lets these in.
        "refused, empty": [
            call(tensor(*shape, seed=1, dtype=dtype), 0.5)
            for shape, dtype in (
                ((0,), "float32"),
                ((0, random.randint(1, 4)), random.choice(["int32", "bool", "int64"])),
                ((random.randint(1, 4), 0), "float16"),
                ((random.randint(1, 4), 0, 2), "float64"),
            )
        ],
        # More columns, and more rows, than 16 bits can count.
        "long": [
            call(tensor(*shape, seed=random.randrange(10**6), dtype=dtype, how=how), 0.5)
            for shape, dtype, how in (
                ((2, random.randint(66_000, 80_000)), "float32", "transposed"),
                ((random.randint(66_000, 80_000), 2), "float64", "plain"),
            )
        ],
    }
    return [Case(name, {"number": random.randrange(2**31)}, kept={"calls": one}) for name, one in calls.items()]


def follow_up(case: Case, evidence: Evidence) -> Case | None:
    """The case for a fresh process, with the headers that the source names: a library no longer tells them."""
    more = cpp_answers.follow_up(case, evidence)
    if more is None:
        return None
    headers = unstable_headers(str(evidence.values["source"]))
    return Case(more.name, more.parameters | {"headers": headers}, more.tensors)


def unstable_headers(source: str) -> list[str]:
    """Headers of PyTorch that a source includes from outside the stable ABI."""
    included = INCLUDE.findall(COMMENT.sub(" ", source))
    return [header for header in included if header.startswith(OF_PYTORCH) and not header.startswith(STABLE)]


def decay(x: torch.Tensor, rate: float, *, anew: bool = True, all_before: bool = True) -> torch.Tensor:
    """Each number, plus the result before it times the rate; with what deviates from the defaults, a mistake."""
    rows = []
    before = 0.0
    for row in x.double().tolist():
        before = 0.0 if anew else before
        found = []
        for one in row:
            now = one + rate * before
            before = now if all_before else one
            found.append(now)
        rows.append(found)
    return torch.tensor(rows, dtype=torch.float64).reshape(x.shape).to(x.dtype)


def _in_memory(x: torch.Tensor, from_row_to_row: int) -> torch.Tensor:
    after = x.storage_offset() + (x.shape[0] - 1) * from_row_to_row + x.shape[1]
    fits = x.numel() > 0 and after <= x.untyped_storage().nbytes() // x.element_size()
    return torch.as_strided(x, x.shape, (from_row_to_row, 1), x.storage_offset()) if fits else x


FLAWS: dict[str, Callable[[torch.Tensor, float], torch.Tensor]] = {
    "ignores strides": lambda x, rate: decay(_in_memory(x, x.shape[1]), rate),
    "rows in one piece": lambda x, rate: decay(_in_memory(x, x.stride(0)), rate),
    "row goes on": lambda x, rate: decay(x, rate, anew=False),
    "sum of neighbours": lambda x, rate: decay(x, rate, all_before=False),
    "single precision": lambda x, rate: decay(x, torch.tensor(rate, dtype=torch.float32).item()),
}


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """The misconception behind the first thing that is other than it should be."""
    if "calls" not in evidence.values:
        yield from before_computing(evidence)
        return
    schema = evidence.values["schema"]
    if schema != SCHEMA:
        yield "not there" if schema is None else "another schema", f"(found {schema})"
        return
    unstable = [name for name in evidence.values["needs"] if UNSTABLE.match(name)]
    if unstable:
        yield "unstable names", f"({len(unstable)} of them, such as {unstable[0][:80]})"
        return
    if evidence.values["headers"]:
        yield "headers from elsewhere", f"({', '.join(evidence.values['headers'][:3])})"
        return
    for number, (one, seen) in enumerate(zip(case.kept["calls"], evidence.values["calls"], strict=True)):
        wrong = next(_of_a_call(one, seen, evidence.tensors.get(str(number))), None)
        if wrong is not None:
            yield wrong
            return


def _alike(found: torch.Tensor, wanted: torch.Tensor, relative: float, absolute: float) -> bool:
    """Whether numbers agree; what is no number agrees with what is none, either."""
    return torch.equal(found.isnan(), wanted.isnan()) and agrees(
        found.nan_to_num(nan=0.0, posinf=float("inf"), neginf=float("-inf")),
        wanted.nan_to_num(nan=0.0, posinf=float("inf"), neginf=float("-inf")),
        relative=relative,
        absolute=absolute,
    )


def _of_a_call(one: dict[str, Any], seen: dict[str, Any], found: torch.Tensor | None) -> Iterator[tuple[str, str]]:
    x, rate = make(one["tensor"]), one["rate"]
    about = f"({one['tensor']['shape']} {one['tensor']['dtype']}, rate {rate:g}"
    if x.dim() != 2 or x.dtype not in FLOATS:
        if not seen["raised"]:
            yield "not refused", f"{about})"
        return
    if seen["raised"] or found is None:
        yield "refused", f"{about}: {seen['raised'] or 'no tensor came back'})"
        return
    if seen["written"]:
        yield "wrote into x", f"{about})"
        return
    wanted = decay(x, rate)
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        yield "another dtype", f"{about}: found {found.dtype}, {list(found.shape)})"
        return
    relative = 1e-10 if x.dtype == torch.float64 else 1e-4
    absolute = 1e-12 if x.dtype == torch.float64 else 1e-6
    if not _alike(found, wanted, relative, absolute):
        # As exact as the comparison itself: a flaw that hardly shows here would fit any answer that is off a little.
        fits = [name for name, flaw in FLAWS.items() if _alike(found, flaw(x, rate), relative, absolute)]
        yield (
            fits[0] if fits else "another result",
            f"{about}: found {in_figures(found, 4)}, wanted {in_figures(wanted, 4)})",
        )
