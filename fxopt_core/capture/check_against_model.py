"""A second look at a graph that Python's own decisions went into: what did it bake in, what does it not write?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from fxopt_core.capture.agreement import Agreement, agreements, references
from fxopt_core.capture.errors import CaptureError
from fxopt_core.capture.new_values import SIZES, Call
from fxopt_core.capture.result import Captured
from fxopt_core.verification.isolation import Model


def check_against_model(
    captured: Captured, model: Model, args: tuple[Any, ...], kwargs: dict[str, Any], others: Iterable[Call]
) -> Captured:
    """The capture with what a comparison on the example and on other calls found, as agreements and caveats.

    Raises:
        CaptureError: the graph is wrong on sizes that `dynamic` was to allow.
    """
    if captured.runner is None:
        return captured
    found = tuple(agreements(captured.runner, references(model, args, kwargs, others)))
    for one in found:
        # Only named dimensions make other sizes, and these were promised to hold.
        if one.on.startswith(SIZES) and not one.agrees:
            raise CaptureError(
                captured.method,
                f"the ranges of dynamic do not hold: on {one}.",
                "narrow the ranges (torch.export takes every size for 2 or more), or take the dependence on a size out "
                "of the model.",
            )
    return with_agreements(captured, found)


def with_agreements(captured: Captured, found: tuple[Agreement, ...]) -> Captured:
    """The capture with what comparisons found. Where its gradients are wrong, its calls record none from now on."""
    if captured.runner is not None and any(one.gradients for one in found):
        captured.runner.gradients = False
    return replace(captured, agreements=found, caveats=captured.caveats + caveats_of(found))


def caveats_of(found: Iterable[Agreement]) -> tuple[str, ...]:
    """What the comparisons say against the graph, in sentences."""
    caveats: dict[str, Any] = {}
    for one in found:
        if one.unwritten:
            caveats[
                f"A call of the model changes {', '.join(one.unwritten)}; a call of the graph does not, or otherwise, "
                "so that later calls may differ."
            ] = None
        if one.gradients:
            caveats[
                f"Its gradients are not the model's ({one.gradients}), so calls of it record none: a backward pass "
                "through its results raises."
            ] = None
        if one.refusal:
            caveats[f"It refuses {one.on}: {one.refusal}"] = None
        elif not one.agrees:
            caveats[
                f"On {one.on} the graph is wrong by up to {one.difference:.3g}: what was decided for the example (a "
                "branch, a loop, a value, two inputs that are the same tensor) is baked in."
            ] = None
    return tuple(caveats)
