"""What must hold between a result and its mask, among masks, and of a gradient: whichever numbers were drawn."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from random import Random
from typing import Any

import torch
from torch.nn import functional

from autograder.exchange.evidence import Case, Evidence, agrees
from autograder.exercises import cpp_answers
from autograder.exercises.cpp_answers import before_computing, follow_up
from autograder.exercises.u5.native import LAYOUTS, in_figures, make, tensor
from autograder.exercises.u5.silu_dropout.visible import SCHEMAS, dropped, given_mask, upstream
from autograder.learner_side.libraries import first_line

__all__ = ["MISCONCEPTIONS", "follow_up", "hidden_cases", "judge"]

MISCONCEPTIONS = cpp_answers.MISCONCEPTIONS | {
    "another schema": "The library must define both operators with the schemas of the task, in the namespace u5.",
    "refused": "Your operator refuses what it should take.",
    "not refused": (
        "`p` is a probability: refuse what is below 0, above 1, or no number. Do so in the kernel for `Meta`, too, "
        "which is all that export asks: a program would be exported that cannot run."
    ),
    "wrote into x": "Your operator writes into `x`. Its schema promises that it does not.",
    "no mask": "The second result is the mask: of the shape of `x`, `bool`, true where an element is kept.",
    "another dtype": "The first result has the shape and the dtype of `x`.",
    "not scaled": "What is kept is divided by `1 - p`, so that the mean stays what it was.",
    "scale in single precision": (
        "`float` in a schema is `double` in C++, and near 1 every digit of `p` counts: round the scale when you have "
        "it, not `p` before you take it from 1."
    ),
    "digits lost": (
        "Your results of `float64` are right to the digits of `float32` only. Something on the way is computed in "
        "single precision."
    ),
    "NaN": "An element that is dropped is 0, whatever it was, and nothing is divided by 0 when `p` is 1.",
    "mask and result differ": (
        "The result is not what the mask says: `silu(x) / (1 - p)` where it is true, and 0 elsewhere. Do both have "
        "the same order in memory, whatever the strides of `x` are?"
    ),
    "keeps with probability p": "`p` is the probability to be dropped. You keep with it.",
    "another share": "The share of what is kept is not `1 - p`.",
    "not independent": "Each element has a draw of its own. In your mask neighbours share their fate.",
    "cannot be repeated": (
        "After the same `torch.manual_seed` another mask comes. Draw from PyTorch's generator for the CPU, not from a "
        "stream of your own."
    ),
    "always the same mask": "Two calls in a row have the same mask: the generator has to move on.",
    "generator ignored": (
        "A generator that is handed over is the one to draw from, and PyTorch's own stays where it is."
    ),
    "wrong gradient": (
        "The gradient is another one: it is the derivative of `silu` where the mask is true, divided by `1 - p`."
    ),
    "strides ignored": (
        "Your backward operator reads a tensor in the order of its memory, and gives another gradient where that is "
        "not the order of its elements. The gradient that comes in, `x` and the mask may each have any strides: use "
        "`.contiguous()` on each of them, or an iterator that knows strides."
    ),
    "no fake kernel": "Without a kernel for `Meta` the compiler cannot know what comes out of your operator.",
    "not tagged": (
        "The schema does not say that the operator draws random numbers. Give `m.def` the tag "
        "`at::Tag::nondeterministic_seeded`, or a compiler may take two calls for one."
    ),
    "several passes": (
        "Your kernel calls one operator of PyTorch after the other, and each goes through memory once. Fused means "
        "one loop."
    ),
}

ALLOCATING = (
    "aten::empty",
    "aten::resize_",
    "aten::to",
    "aten::_to_copy",
    "aten::copy_",
    "aten::contiguous",
    "aten::clone",
    "aten::zero",
)
"""Beginnings of what a kernel may call by the way: operators that make room or copy."""

FAR = [-1000.0, -120.0, -90.0, 90.0, 120.0, 1000.0]
"""Numbers of which the exponential overflows in single precision, and of the largest in double precision."""

SIGMAS = 5.0
"""By how many standard deviations a share may be off."""


def hidden_cases(random: Random) -> list[Case]:
    """Drawn shapes, layouts, probabilities and seeds; the ends of what is a probability; sizes beyond 16 bits."""
    seed = random.randrange
    empty = tensor(0, random.randint(1, 5), seed=1)
    hows = ("plain", "transposed", "every other", "inside", "repeated")

    def drawn(p: float | None = None, own: bool = False, **more: Any) -> dict[str, Any]:
        shape = [random.randint(3, 9) for _ in range(random.randint(1, 3))]
        given = {"how": random.choice(hows), "dtype": random.choice(["float32", "float64"]), **more}
        return dropped(
            tensor(*shape, seed=seed(10**6), **given),
            random.choice([0.1, 0.35, 0.6]) if p is None else p,
            seed(10**6),
            own,
        )

    given = {
        "values": [
            *(drawn() for _ in range(3)),
            dropped(tensor(seed=seed(10**6), dtype=random.choice(["float32", "float64"])), 0.0, seed(10**6)),
            # A few hundred thousand elements, of which some twenty are kept.
            dropped(tensor(2**19, seed=seed(10**6), low=0.5), next_to_one(random.randint(600, 900)), seed(10**6)),
        ],
        "p is 0 or 1": [drawn(0.0), drawn(1.0)],
        "refused": [
            dropped({**x, **device}, p, seed(10**6))
            for x in (drawn(0.5)["x"], empty)
            for p in (*NO_PROBABILITIES, random.uniform(1.0, 9.0) + 1e-9, random.uniform(-9.0, -1e-9))
            for device in ({}, {"device": "meta"})
        ],
        "share": [
            dropped(tensor(random.randint(40, 70), random.randint(40, 70), seed=1, how=how), p, seed(10**6))
            for how, p in (("plain", 0.2), ("transposed", 0.7))
        ],
        "generator": [
            dropped(tensor(20, random.randint(10, 30), seed=1), 0.5, seed(10**6), own=own) for own in (True, False)
        ],
        "gradient": [
            *(drawn(how=how) for how in ("plain", "transposed", "every other")),
            # What comes in as a gradient lies anywhere, too: that of a sum is one number, expanded.
            *(
                dropped(tensor(5, 6, seed=seed(10**6), how=how), 0.4, seed(10**6), incoming=incoming)
                for how, incoming in (("plain", "transposed"), ("transposed", "transposed"), ("plain", "repeated"))
            ),
            dropped(empty, 0.4, seed(10**6), mask="plain"),
            # A mask is given: it need not be one that was drawn with this p, nor lie as it does.
            *(
                dropped(tensor(5, 6, seed=seed(10**6), low=0.1, dtype=dtype), p, seed(10**6), mask=random.choice(hows))
                for p in (0.3, next_to_one(random.randint(1, 60)), 1 - random.randint(1, 99) * 2.0**-40)
                for dtype in ("float32", "float64")
            ),
            # Far from 0, where exponentials overflow; and dropped elements of which nothing may be left.
            *(
                dropped(tensor(6, seed=0, dtype=dtype, values=FAR), 0.0, seed(10**6))
                for dtype in ("float32", "float64")
            ),
            dropped(tensor(4, seed=0, values=[float("inf"), float("nan"), 1.0, -2.0]), 1.0, seed(10**6)),
        ],
        "compiled": [drawn(how="plain", dtype="float32")],
    }
    return [
        Case(f"{name}, drawn", {"number": random.randrange(2**31), "what": name}, kept={"calls": calls})
        for name, calls in given.items()
    ]


NO_PROBABILITIES = (
    *(math.nextafter(0.0, -1.0), math.nextafter(1.0, 2.0), 1.5, -0.5),
    *(float("nan"), float("inf"), float("-inf")),
)
"""The first two are 0 and 1 in single precision."""


def next_to_one(steps: int) -> float:
    """A probability that lies in the middle between two of single precision, so many steps of which are left to 1."""
    return 1 - (steps + 0.5) * 2.0**-24


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """The misconception behind the first thing that is other than it should be."""
    values = evidence.values
    if "schemas" not in values:
        yield from before_computing(evidence)
        return
    if values["schemas"] != SCHEMAS:
        yield "another schema", f"(found {', '.join(values['schemas'].values()) or 'no operator'})"
        return
    what = case.parameters["what"]
    for number, (one, seen) in enumerate(zip(case.kept["calls"], values["calls"], strict=True)):
        tensors = {
            name.partition("/")[2]: found for name, found in evidence.tensors.items() if name.startswith(f"{number}/")
        }
        wrong = next(_of_a_call(what, one, seen, tensors), None)
        if wrong is not None:
            yield wrong
            return
    if what == "compiled" and "Tag.nondeterministic_seeded" not in " ".join(values["tags"]).replace("torch.", ""):
        yield "not tagged", f"(its tags: {', '.join(values['tags']) or 'none'})"


def _of_a_call(
    what: str, one: dict[str, Any], seen: dict[str, Any], tensors: dict[str, torch.Tensor]
) -> Iterator[tuple[str, str]]:
    x, p = make(one["x"]), one["p"]
    about = f"({one['x']['shape']} {one['x']['dtype']}, p {p:g}"
    if what == "refused":
        if not seen["raised"]:
            yield "not refused", f"{about})"
        return
    if what == "compiled":
        fake = [(part.get("shape"), part.get("dtype")) for part in seen["fake"]]
        if fake != [(list(x.shape), one["x"]["dtype"]), (list(x.shape), "bool")]:
            yield "no fake kernel", f"({first_line(seen['raised']) if seen['raised'] else fake})"
            return
    if seen["raised"]:
        yield "refused", f"{about}: {first_line(seen['raised'])})"
        return
    if "out" not in tensors or "mask" not in tensors or tensors["mask"].dtype != torch.bool:
        yield "no mask", f"{about})"
        return
    out, mask = tensors["out"], tensors["mask"]
    if mask.shape != x.shape:
        yield "no mask", f"{about}: found {list(mask.shape)})"
        return
    if out.shape != x.shape or out.dtype != x.dtype:
        yield "another dtype", f"{about}: found {out.dtype}, {list(out.shape)})"
        return
    if seen.get("written"):
        yield "wrote into x", f"{about})"
        return
    yield from _values(x, p, out, mask, about)
    yield from _share(one, mask, about)
    if what != "compiled":
        yield from _stream(one, seen, mask, tensors, about)
    if what in ("gradient", "compiled"):
        sigmoid = torch.sigmoid(x)
        kept = given_mask(one) if one["mask"] and what == "gradient" else mask
        slope = upstream(one) * sigmoid * (1 + x * (1 - sigmoid))
        wanted = torch.where(kept, slope * _scale(p), 0.0)
        gradient = tensors.get("gradient")
        if not _close(gradient, wanted):
            kind = _of_precision(gradient, wanted, torch.where(kept, slope * _scale(p, rounded=True), 0.0))
            if any(_close(gradient, other) for other in _by_addresses(one, x, kept)):
                kind = "strides ignored"
            yield kind or "wrong gradient", f"{about}{_furthest_off(x, gradient, wanted)})"
            return
    more = [name for name in seen.get("parts", ()) if not name.startswith(ALLOCATING)]
    if more:
        yield "several passes", f"(it calls {', '.join(more)})"


def _by_addresses(one: dict[str, Any], x: torch.Tensor, kept: torch.Tensor) -> Iterator[torch.Tensor]:
    """The gradients of who reads some of the three tensors in the order of memory, not in that of their elements."""
    incoming = upstream(one)
    kept = kept if one["mask"] or one["incoming"] == "plain" else LAYOUTS["transposed"](kept)
    for gradient, values, mask in product(*((one_of, _as_it_lies(one_of)) for one_of in (incoming, x, kept))):
        sigmoid = torch.sigmoid(values)
        yield torch.where(mask, gradient * sigmoid * (1 + values * (1 - sigmoid)) * _scale(one["p"]), 0.0)


def _as_it_lies(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor's memory from its first element on, taken for a contiguous tensor; itself, where there is less of it."""
    place = tensor.storage_offset()
    if tensor.untyped_storage().nbytes() // tensor.element_size() - place < tensor.numel():
        return tensor
    return tensor.as_strided(tensor.shape, torch.empty(tensor.shape, device="meta").stride(), place)


