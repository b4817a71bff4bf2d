"""Which views there are: asked of PyTorch, on tensors without data."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from random import Random
from typing import Any

import torch

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.verdict import Agreement, Deviation
from autograder.exercises.u2.reading import OTHER_ERROR, OTHER_ERROR_TOLD, refusal
from autograder.exercises.u2.view_strides.visible import Request

MISCONCEPTIONS = {
    "asked PyTorch": "Your function asks PyTorch. Work it out from the numbers: that is what `view` itself must do.",
    "not a pair": "Return a pair of tuples of whole numbers: the new sizes, and a stride for each.",
    OTHER_ERROR: OTHER_ERROR_TOLD,
    "negative size accepted": "No size is below -1: PyTorch refuses it, whatever the product of all sizes is.",
    "count not checked": "A view has as many elements as the tensor: another number must be refused.",
    "indefinite size accepted": (
        "Two sizes of -1, or one beside a size of 0, could be anything, and one that does not come out even is "
        "nothing: PyTorch refuses."
    ),
    "minus one left": "Put the size that -1 stands for into the sizes that you return.",
    "reads across a gap": (
        "This view would have to step unevenly: the old dimensions do not follow one another without a gap in memory, "
        "and one stride can only make equal steps. That is where `view` refuses, and `reshape` copies."
    ),
    "as if contiguous": (
        "Your strides are those of a contiguous tensor. This one has gaps or swapped dimensions, and a view must "
        "visit *its* elements."
    ),
    "refused what is not contiguous": (
        "A tensor need not be contiguous to be viewed: where a new size only cuts up one old dimension, or joins two "
        "that follow one another evenly, there are strides for it."
    ),
    "size 1 in the way": (
        "A dimension of size 1 has no second index, so its stride is never used: it may not keep its neighbours from "
        "being joined."
    ),
    "stride 0 joined or cut": (
        "Expanded dimensions are dimensions like others: one of stride 0 may be cut up (every part has stride 0), and "
        "two of them may be joined, since 0 is 0 times the size."
    ),
    "no elements": "Where there are no elements any shape without elements is a view; no stride can be wrong.",
    "no dimensions": (
        "A tensor without dimensions has one element: `()` can be viewed as `(1, 1)`, and `(1,)` as `()`."
    ),
    "refused": "You refused a view that exists.",
    "wrong sizes": "These are not the sizes that were asked for.",
    "wrong number of strides": "Each of the new sizes has one stride.",
    "wrong strides": "These strides visit other elements, or the same ones in another order.",
}


def hidden_cases(random: Random) -> list[Case]:
    """What is easily forgotten, one case for each kind, then random tensors and shapes."""
    fixed: dict[str, list[Request]] = {
        "sizes of one": [
            [[4, 1, 6], [6, 999, 1], [24]],
            [[4, 1, 6], [6, 1, 1], [2, 1, 12, 1]],
            [[1, 6], [0, 2], [3, 2]],
            [[6, 1], [3, 100], [1, 6]],
            [[1, 1], [5, 7], [1]],
        ],
        "no dimensions": [[[], [], [1, 1]], [[1], [4], []], [[], [], [-1]], [[2], [1], []], [[], [], []]],
        "two sizes of -1": [
            [[1], [1], [-1, -1]],
            [[2], [1], [-1, 2, -1]],
            [[0], [1], [-1, 0, -1]],
            [[0], [1], [-1, -1]],
        ],
        "sizes below -1": [
            [[4, 6], [6, 1], [-2, -12]],
            [[6], [1], [-2, 3, -1]],
            [[6], [1], [-6]],
            # Nothing else keeps these from being views: no element, or one place for all of them.
            [[0], [1], [-2]],
            [[0], [1], [-2, 0]],
            [[0], [1], [-2, -1]],
            [[4], [0], [-2, -2]],
        ],
        "no elements": [
            [[0, 3], [3, 1], [5, 0]],
            [[2, 0], [7, 7], [0]],
            [[0, 3], [3, 1], [-1, 0]],
            [[0, 3], [3, 1], [-1, 3]],
            [[0, 3], [3, 1], [1]],
            [[3, 0, 2], [1, 9, 9], [0, 4]],
        ],
        "expanded": [
            [[3, 4], [0, 1], [12]],
            [[3, 4], [0, 0], [2, 6]],
            [[6, 4], [0, 1], [2, 3, 4]],
            [[6, 4], [1, 0], [6, 2, 2]],
            [[6, 4], [1, 0], [24]],
        ],
        "enormous": [
            [[2**20, 2**20], [2**20, 1], [2**10, -1]],
            [[2**20, 2**19], [2**20, 2], [2**39]],
            [[2**20, 2**19], [2**20 + 2, 2], [2**39]],
            [[3, 2**30], [1, 3], [3, 2**15, 2**15]],
            # As a float the number of elements is no multiple of 3 any more.
            [[3**37], [1], [3**35, 3, 3]],
            [[3**37], [1], [-1, 3, 3]],
        ],
        "overlapping": [
            [[4, 5], [5, 2], [20]],
            [[3, 4], [4, 2], [6, 2]],
            [[3, 4], [8, 2], [6, 2]],
            [[5, 4], [1, 1], [20]],
        ],
        "joined in part": [
            [[2, 3, 4], [24, 8, 2], [24]],
            [[2, 3, 4], [100, 4, 1], [2, 12]],
            [[2, 3, 4], [12, 4, 1], [8, 3]],
            [[2, 3, 4], [100, 4, 1], [6, 4]],
            [[4, 2, 3], [3, 24, 1], [4, 6]],
            [[2, 2, 3, 4], [48, 24, 4, 1], [4, 12]],
        ],
    }
    cases = [Case(name, {"requests": requests}) for name, requests in fixed.items()]
    drawn = [[random_request(random) for _ in range(12)] for _ in range(3)]
    return cases + [Case(f"random {number}", {"requests": requests}) for number, requests in enumerate(drawn)]


def random_request(random: Random) -> Request:
    """A tensor that a few operations made from a contiguous one, and a shape that is cut and joined from its own."""
    now = torch.empty([random.choice([1, 2, 3, 4, 6]) for _ in range(random.randint(1, 4))], device="meta")
    for _ in range(random.randint(0, 3)):
        dim = random.randrange(now.dim())
        kind = random.choice(["slice", "transpose", "expand", "unsqueeze"])
        if kind == "slice":
            now = torch.ops.aten.slice.Tensor(now, dim, random.randint(0, 1), None, random.choice([1, 2]))
        elif kind == "transpose":
            now = now.transpose(dim, random.randrange(now.dim()))
        elif kind == "expand" and now.dim() < 5:
            now = now.expand(random.choice([2, 3]), *now.shape)
        elif now.dim() < 5:
            now = now.unsqueeze(dim)
    wanted: list[int] = []
    for size in now.shape:
        if wanted and random.random() < 0.4:
            wanted[-1] *= size
        else:
            wanted.append(size)
    parts: list[int] = []
    for size in wanted:
        divisors = [one for one in range(1, size + 1) if size % one == 0] or [1]
        one = random.choice(divisors)
        parts += [one, size // one] if random.random() < 0.4 else [size]
    if random.random() < 0.3:
        parts[random.randrange(len(parts))] = -1
    elif random.random() < 0.1:
        parts.append(2)
    return [list(now.shape), list(now.stride()), parts]


def by_pytorch(request: Request) -> dict[str, Any] | None:
    """Sizes and strides of the view; `None` where PyTorch refuses."""
    sizes, strides, wanted = request
    try:
        found = torch.empty_strided(sizes, strides, device="meta").view(wanted)
    except RuntimeError:
        return None
    return {"sizes": list(found.shape), "strides": list(found.stride())}


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str] | Deviation | Agreement]:
    """The misconception behind each wrong view, once each; for views refused, whatever may have been in the way."""
    said: set[str] = set()
    for request, found in zip(case.parameters["requests"], evidence.values["views"], strict=True):
        wanted = by_pytorch(request)
        name = _difference(request, wanted, found)
        sizes, strides, shape = request
        figures = f"(sizes {sizes}, strides {strides} viewed as {shape}: found {_in_words(found)}, wanted "
        figures += f"{_in_words(wanted)})"
        if name == "refused":
            said.add(name)
            yield Deviation(name, tuple(_in_the_way(request)), figures, len(sizes) + len(shape))
        elif name is not None and name not in said:
            said.add(name)
            yield name, figures
        elif name is None and wanted is not None and sizes != wanted["sizes"]:
            yield Agreement("refused", tuple(WHOLE_KINDS & set(_in_the_way(request))))
    if not said and evidence.values["torch_calls"]:
        yield "asked PyTorch", f"(it called {', '.join(evidence.values['torch_calls'])})"


def _in_words(found: dict[str, Any] | None) -> str:
    if found is None:
        return "a ValueError"
    if "refused" in found:
        return refusal(found)
    return f"sizes {found['sizes']}, strides {found['strides']}"


def _difference(request: Request, wanted: dict[str, Any] | None, found: dict[str, Any]) -> str | None:
    sizes, _, shape = request
    if wanted is None:
        if "refused" in found:
            return OTHER_ERROR if "kind" in found else None
        return _accepted(sizes, shape)
    if "refused" in found:
        return "refused"
    if found["sizes"] is None or found["strides"] is None:
        return "not a pair"
    if found["sizes"] != wanted["sizes"]:
        return "minus one left" if -1 in found["sizes"] else "wrong sizes"
    if len(found["strides"]) != len(wanted["strides"]):
        return "wrong number of strides"
    if not prod(sizes):
        return None
    used = [dim for dim, size in enumerate(wanted["sizes"]) if size > 1]
    if all(found["strides"][dim] == wanted["strides"][dim] for dim in used):
        return None
    fresh = torch.empty(wanted["sizes"], device="meta").stride()
    return "as if contiguous" if all(found["strides"][dim] == fresh[dim] for dim in used) else "wrong strides"


def _accepted(sizes: list[int], shape: list[int]) -> str:
    if any(size < -1 for size in shape):
        return "negative size accepted"
    if -1 in shape:
        rest = prod(size for size in shape if size != -1)
        if shape.count(-1) > 1 or rest == 0 or prod(sizes) % rest:
            return "indefinite size accepted"
    elif prod(shape) != prod(sizes):
        return "count not checked"
    return "reads across a gap"


WHOLE_KINDS = {"no elements", "stride 0 joined or cut", "refused what is not contiguous"}
"""Who refuses one of these for its kind refuses all of the kind, but those of which nothing is asked."""


def _in_the_way(request: Request) -> Iterator[str]:
    """What may have been the reason to refuse a view that exists."""
    sizes, strides, shape = request
    if not sizes or not shape:
        yield "no dimensions"
    if not prod(sizes):
        yield "no elements"
        return
    if 0 in strides:
        yield "stride 0 joined or cut"
    fresh = torch.empty(sizes, device="meta").stride()
    if any(size > 1 and stride != one for size, stride, one in zip(sizes, strides, fresh, strict=True)):
        yield "refused what is not contiguous"
    # Is there a place where only a dimension of size 1 parts two that follow one another?
    kept = [(size, stride) for size, stride in zip(sizes, strides, strict=True) if size != 1]
    if _blocks(list(zip(sizes, strides, strict=True))) > _blocks(kept):
        yield "size 1 in the way"


def _blocks(dimensions: list[tuple[int, int]]) -> int:
    """Into how many evenly spaced runs of more than one element dimensions fall."""
    runs: list[tuple[int, int]] = []
    for size, stride in dimensions:
        if runs and runs[-1][1] == stride * size:
            runs[-1] = (runs[-1][0] * size, stride)
        else:
            runs.append((size, stride))
    return sum(size > 1 for size, _ in runs)
