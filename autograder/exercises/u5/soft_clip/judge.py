"""What soft clipping gives: computed by PyTorch's own operators, on the same tensors."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import torch

from autograder.exchange.evidence import Case, Evidence, agrees
from autograder.exercises import cpp_answers
from autograder.exercises.cpp_answers import before_computing, follow_up
from autograder.exercises.u5.native import in_figures, tensor
from autograder.exercises.u5.soft_clip.visible import OVERLAPPING, PLACES, SCHEMAS, call, limits, placed
from autograder.learner_side.libraries import attempt, first_line

__all__ = ["MISCONCEPTIONS", "follow_up", "hidden_cases", "judge"]

MISCONCEPTIONS = cpp_answers.MISCONCEPTIONS | {
    "another schema": (
        "The library must define two overloads: `soft_clip(Tensor x, Tensor limit) -> Tensor`, and `soft_clip.out`, "
        "which also takes `*, Tensor(a!) out` and returns `Tensor(a!)`."
    ),
    "refused": (
        "Your operator refuses tensors that `torch.div` would take. TensorIterator promotes dtypes and broadcasts "
        "when it is told to: `TensorIterator::binary_float_op` sets all of that. The kernel is for its "
        "`common_dtype()`."
    ),
    "overlap not refused": (
        "Your operator writes to a place of which it still has to read a part, or to one number many times. Let "
        "TensorIterator check for overlap, which it does unless it is told not to."
    ),
    "shapes not refused": "Your operator takes shapes that do not broadcast together.",
    "cast not refused": "A result with a fraction cannot go into whole numbers: refuse such an `out`.",
    "wrote into inputs": "Your operator changes its inputs. Its schema promises that it does not.",
    "out not written": (
        "The result is not in `out`. Assigning to the `Tensor&` only lets the name stand for another tensor: give "
        "`out` to TensorIterator, which writes into its memory and resizes it where it has to."
    ),
    "another dtype": "The result's dtype is another one than PyTorch's rules of promotion give.",
    "another shape": (
        "The result's shape is another one than broadcasting gives. A tensor of one element broadcasts, too, and may "
        "have more dimensions than the other."
    ),
    "out not resized": (
        "An `out` of another shape is resized, as `torch.div` does it, with a warning. TensorIterator sees to it: "
        "leave the shape of `out` to it."
    ),
    "memory order lost": (
        "Your result lies in memory in another order than its inputs: a channels-last tensor stays channels last. "
        "TensorIterator sees to it; a `contiguous()` copy undoes it."
    ),
    "two formulas": (
        "Some elements are right and others are not, in one tensor: the formula for one number and the one for a "
        "vector of numbers differ. The last few elements of a row go through the first."
    ),
    "sign forgotten": "For negative numbers the result is another: it is |x| that stands under the line.",
    "several passes": (
        "Your kernel calls one operator of PyTorch after the other, and each goes through memory once. Compute the "
        "whole formula in one loop: `cpu_kernel_vec` takes it as two lambdas."
    ),
    "digits lost": (
        "Your numbers are right, but only to the first few digits. Compute in the common dtype, and let TensorIterator "
        "convert to it: what goes through `float32` on the way has lost the rest."
    ),
    "another result": "The numbers are not the ones that the task asks for.",
}

ALLOCATING = ("aten::empty", "aten::resize_", "aten::to", "aten::_to_copy", "aten::copy_", "aten::as_strided")
"""Beginnings of what a kernel may call by the way: operators that make room or convert."""


def hidden_cases(random: Random) -> list[Case]:
    """Drawn shapes, layouts and dtypes, places that overlap, and rows of every length around a vector's."""
    seed = random.randrange
    floats, wholes = ("float32", "float64"), ("int64", "int32", "int16", "bool")
    hows = ("plain", "transposed", "every other", "inside", "repeated")
    calls: dict[str, list[dict[str, Any]]] = {
        "layouts": [],
        "dtypes": [],
        "broadcast": [],
        "lengths": [
            call(tensor(n, seed=seed(10**6)), limits(n, seed=seed(10**6)))
            for n in (*range(1, 40, 3), random.randint(66_000, 80_000))  # the last is more than 16 bits can count
        ],
        "overlap": [],
        "out": [],
        "empty": [
            call(tensor(random.randint(1, 4), 0, seed=1), limits(*shape, seed=1, dtype=random.choice(floats)))
            for shape in ((1,), (1, 1, 1), ())
        ],
        "shapes that do not fit": [
            call(tensor(*x, seed=1), limits(*limit, seed=1))
            for n in (random.randint(2, 5),)
            for x, limit in (((n,), (n + 1,)), ((2, n), (2, n + 1)), ((0,), (n,)), ((n, 0), (n + 1, 0)))
        ],
        "single numbers": [],
        "memory order": [],
    }
    for _ in range(4):
        shape = [random.randint(1, 7) for _ in range(random.randint(1, 3))]
        calls["layouts"].append(
            call(
                tensor(*shape, seed=seed(10**6), how=random.choice(hows)),
                limits(*shape, seed=seed(10**6), how=random.choice(hows)),
            )
        )
        whole = random.choice(wholes)
        calls["dtypes"].append(
            call(
                tensor(*shape, seed=seed(10**6), dtype=whole, low=0 if whole == "bool" else -9, high=9),
                limits(*shape, seed=seed(10**6), dtype=random.choice(["float32", "float64", "int64"]), low=1, high=9),
            )
        )
        calls["broadcast"].append(
            call(
                tensor(*(random.choice([1, size]) for size in shape), seed=seed(10**6), dtype=random.choice(floats)),
                limits(*shape[random.randrange(len(shape)) :], seed=seed(10**6)),
            )
        )
        calls["out"].append(
            call(
                tensor(*shape, seed=seed(10**6)),
                limits(seed=seed(10**6)),
                tensor(
                    *random.choice([shape, [0]]),
                    seed=0,
                    dtype=random.choice([*floats, "int64"]),
                    how=random.choice(["plain", "transposed"]),
                ),
            )
        )
    calls["layouts"].append(
        call(tensor(2, 3, random.randint(2, 5), 4, seed=seed(10**6), how="channels last"), limits(seed=seed(10**6)))
    )
    # One element is a tensor like any other: with its dimensions and its dtype, on either side.
    n = random.randint(2, 6)
    for ones in ([], [1], [1, 1], [1, 1, 1]):
        for dtype in floats:
            calls["single numbers"] += [
                call(tensor(n, seed=seed(10**6)), limits(*ones, seed=seed(10**6), dtype=dtype)),
                call(tensor(*ones, seed=seed(10**6), dtype=dtype), limits(n, seed=seed(10**6))),
            ]
        wide = tensor(2, n, seed=seed(10**6), dtype=random.choice(wholes[:3]), low=-9, high=9)
        calls["single numbers"] += [
            call(wide, limits(*ones, seed=seed(10**6), dtype=random.choice([*floats, "int64"]), low=1, high=9)),
            call(tensor(*ones, seed=seed(10**6)), limits(seed=seed(10**6), dtype=random.choice(floats))),
        ]
    image = [2, 3, random.randint(2, 5), 4]
    for how, other, limit in (
        ("channels last", "channels last", image),
        ("channels last", "plain", [*image[1:2], 1, 1]),
        ("channels last", "plain", image),
        ("plain", "channels last", image),
        ("transposed", "transposed", image),
        ("transposed", "plain", [1, 1, 1, 1]),
        ("transposed", "plain", []),
    ):
        calls["memory order"].append(
            call(tensor(*image, seed=seed(10**6), how=how), limits(*limit, seed=seed(10**6), how=other))
        )
    calls["memory order"].append(call(tensor(seed=1), limits(*image, seed=seed(10**6), how="channels last")))
    # An `out` that is too large, too small, or of as many elements; what its place has room for is another question.
    calls["out of another shape"] = [
        call(
            tensor(3, n, seed=seed(10**6), how=how),
            limits(3, n, seed=seed(10**6), how=how),
            tensor(*shape, seed=0, dtype=random.choice(floats)),
        )
        for how in ("plain", "transposed")
        for shape in ((3 * n + random.randint(1, 5),), (2,), (), (n, 3), (3 * n,), (1, 3, n))
    ]
    calls["out"] += [
        call(tensor(3, n, seed=seed(10**6)), limits(n, seed=seed(10**6)), tensor(3, n, seed=0, dtype=dtype, how=how))
        for dtype, how in (("float16", "plain"), ("bfloat16", "every other"), ("bool", "plain"), ("int32", "plain"))
    ]
    # Whole numbers with more digits than single precision has, and limits that are not much smaller.
    large = [2**24 + 1, -(2**25) - 1, 2**26 + 3, 2**27 + 5]
    calls["dtypes"].append(
        call(
            tensor(4, seed=0, dtype="int64", values=large),
            limits(4, seed=seed(10**6), dtype="float64", low=1e8, high=2e8),
        )
    )
    length = random.randint(9, 60)
    calls["overlap"] = [call(tensor(length, seed=seed(10**6)), limits(length, seed=seed(10**6)), one) for one in PLACES]
    return [Case(name, {"number": random.randrange(2**31)}, kept={"calls": one}) for name, one in calls.items()]