def _scale(p: float, rounded: bool = False) -> float:
    """What is kept times this; with `rounded`, where `p` goes through single precision."""
    p = torch.tensor(p, dtype=torch.float32).item() if rounded else p
    return 1 / (1 - p) if p < 1 else 0.0


def _close(found: torch.Tensor | None, wanted: torch.Tensor) -> bool:
    double = wanted.dtype == torch.float64
    return agrees(found, wanted, relative=1e-10 if double else 1e-4, absolute=1e-12 if double else 1e-6)


def _of_precision(found: torch.Tensor | None, wanted: torch.Tensor, rounded: torch.Tensor) -> str:
    """What was computed with too few digits, if that is all that is wrong; `rounded` has a scale of a rounded `p`."""
    if found is None:
        return ""
    if not torch.equal(rounded, wanted) and _close(_finite(found), _finite(rounded)):
        return "scale in single precision"
    return "digits lost" if agrees(found, wanted, relative=1e-4, absolute=1e-6) else ""


def _finite(found: torch.Tensor) -> torch.Tensor:
    """With 0 where a rounded `p` is 1: 1 / 0 times whatever, or the 0 of somebody who asked whether `p` is 1."""
    return found.nan_to_num(0.0, 0.0, 0.0)


def _values(x: torch.Tensor, p: float, out: torch.Tensor, mask: torch.Tensor, about: str) -> Iterator[tuple[str, str]]:
    active = functional.silu(x)
    wanted = torch.where(mask, active * _scale(p), 0.0)
    if _close(out, wanted):
        return
    kind = _of_precision(out, wanted, torch.where(mask, active * _scale(p, rounded=True), 0.0))
    if kind:
        yield kind, f"{about}{_furthest_off(x, out, wanted)})"
    elif bool(out.isnan().any()) and not bool(wanted.isnan().any()):
        yield "NaN", f"{about}{_furthest_off(x, out, wanted)})"
    elif agrees(out, torch.where(mask, active, 0.0), relative=1e-4, absolute=1e-6):
        yield "not scaled", f"{about}{_furthest_off(x, out, wanted)})"
    else:
        yield (
            "mask and result differ",
            f"{about}: found {in_figures(out, 3)}, wanted {in_figures(wanted, 3)})",
        )


