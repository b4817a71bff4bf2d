"""The search: every strategy on the model as it is, then on adapted copies, until one agrees with the model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fxopt_core.capture.agreement import Agreement, compare
from fxopt_core.capture.auto.adapting import Adapted, adapted_models, holds_an_object
from fxopt_core.capture.auto.strategies import STRATEGIES, Strategy
from fxopt_core.capture.dimensions import Dynamic
from fxopt_core.capture.errors import CaptureError
from fxopt_core.capture.failures import in_one_line
from fxopt_core.capture.isolation import Model, private_copy
from fxopt_core.capture.methods.dynamo import capture_with_dynamo
from fxopt_core.capture.new_values import new_values
from fxopt_core.capture.result import Attempt, Captured
from fxopt_core.capture.second_run import Trial, caveats_of, feasible


def capture_automatically(model: Model, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic: Dynamic) -> Captured:
    """One graph that agrees with the model on every trial; where there is none, Dynamo's partitions, verified.

    The trials are the example, new values of the same shapes, a padded mask where the example has a full one, and
    other sizes where `dynamic` names them: those that the model itself can do.

    Raises:
        CaptureError: nothing gave graphs that agree with the model; the message tells every attempt.
        Exception: the model's own, where it fails on the example.
    """
    trials = list(feasible(model, args, kwargs, new_values(model, args, kwargs, dynamic)))
    attempts: list[Attempt] = []
    outputs = trials[0][1].outputs
    for adapted in adapted_models(model, args, kwargs, outputs):
        held = None if adapted.adaptations else holds_an_object(outputs)
        if held:
            attempts.append(Attempt("as it is", failure=f"the result holds {held}, which no graph returns."))
            continue
        for name, strategy in STRATEGIES.items():
            captured = _attempt(name, strategy, adapted, trials, dynamic, attempts)
            if captured is not None:
                return captured
    captured = _attempt(PARTITIONS, capture_with_dynamo, Adapted(model), trials, dynamic, attempts)
    if captured is not None:
        return captured
    told = "; ".join(f"{one.strategy}{''.join(f', {a}' for a in one.adaptations)}: {one.failure}" for one in attempts)
    raise CaptureError("auto", f"no way gave graphs that agree with the model. {told}", 'see method="dynamo".')


PARTITIONS = "dynamo, partitions"
"""The last way: several graphs with Python in between."""


def _attempt(
    name: str, strategy: Strategy, adapted: Adapted, trials: list[Trial], dynamic: Dynamic, attempts: list[Attempt]
) -> Captured | None:
    """The capture, when it agrees; else `None`. Either way `attempts` has one more."""
    _, args, kwargs = trials[0][0]
    try:
        captured = strategy(*private_copy(adapted.model, args, kwargs, "auto"), dynamic)
    except Exception as error:
        attempts.append(Attempt(name, adapted.adaptations, in_one_line(error, name, dynamic)))
        return None
    found: list[Agreement] = []
    for (on, args, kwargs), expected in trials:
        assert captured.runner is not None
        found.append(compare(captured.runner, expected, args, kwargs, on, adapted.without))
        # Partitions may refuse the other side of a branch; they are not a single graph for all values.
        if not found[-1].agrees and (name != PARTITIONS or not found[-1].refusal or len(found) == 1):
            attempts.append(Attempt(name, adapted.adaptations, str(found[-1]), tuple(found)))
            return None
    attempts.append(Attempt(name, adapted.adaptations, agreements=tuple(found)))
    return replace(
        captured,
        caveats=captured.caveats + caveats_of(found),
        attempts=tuple(attempts),
        adaptations=adapted.adaptations,
        agreements=tuple(found),
    )
