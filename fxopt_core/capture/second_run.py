"""A second look at a graph that Python's own decisions went into: what did it bake in, what does it not write?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from fxopt_core.capture.agreement import EXAMPLE, Agreement, Reference, compare
from fxopt_core.capture.errors import CaptureError
from fxopt_core.capture.new_values import SIZES, Call
from fxopt_core.capture.result import Captured
from fxopt_core.verification.isolation import Model
from fxopt_core.verification.state import with_shared_tensors


def feasible(
    model: Model, args: tuple[Any, ...], kwargs: dict[str, Any], others: Iterable[Call]
) -> Iterator[Reference]:
    """The example, for which the model's own error is raised, and of the `others` those that the model can do."""
    model = with_shared_tensors(model)
    yield Reference(model, (EXAMPLE, args, kwargs))
    for call in others:
        try:
            expected = Reference(model, call)
        except Exception:  # the model itself takes no such inputs: there is nothing to compare with
            continue
        yield expected


def with_second_run(
    captured: Captured, model: Model, args: tuple[Any, ...], kwargs: dict[str, Any], others: Iterable[Call]
) -> Captured:
    """The capture with what a comparison on the example and on other calls found, as agreements and caveats.

    Raises:
        CaptureError: the graph is wrong on sizes that `dynamic` was to allow.
    """
    if captured.runner is None:
        return captured
    found = tuple(compare(captured.runner, expected) for expected in feasible(model, args, kwargs, others))
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