def _furthest_off(x: torch.Tensor, found: torch.Tensor | None, wanted: torch.Tensor) -> str:
    """The element that is furthest from what it should be: what was given, found and wanted, in words."""
    if found is None or found.shape != wanted.shape:
        return ""
    off = (found - wanted).abs().nan_to_num(math.inf, math.inf).masked_fill(found.isnan() & wanted.isnan(), 0)
    given, came, due = (in_figures(values.flatten()[off.argmax()]) for values in (x, found, wanted))
    return f": where x is {given}, found {came}, wanted {due}"


LARGE = 400
"""Elements of a mask from which on it is looked at as a stream of draws."""


def _share(one: dict[str, Any], mask: torch.Tensor, about: str) -> Iterator[tuple[str, str]]:
    p, count = one["p"], mask.numel()
    kept = int(mask.sum())
    if p in (0.0, 1.0):
        if kept != (count if p == 0 else 0):
            mirrored = kept == (0 if p == 0 else count)
            name = "keeps with probability p" if mirrored else "another share"
            yield name, f"{about}: {kept} of {count} are kept)"
        return
    if count >= LARGE and mask.dim() == 2 and _alike(mask) > SIGMAS:
        yield "not independent", f"{about})"
        return
    deviation = math.sqrt(max(1.0, p * (1 - p) * count))
    if abs(kept - (1 - p) * count) > SIGMAS * deviation:
        mirrored = abs(kept - p * count) <= SIGMAS * deviation
        name = "keeps with probability p" if mirrored else "another share"
        yield name, f"{about}: {kept} of {count} are kept)"


def _stream(
    one: dict[str, Any], seen: dict[str, Any], mask: torch.Tensor, tensors: dict[str, torch.Tensor], about: str
) -> Iterator[tuple[str, str]]:
    if one["own"] and seen["moved"]:
        yield "generator ignored", f"{about})"
    elif not torch.equal(tensors["again"], mask):
        yield "generator ignored" if one["own"] else "cannot be repeated", f"{about})"
    elif mask.numel() >= LARGE and one["p"] not in (0.0, 1.0) and torch.equal(tensors["further"], mask):
        yield "always the same mask", f"{about})"


def _alike(mask: torch.Tensor) -> float:
    """By how many standard deviations neighbours share their fate more, or less, often than by chance."""
    share = mask.double().mean().item()
    chance = share**2 + (1 - share) ** 2
    if chance == 1:
        return 0.0  # all of them are kept, or none
    worst = 0.0
    for first, second in ((mask[1:], mask[:-1]), (mask[:, 1:], mask[:, :-1])):
        alike, pairs = int((first == second).sum()), first.numel()
        # Pairs overlap, and so their variance is a little larger than that of as many coins.
        worst = max(worst, abs(alike - chance * pairs) / math.sqrt(2 * pairs * chance * (1 - chance)))
    return worst
