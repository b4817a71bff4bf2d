"""The learner's samples and reference values against kernels: wrong ones must fail somewhere, right ones nowhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import torch

from autograder.exchange.evidence import Case, Evidence
from autograder.exercises.u8.operator_tests.planted import RIGHT, Kernel, exactly, kernel_of, wrong
from autograder.exercises.u8.operator_tests.visible import (
    MOST_BYTES,
    MOST_ELEMENTS,
    MOST_SAMPLES,
    case,
    pairs,
    reference_case,
)
from fxopt_workbench.internals.mirror import Structured

MISCONCEPTIONS = {
    "no samples": "`sample_inputs()` gives nothing to try.",
    "no pair": "Each sample is a pair of ordinary tensors on the CPU: `self`, and `cap`.",
    "too many": f"You have more than {MOST_SAMPLES} samples. Tests run thousands of times: choose.",
    "too large": (
        f"A sample's result has more than {MOST_ELEMENTS} elements, or lies in far more memory than it needs. What is "
        "wrong with a kernel shows with a few numbers."
    ),
    "no broadcast": "The two tensors of a sample don't broadcast: every kernel would refuse them.",
    "beyond the definition": (
        "A cap that isn't above 0, or isn't finite. The definition says nothing about those, and right kernels differ "
        "there: your test would fail a right one."
    ),
    "no reference": "`reference` must give an array of NumPy in floating point.",
    "wrong reference": "Your reference is not `cap * tanh(self / cap)`: right kernels fail your test.",
    "reference rounds": (
        "Your reference computes in less than double precision. A kernel can't be tested with something that is "
        "less exact than it is."
    ),
    "fails a right kernel": "A kernel that is right fails your test.",
    "strides": (
        "A kernel passes that reads memory in order, whatever the strides of `self` say. Add a sample that's "
        "transposed, one with gaps, such as `x[:, ::2]`, and one that's expanded."
    ),
    "strides of cap": (
        "A kernel passes that ignores the strides of the cap. Any strides are promised for both arguments: add a cap "
        "that is transposed, one with gaps and one that's expanded."
    ),
    "first cap": "A kernel passes that uses the first cap for all. Add a cap with different values that is broadcast.",
    "grows from cap": "A kernel passes that goes wrong when `cap` has the larger shape. Either argument may broadcast.",
    "broadcast": (
        "A kernel passes that broadcasts in some ways only. Broadcasting adds dimensions in front and repeats sizes of "
        "1 anywhere, such as one cap for each row, and it does so for either argument and for both at once."
    ),
    "large": (
        "A kernel passes that overflows far beyond the cap. Add numbers of a hundred times the cap, above zero and "
        "below."
    ),
    "sign": "A kernel passes that loses the sign. Add negative numbers.",
    "zero": "A kernel passes that makes NaN of zero. Random numbers don't reach it: write one.",
    "empty": "A kernel passes that refuses a tensor without elements, as `self` or as `cap`.",
    "no dimensions": "A kernel passes that refuses a tensor without dimensions, as `self` or as `cap`.",
    "dimensions": (
        "A kernel passes that refuses a number of dimensions. Try every number up to four, for `self` and for `cap`."
    ),
    "rest": (
        "A kernel passes that calculates in steps of 4, 8 or 16 and forgets the rest. Add a size of more than 16 that "
        "none of them divides."
    ),
    "linear": "A kernel passes that returns small numbers as they are. Near zero, tanh is only almost linear.",
    "dtype": (
        "A kernel passes that lacks a dtype. Try float32, float64, bfloat16 and int64, for `self` and for `cap`."
    ),
    "mixed dtypes": (
        "A kernel passes that refuses two arguments of unlike dtypes, or calculates in the precision of one of them. "
        "Add a `self` in float32 with a cap in float64, and the other way round."
    ),
    "whole numbers": (
        "A kernel passes that divides whole numbers and throws the rest away. Add a sample with both arguments "
        "in int64."
    ),
    "single": (
        "A kernel passes that calculates double precision in single precision. Add samples in float64 of ordinary size."
    ),
    "nan": "A kernel passes that turns NaN into a number. A NaN must come out as NaN, so that somebody notices.",
    "infinity": (
        "A kernel passes that makes NaN of infinity, or of minus infinity. The cap of infinity is the cap, with its "
        "sign."
    ),
    "in place": (
        "A kernel passes that goes wrong in place. The tests call `softcap_` whenever a sample's result has the shape "
        "and the dtype of `self`; add one of which that is so, also with a `self` that doesn't lie in order."
    ),
}

TOLERANCES = {
    torch.float64: (1e-10, 1e-10),
    torch.float32: (1.3e-6, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-5),
    torch.float16: (1e-3, 1e-5),
}
"""Relative and absolute, by dtype: those of `torch.testing.assert_close`; in double precision narrower."""


@dataclass(frozen=True)
class Sample:
    """A pair of arguments, and what the learner's reference gives for it."""

    x: torch.Tensor
    cap: torch.Tensor
    reference: torch.Tensor


