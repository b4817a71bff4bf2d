"""What the Gaussians and their derivatives are: by PyTorch's own operators, on the same points."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import torch

from autograder.exchange.evidence import Case, Evidence, agrees
from autograder.exercises import cpp_answers
from autograder.exercises.cpp_answers import before_computing, follow_up
from autograder.exercises.u5.gaussian.visible import (
    CHECKS,
    OTHER_WIDTH,
    SCHEMA,
    Layer,
    asking_of,
    derivatives,
    points,
)
from autograder.exercises.u5.native import in_figures, make
from autograder.learner_side.libraries import first_line

__all__ = ["MISCONCEPTIONS", "follow_up", "hidden_cases", "judge"]

MISCONCEPTIONS = cpp_answers.MISCONCEPTIONS | {
    "another schema": f"The library must define `{SCHEMA.removeprefix('u5::')}` in the namespace u5.",
    "refused": "Your operator refuses points that it should take, on the CPU.",
    "not refused": "Your operator takes points that do not fit together: check both shapes in every kernel.",
    "another result": "The numbers are not the ones that the task asks for.",
    "no gradient": (
        "No gradient comes through your operator. Without a kernel for `Autograd` nothing is recorded: register one, "
        "which applies your `torch::autograd::Function`."
    ),
    "no history": (
        "The gradient comes, but it can't be differentiated again: it has no history. In `backward` everything must be "
        "recorded. Take `AutoDispatchBelowADInplaceOrView` out of it (only `forward` goes below autograd), and compute "
        "with PyTorch's operators, not in a loop of your own."
    ),
    "no way back": (
        "Your operator computes its result, but stops where a gradient is asked for. `backward` returns one gradient "
        "for each argument of `forward`, in that argument's shape, and `Tensor()` for a number."
    ),
    "wrong gradient of x": "The gradient for `x` is another one.",
    "wrong gradient of y": "The gradient for `y` is another one.",
    "width of another call": (
        "The gradient is that of another width: the one of the latest call, which had come between. Whatever a call "
        "leaves for its way back belongs into its own context (`context->saved_data`), since several calls may be "
        "under way."
    ),
    "wrong second derivative": (
        "The gradient is right, but its own derivative is not. What you saved besides inputs and outputs is a "
        "constant for the second derivative, and so are a copy of an input and what `backward` computes below "
        "autograd: save the inputs and the result themselves, with `save_for_backward`, and compute with operators "
        "that are recorded."
    ),
    "no fake kernel": (
        "On the meta device there is nothing to read, only shapes. Register a kernel for `Meta` that returns an empty "
        "tensor of the right shape: export and the compiler ask it what comes out."
    ),
    "wrong fake shape": "Your kernel for `Meta` promises another shape or dtype than the one for `CPU` returns.",
    "sizes fixed": (
        "Your operator works on the meta device, but not with sizes that are symbols. Ask for `sym_size(…)` and "
        "allocate with `empty_symint`: `size(…)` wants a number."
    ),
    "not captured": "Export or the compiler stops at your operator.",
    "taken apart": (
        "The captured graph holds the parts of your operator instead of `u5.gaussian.default`. A composite operator "
        "is taken apart above autograd: register kernels for `CPU`, `Meta` and `Autograd`."
    ),
    "opcheck fails": "`torch.library.opcheck` finds that your operator breaks the rules that compilers rely on.",
}


UNRECORDED = ("does not require grad", "not have been used in the graph", "derivative for")
"""What PyTorch says where no derivative comes from."""


def hidden_cases(random: Random) -> list[Case]:
    """Drawn numbers of points and coordinates, layouts, and widths; points far from the origin; stacks of points."""

    def drawn(coordinates: int, least: int = 1, **more: Any) -> dict[str, Any]:
        sizes = random.randint(least, 8), random.randint(least, 8)
        width = random.choice([0.5, 0.8, 1.0, 1.7])
        x, y = ([size, coordinates] for size in sizes)
        return points(x, y, width, random.randrange(10**6), **more)

    hows = ("plain", "transposed", "every other", "inside", "repeated")
    many = random.randint(2, 4)
    captured = {
        name: [first, {**drawn(many, 2), "width": first["width"]}, {**drawn(many, 2), "width": first["width"]}]
        for name, first in {"exported": drawn(many, 2), "compiled": drawn(many, 2)}.items()
    }
    given = {
        "values": [
            drawn(random.randint(1, 4), how=how, how_y=random.choice(hows), dtype=random.choice(["float32", "float64"]))
            for how in hows
        ]
        + [
            points([3, many], [4, many], 0.7, random.randrange(10**6), dtype="float64"),
            points([3, many], [4, many], 0.7, random.randrange(10**6), low=1000.0, high=1001.0),
            # More points than 16 bits can count.
            points([random.randint(66_000, 80_000), 1], [2, 1], 1.0, random.randrange(10**6)),
        ],
        "empty": [points(x, y, 1.0, random.randrange(10**6)) for x, y in _empty(random.randint(1, 5), many)],
        "refused": [
            points([2, many], [3, many + 1], 1.0, random.randrange(10**6)),
            points([2, 3, many], [2, 4, many], 1.0, random.randrange(10**6)),
            points([3, many], [2, 4, many], 1.0, random.randrange(10**6)),
            *(
                points(x, y, 1.0, random.randrange(10**6), **device)
                # One column would broadcast. And where there is nothing to read, points fit no better.
                for x, y in (
                    ([2, many], [3, many + 1]),
                    ([2, 1], [3, many]),
                    ([2, many], [3, 1]),
                    ([2, 3, many], [2, 4, many]),
                    ([0, many], [3, many + 1]),
                    ([2, many], [0, many + 1]),
                    ([0], [0]),
                    ([0, 3, many], [0, 4, many]),
                )
                for device in ({}, {"device": "meta"})
            ),
        ],
        "gradients": [drawn(many, how=how, how_y="transposed", dtype="float64") for how in ("plain", "every other")]
        + [{**drawn(many, dtype="float64"), "asks": one} for one in ("x", "y")]
        + [points(x, y, 0.9, random.randrange(10**6), dtype="float64") for x, y in _empty(random.randint(1, 5), many)],
        # A copy of what is not contiguous is another tensor, which the second derivative knows nothing of.
        "second derivative": [drawn(many, 2, how=how, how_y="plain", dtype="float64") for how in hows]
        + [drawn(many, 2, how_y=how, dtype="float64") for how in hows[1:]]
        + [drawn(1, dtype="float64")]
        + [{**drawn(many, dtype="float64"), "asks": one} for one in ("x", "y")],
        "meta device": [drawn(many, 2, device="meta", dtype=random.choice(["float32", "float64"]))],
        **captured,
        "opcheck": [drawn(many, 2)],
    }
    return [
        Case(f"{name}, drawn", {"number": random.randrange(2**31), "what": name}, kept={"calls": calls})
        for name, calls in given.items()
    ]


def _empty(count: int, coordinates: int) -> list[tuple[list[int], list[int]]]:
    """Sets of points of which one has none, or all have no coordinates."""
    return [
        ([0, coordinates], [count, coordinates]),
        ([count, coordinates], [0, coordinates]),
        ([count, 0], [count + 1, 0]),
    ]


def gaussian(x: torch.Tensor, y: torch.Tensor, width: float) -> torch.Tensor:
    """(n, d) and (m, d) to (n, m)."""
    squares = (x.unsqueeze(1) - y.unsqueeze(0)).square().sum(-1)
    return torch.exp(-squares / (2 * width * width))


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """The misconception behind the first thing that is other than it should be."""
    values = evidence.values
    if "schema" not in values:
        yield from before_computing(evidence)
        return
    if values["schema"] != SCHEMA:
        yield "another schema", f"(found {values['schema'] or 'no such operator'})"
        return
    what, calls = case.parameters["what"], case.kept["calls"]
    if what in ("exported", "compiled"):
        yield from _captured(what, calls, evidence)
    elif what == "opcheck":
        failed = [f"{name}: {first_line(values['checks'][name])}" for name in CHECKS if values["checks"][name]]
        if failed:
            yield "opcheck fails", f"({failed[0]})"
    else:
        for number, (one, seen) in enumerate(zip(calls, values["calls"], strict=True)):
            wrong = next(_of_a_call(what, one, seen, evidence.tensors, str(number)), None)
            if wrong is not None:
                yield wrong
                return


def _of_a_call(
    what: str, one: dict[str, Any], seen: dict[str, Any], tensors: dict[str, torch.Tensor], name: str
) -> Iterator[tuple[str, str]]:
    about = f"({one['x']['shape']} and {one['y']['shape']}, width {one['width']:g}"
    if what == "refused":
        if not seen["raised"]:
            yield "not refused", f"{about})"
        return
    if what == "meta device":
        if "NotImplementedError" in seen["raised"]:
            yield "no fake kernel", ""
        elif seen["raised"]:
            yield "no fake kernel", f"({first_line(seen['raised'])})"
        elif [seen.get("shape"), seen.get("dtype")] != [
            [one["x"]["shape"][0], one["y"]["shape"][0]],
            one["x"]["dtype"],
        ]:
            yield "wrong fake shape", f"{about}: found {seen.get('shape')}, {seen.get('dtype')})"
        return
    if what in ("gradients", "second derivative"):
        if any(words in seen["raised"] for words in UNRECORDED):
            yield ("no history" if seen["once"] else "no gradient"), f"({first_line(seen['raised'])})"
            return
        if seen["raised"]:
            kind = "no way back" if seen["computes"] else "refused"
            yield kind, f"{about}: {first_line(seen['raised'])})"
            return
        wanted = derivatives(gaussian, one, what == "second derivative")
        for which, right in zip(asking_of(one), wanted, strict=True):
            if not agrees(tensors[f"{name}/{which}"], right, relative=1e-6, absolute=1e-9):
                found = tensors[f"{name}/{which}"]
                kind = "wrong second derivative" if what == "second derivative" else f"wrong gradient of {which}"
                if what == "gradients" and agrees(found * OTHER_WIDTH**2, right, relative=1e-6, absolute=1e-9):
                    kind = "width of another call"
                yield kind, f"{about}: found {in_figures(found, 2)}, wanted {in_figures(right, 2)})"
                return
        return
    if seen["raised"]:
        yield "refused", f"{about}: {first_line(seen['raised'])})"
        return
    right = gaussian(make(one["x"]), make(one["y"]), one["width"])
    relative, absolute = (1e-10, 1e-12) if right.dtype == torch.float64 else (1e-4, 1e-6)
    if not agrees(tensors[name], right, relative=relative, absolute=absolute):
        yield (
            "another result",
            f"{about}: found {in_figures(tensors[name], 3)}, wanted {in_figures(right, 3)})",
        )


def _captured(what: str, calls: list[dict[str, Any]], evidence: Evidence) -> Iterator[tuple[str, str]]:
    values = evidence.values
    raised = values["raised"]
    if any(words in raised for words in UNRECORDED):
        yield "no gradient", f"({what}: {first_line(raised)})"
        return
    if raised:
        words = ("symbolic sizes", "SymIntArrayRef", "SymInt", "Constraints violated", "specialized", "constant")
        kind = "sizes fixed" if any(word in raised for word in words) else "not captured"
        yield kind, f"({what}: {first_line(raised)})"
        return
    if "u5.gaussian.default" not in values["names"]:
        yield "taken apart", f"({what}: {', '.join(values['names'][:6])})"
        return
    for number, one in enumerate(calls):
        model = Layer(gaussian, calls[0]["width"])
        x, y = make(one["x"]).requires_grad_(), make(one["y"]).requires_grad_()
        right = model(x, y)
        if not agrees(evidence.tensors[f"{number}"], right.detach(), relative=1e-4, absolute=1e-5):
            yield "another result", f"({what}: {one['x']['shape']} and {one['y']['shape']})"
            return
        if what == "compiled":
            for which, gradient in zip("xy", torch.autograd.grad(right.sum(), (x, y)), strict=True):
                if not agrees(evidence.tensors[f"{number}/{which}"], gradient, relative=1e-3, absolute=1e-5):
                    yield f"wrong gradient of {which}", f"({what})"
                    return