def soft_clip(x: torch.Tensor, limit: torch.Tensor) -> torch.Tensor:
    """The formula, in the dtype that PyTorch's rules give."""
    dtype = torch.result_type(x, limit)
    dtype = dtype if dtype.is_floating_point else torch.get_default_dtype()
    x, limit = x.to(dtype), limit.to(dtype)
    return x * limit / (limit + x.abs())


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """The misconception behind the first thing that is other than it should be."""
    if "calls" not in evidence.values:
        yield from before_computing(evidence)
        return
    if evidence.values["schemas"] != SCHEMAS:
        yield "another schema", f"(found {', '.join(sorted(evidence.values['schemas'].values())) or 'nothing'})"
        return
    for number, (one, seen) in enumerate(zip(case.kept["calls"], evidence.values["calls"], strict=True)):
        found, out = evidence.tensors.get(str(number)), evidence.tensors.get(f"{number}/out")
        wrong = next(_wrong(one, seen, found, out), None)
        if wrong is not None:
            yield wrong
            return
    for seen in evidence.values["calls"]:
        more = [name for name in seen["parts"] if not name.startswith(ALLOCATING)]
        if len(more) > 0:
            yield "several passes", f"(it calls {', '.join(more)})"
            return


def _wrong(
    one: dict[str, Any], seen: dict[str, Any], found: torch.Tensor | None, out: torch.Tensor | None
) -> Iterator[tuple[str, str]]:
    x, limit, place = placed(one)
    raised = seen["raised"]
    about = f"({one['x']['shape']} {one['x']['dtype']} with {one['limit']['shape']} {one['limit']['dtype']}"
    divided, refused = attempt(torch.div, *placed(one)[:2])
    if refused:
        if not raised:
            yield "shapes not refused", f"{about})"
        return
    wanted = soft_clip(x, limit)
    if one["out"] in OVERLAPPING:
        if not raised:
            yield "overlap not refused", f"(out: {one['out']})"
        return
    if place is not None and not place.is_floating_point():
        if not raised:
            yield "cast not refused", f"{about})"
        return
    another = place is not None and place.shape != wanted.shape
    if another and raised:
        yield "out not resized", f"{about}, out: {one['out']['shape']}: {first_line(raised)})"
        return
    if raised or found is None:
        yield "refused", f"{about}: {first_line(raised) if raised else 'no tensor came back'})"
        return
    if not all(seen["kept"]):
        yield "wrote into inputs", f"{about})"
    if place is not None:
        if not seen["returned"] or out is None or out.shape != wanted.shape:
            yield "out not written", f"(out: {one['out'] if isinstance(one['out'], str) else one['out']['shape']})"
            return
        found, wanted = out, wanted.to(place.dtype)
    if found.dtype != wanted.dtype:
        yield "another dtype", f"{about}: found {found.dtype}, wanted {wanted.dtype})"
    if found.shape != wanted.shape:
        yield "another shape", f"{about}: found {list(found.shape)}, wanted {list(wanted.shape)})"
    relative = 1e-10 if soft_clip(x, limit).dtype == torch.float64 and wanted.dtype == torch.float64 else 1e-5
    # What `out` is converted to may have fewer digits than what was computed.
    relative = max(relative, torch.finfo(wanted.dtype).eps)
    if not agrees(found, wanted, relative=relative, absolute=1e-6):
        yield (
            _named(x, limit, found, wanted),
            f"{about}: found {in_figures(found, 3)}, wanted {in_figures(wanted, 3)})",
        )
    if place is not None:
        # Also of an `out` that was resized: `torch.div` says in which order.
        divided, _ = attempt(torch.div, x, limit, out=place)
    strides = list(divided.stride())
    if seen["strides"] != strides:
        yield "memory order lost", f"{about}: strides {seen['strides']}, wanted {strides})"


def _named(x: torch.Tensor, limit: torch.Tensor, found: torch.Tensor, wanted: torch.Tensor) -> str:
    unsigned = (x * limit / (limit + x)).to(found.dtype)
    right = torch.isclose(found, wanted, rtol=1e-4, atol=1e-5)
    forgotten = torch.isclose(found, unsigned, rtol=1e-4, atol=1e-5)
    if bool(right.all()):
        return "digits lost"
    if not bool((right | forgotten).all()):
        return "another result"
    return "two formulas" if bool((right & ~forgotten).any()) else "sign forgotten"