def hidden_cases(random: Random) -> list[Case]:
    """Every right kernel, and every wrong one."""
    kernels: list[dict[str, Any]] = [{"kind": "right", "how": how} for how in RIGHT] + wrong()
    runs = random.sample(range(10**3, 10**6), len(kernels))
    cases = [case(_named(one), run, one) for run, one in zip(runs, kernels, strict=True)]
    # Right kernels agree to 10 digits, whatever the caps: what a reference loses to cancellation shows with large ones.
    for name, caps in (("the reference", 1.0), ("the reference, large caps", random.choice([1e8, 1e10, 1e12]))):
        cases.append(reference_case(name, random.randrange(10**6), random.randrange(10**6), caps))
    return cases


def _named(given: dict[str, Any]) -> str:
    return ": ".join(str(given[key]) for key in ("kind", "how", "which", "dtype", "number", "width") if key in given)


def _details(given: dict[str, Any]) -> str:
    said = [str(given[key]) for key in ("which", "dtype", "number", "width") if key in given]
    return f"({', '.join(said) or given['kind']})"


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """What is wrong with the samples or the reference; otherwise what they let through.

    Raises:
        ValueError: the evidence is that of another run.
    """
    if evidence.values["run"] != case.parameters["run"]:
        raise ValueError("the evidence is that of another run")
    if "seed" in case.parameters:
        for number, pair in enumerate(pairs(case)):
            mistake = _unlike(evidence.tensors.get(f"{number} reference"), exactly(*pair))
            if mistake is not None:
                yield mistake, f"({_described(*pair)})"
                return
        return
    problem = _problem(evidence)
    if problem is not None:
        yield problem
        return
    given = case.kept["kernel"]
    failed = failing(_samples(evidence), kernel_of(given))
    if given["kind"] == "right" and failed is not None:
        yield "fails a right kernel", f"({failed})"
    elif given["kind"] != "right" and failed is None:
        yield given["kind"], _details(given)


def _problem(evidence: Evidence) -> tuple[str, str] | None:
    told = evidence.values["samples"]
    if evidence.values["count"] > MOST_SAMPLES:
        return "too many", f"({evidence.values['count']})"
    if not told:
        return "no samples", ""
    for number, one in enumerate(told):
        if one["problem"]:
            return one["problem"], f"(sample {number})"
        x, cap = (evidence.tensors[f"{number} {name}"] for name in ("x", "cap"))
        if not bool((torch.isfinite(cap) & (cap > 0)).all()):
            return "beyond the definition", f"(sample {number})"
        if torch.broadcast_shapes(x.shape, cap.shape).numel() > MOST_ELEMENTS:
            return "too large", f"(sample {number})"
        mistake = _unlike(evidence.tensors.get(f"{number} reference"), exactly(x, cap))
        if mistake is not None:
            return mistake, f"(sample {number})"
    return None


