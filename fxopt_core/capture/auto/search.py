"""The search: every strategy on the model as it is, then on adapted copies, until one agrees with the model."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

from fxopt_core.capture.agreement import Agreement, compare
from fxopt_core.capture.auto.adapting import Adapted, adapted_models, returns_a_cache
from fxopt_core.capture.auto.opening import opened
from fxopt_core.capture.auto.strategies import (
    LAST_RESORT,
    OPENED,
    STRATEGIES,
    Strategy,
    hopeless,
    refuses_batch_or_length,
)
from fxopt_core.capture.dimensions import Dynamic
from fxopt_core.capture.errors import CaptureError
from fxopt_core.capture.failures import in_one_line
from fxopt_core.capture.isolation import Model, private_copy, same_random_state
from fxopt_core.capture.methods.dynamo import capture_with_dynamo
from fxopt_core.capture.new_values import may_refuse, new_values
from fxopt_core.capture.result import Attempt, Captured
from fxopt_core.capture.second_run import Trial, caveats_of, feasible


def capture_automatically(model: Model, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic: Dynamic) -> Captured:
    """One graph that agrees with the model on every trial, else one that refuses some, else Dynamo's partitions.

    A graph that refuses a padded mask, other whole numbers or sizes that nobody named is specialised to the
    example's; of several the one that refuses least is taken. One that is wrong on any trial, or refuses new values of
    the same shapes, is not taken. Partitions may refuse, never be wrong. Strategies of which an earlier failure says
    that they would fail too are left out. Where Python goes through a batch piece by piece, which fixes its size, a
    copy that takes all pieces at once is tried. Where no strategy gives a graph, one run is recorded.

    The trials are the example, new values of the same shapes, a padded mask where the example has a full one, and
    other sizes where `dynamic` names them or lets all vary: those that the model itself can do.

    Raises:
        CaptureError: nothing gave graphs that agree with the model; the message tells every attempt.
        Exception: the model's own, where it fails on the example.
    """
    trials = list(feasible(model, args, kwargs, new_values(model, args, kwargs, dynamic)))
    attempts: list[Attempt] = []
    specialised: list[Captured] = []
    refusable = may_refuse([on for (on, _, _), _ in trials])
    outputs = trials[0][1].outputs
    held = returns_a_cache(model, outputs)
    if held:
        attempts.append(Attempt("as it is", failure=f"the result holds {held}, which no graph returns."))
    known: set[str] = set()
    tried: list[Adapted] = []
    for adapted in adapted_models(model, outputs):
        if held and not adapted.adaptations:
            continue
        tried.append(adapted)
        begun, partly = len(attempts), dict[str, tuple[str, ...]]()
        for name, strategy in STRATEGIES.items():
            if hopeless(name, [one.failure for one in attempts[begun:]], partly, dynamic):
                continue
            captured = _attempt(name, strategy, adapted, trials, dynamic, attempts, refusable)
            if captured is not None and not captured.specialised:
                return _taken(captured, attempts)
            if captured is not None:
                specialised.append(captured)
                partly[name] = captured.specialised
            elif len(attempts) == begun + 1:
                if attempts[-1].failure in known:
                    break  # the adaptation is none for what it fails at
                known.add(attempts[-1].failure)
        if specialised:
            break  # these adaptations are for models that cannot be captured
    wider: Adapted | None = None
    for name, strategy in OPENED.items():
        if not dynamic.choice or not all(refuses_batch_or_length(one.specialised) for one in specialised):
            break
        wider = wider or opened(tried[-1] if specialised else tried[0], args, kwargs)
        if wider is None:
            break
        captured = _attempt(name, strategy, wider, trials, dynamic, attempts, refusable)
        if captured is not None and not captured.specialised:
            return _taken(captured, attempts)
        specialised += [captured] if captured is not None else []
    if specialised:
        # The first of the least specialised is the best.
        return _taken(min(specialised, key=lambda one: len(one.specialised)), attempts)
    for (name, strategy), adapted in product(LAST_RESORT.items(), tried):
        captured = _attempt(name, strategy, adapted, trials, dynamic, attempts, refusable)
        if captured is not None:
            return _taken(captured, attempts)
    # Of a branch on data, partitions hold one side, and refuse the other.
    others = frozenset(on for (on, _, _), _ in trials[1:])
    captured = _attempt("dynamo, partitions", capture_with_dynamo, Adapted(model), trials, dynamic, attempts, others)
    if captured is not None:
        return _taken(captured, attempts)
    told = "; ".join(f"{one.strategy}{''.join(f', {a}' for a in one.adaptations)}: {one.failure}" for one in attempts)
    raise CaptureError("auto", f"no way gave graphs that agree with the model. {told}", 'see method="dynamo".')


def _taken(captured: Captured, attempts: list[Attempt]) -> Captured:
    return replace(captured, caveats=captured.caveats + caveats_of(captured.agreements), attempts=tuple(attempts))


def _attempt(
    name: str,
    strategy: Strategy,
    adapted: Adapted,
    trials: list[Trial],
    dynamic: Dynamic,
    attempts: list[Attempt],
    refusable: frozenset[str],
) -> Captured | None:
    """The capture, when it agrees or refuses where it may; else `None`. Either way `attempts` has one more."""
    _, args, kwargs = trials[0][0]
    found: list[Agreement] = []

    def note(failure: str) -> None:
        attempts.append(Attempt(name, adapted.adaptations, failure, tuple(found)))

    try:
        with same_random_state(adapted.model, args, kwargs):
            captured = strategy(*private_copy(adapted.model, args, kwargs, "auto"), dynamic)
    except Exception as error:
        note(in_one_line(error, name, dynamic))
        return None
    if captured.runner is None:
        raise TypeError(f"the strategy {name!r} gave no runner, so that nothing can be compared")
    for (on, args, kwargs), expected in trials:
        found.append(compare(captured.runner, expected, args, kwargs, on, adapted.without))
        if not found[-1].agrees and not (found[-1].refusal and on in refusable):
            note(str(found[-1]))
            return None
    refused = ", ".join(one.on for one in found if one.refusal)
    note(f"specialised: it refuses {refused}." if refused else "")
    return replace(captured, adaptations=adapted.adaptations, agreements=tuple(found))