def _unlike(reference: torch.Tensor | None, wanted: torch.Tensor) -> str | None:
    """What is wrong with what a reference gave, if anything is."""
    if reference is None:
        return "no reference"
    near = [
        reference.shape == wanted.shape
        and torch.allclose(reference.double(), wanted, rtol=tolerance, atol=tolerance, equal_nan=True)
        for tolerance in (1e-11, 1e-5)
    ]
    if near[0]:
        return None
    return "reference rounds" if near[1] else "wrong reference"


def _described(x: torch.Tensor, cap: torch.Tensor) -> str:
    largest = float(cap.max()) if cap.numel() else 0.0
    return f"self of shape {list(x.shape)}, cap of shape {list(cap.shape)}, caps up to {largest:.3g}"


def _samples(evidence: Evidence) -> list[Sample]:
    found = []
    for number, one in enumerate(evidence.values["samples"]):
        x, cap = (restrided(evidence.tensors[f"{number} {name}"], tuple(one["strides"][name])) for name in ("x", "cap"))
        found.append(Sample(x, cap, evidence.tensors[f"{number} reference"]))
    return found


def restrided(values: torch.Tensor, strides: tuple[int, ...]) -> torch.Tensor:
    """The values, lying in memory as the learner's did; in order where those strides make elements overlap."""
    if len(strides) != values.dim() or any(one < 0 for one in strides):
        return values
    # A dimension of stride 0 shows the same elements again.
    shape = [1 if step == 0 else size for size, step in zip(values.shape, strides, strict=True)]
    span = 1 + sum((size - 1) * step for size, step in zip(shape, strides, strict=True))
    if 0 in values.shape or span > MOST_BYTES:
        return values
    buffer = torch.zeros(span, dtype=values.dtype)
    places = torch.zeros(shape, dtype=torch.int64)
    for dimension, (size, step) in enumerate(zip(shape, strides, strict=True)):
        along = torch.arange(size).view([-1 if other == dimension else 1 for other in range(len(shape))])
        places = places + along * step
    if places.numel() != places.unique().numel():
        return values
    buffer[places.flatten()] = values[tuple(slice(0, size) for size in shape)].flatten()
    found = torch.as_strided(buffer, values.shape, strides)
    return found if torch.equal(found.nan_to_num(), values.nan_to_num()) else values


def failing(samples: list[Sample], kernel: Kernel) -> str | None:
    """What fails when a kernel is tried on samples as OpInfo's tests do it: the first failure in words, if any."""
    operator = Structured(kernel)
    for number, sample in enumerate(samples):
        try:
            said = _tried(operator, sample)
        except Exception as error:  # wrong kernels raise anything
            said = f"{type(error).__name__}: {error}"
        if said is not None:
            return f"sample {number}: {said}"
    return None


def _tried(operator: Structured, sample: Sample) -> str | None:
    x, cap = _copy(sample.x), _copy(sample.cap)
    result = operator.functional(x, cap)
    if not _close(result, sample.reference):
        return "softcap differs from the reference"
    if not all(torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in ((x, sample.x), (cap, sample.cap))):
        return "softcap changed its arguments"
    if result.shape == x.shape and result.dtype == x.dtype and 0 not in x.stride():
        operator.inplace(x, cap)
        if not _close(x, sample.reference):
            return "softcap_ differs from the reference"
    return None


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    """A copy in a buffer of its own, with the same strides."""
    return restrided(tensor.contiguous(), tensor.stride())


def _close(found: torch.Tensor, reference: torch.Tensor) -> bool:
    relative, absolute = TOLERANCES.get(found.dtype, (0.0, 0.0))
    # The reference is rounded as the result was: infinity in a narrow dtype stays infinity.
    wanted = reference.to(found.dtype).double()
    return found.shape == reference.shape and torch.allclose(
        found.double(), wanted, rtol=relative, atol=absolute, equal_nan=True
    )
