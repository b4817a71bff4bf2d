"""`method="auto"`: tries one way of capture after the other until a graph agrees with the model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from fxopt_core.capture.agreement import EXAMPLE, Agreement, Reference, agreements, references
from fxopt_core.capture.check_against_model import with_agreements
from fxopt_core.capture.dimensions import Dynamic
from fxopt_core.capture.errors import CaptureError
from fxopt_core.capture.extensions import Adapted, Objection, Strategy, extensions
from fxopt_core.capture.failures import in_one_line
from fxopt_core.capture.methods.dynamo import capture_with_dynamo
from fxopt_core.capture.methods.exporting import capture_with_export
from fxopt_core.capture.new_values import may_refuse, new_values
from fxopt_core.capture.result import Attempt, Captured
from fxopt_core.verification.cases import AGAIN
from fxopt_core.verification.isolation import Model, private_copy
from fxopt_core.verification.modes import modes_put_back
from fxopt_core.verification.state import same_state

STRATEGIES: dict[str, Strategy] = {
    "export": capture_with_export,
    "dynamo, fullgraph": partial(capture_with_dynamo, fullgraph=True),
}
"""The core's own ways to a single graph, the most faithful first, by the name that `Captured.attempts` gives them."""


def capture_automatically(
    model: Model,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    dynamic: Dynamic,
    objection: Objection | None = None,
) -> Captured:
    """One graph that agrees with the model on every trial, else one that refuses some, else Dynamo's graphs.

    A graph that refuses a padded mask, other whole numbers or sizes that nobody named is specialised to the example;
    of several, the one that refuses least is taken. A graph that is wrong on any trial, or that refuses new values of
    the same shapes, is never taken. Dynamo's several graphs may refuse, but they must not be wrong either.

    The trials are the example, new values of the same shapes, a padded mask where the example has a full one, and
    other sizes where `dynamic` names them or lets all vary: those that the model itself can do.

    Raises:
        CaptureError: nothing gave graphs that agree with the model; the message lists every attempt.
        Exception: the model's own, where it fails on the example.
    """
    trials = list(references(model, args, kwargs, new_values(model, args, kwargs, dynamic)))
    search = Search(model, trials, dynamic, may_refuse([one.on for one in trials]), objection)
    specialised: list[Captured] = []
    ways = next((one.ways for one in extensions() if one.ways is not None), own_ways)
    for captured in ways(search):
        if not captured.specialised and captured.has_gradients:
            return search.taken(captured)
        specialised.append(captured)
    if specialised:
        # The first of the least specialised is the best; of several, one that can be differentiated.
        return search.taken(min(specialised, key=lambda one: (len(one.specialised), not one.has_gradients)))
    # Of a branch on data, Dynamo's graphs hold one side and refuse the other.
    search.refusable = frozenset([f"{EXAMPLE}, {AGAIN}", *(one.on for one in trials[1:])])
    partitions = search.attempt("dynamo, partitions", capture_with_dynamo)
    if partitions is not None:
        return search.taken(partitions)
    told = "; ".join(", ".join([one.strategy, *one.adaptations]) + f": {one.failure}" for one in search.attempts)
    raise CaptureError("auto", f"no way gave graphs that agree with the model. {told}", 'see method="dynamo".')


@dataclass
class Search:
    """A search for a graph: what captures are compared with, and what was tried so far.

    Attributes:
        model: the caller's; no way may change it.
        trials: inputs, and what the model gives for them; the first is the example.
        dynamic: which sizes may vary.
        refusable: the trials that a capture may refuse.
        objection: what else may speak against a capture.
        attempts: so far.
    """

    model: Model
    trials: list[Reference]
    dynamic: Dynamic
    refusable: frozenset[str]
    objection: Objection | None = None
    attempts: list[Attempt] = field(default_factory=list)

    def attempt(self, name: str, strategy: Strategy, adapted: Adapted | None = None) -> Captured | None:
        """The capture, when it agrees or refuses where it may; else `None`. Either way `attempts` has one more.

        Args:
            name: what `attempts` calls the strategy.
            strategy: captures copies of the model and of the example's arguments.
            adapted: what to capture in place of the model.

        Raises:
            TypeError: the strategy's result has nothing to call, so that nothing can be compared.
        """
        adapted = adapted or Adapted(self.model)
        found: list[Agreement] = []

        def note(failure: str) -> None:
            self.attempts.append(Attempt(name, adapted.adaptations, failure, tuple(found)))

        try:
            copied = private_copy(adapted.model, self.trials[0].args, self.trials[0].kwargs)
            # A graph that draws from a generator of the copy's has to begin where the model would.
            with same_state(copied[0]), modes_put_back():
                captured = strategy(*copied, self.dynamic)
        except Exception as error:
            note(in_one_line(error, name, self.dynamic))
            return None
        if captured.runner is None:
            raise TypeError(f"the strategy {name!r} gave no runner, so that nothing can be compared")
        for one in agreements(captured.runner, self.trials, adapted.without):
            found.append(one)
            if not one.agrees and not (one.refusal and (one.on in self.refusable or f"{AGAIN} with" in one.on)):
                note(str(one))
                return None
        if reason := self.objection and self.objection(captured):
            note(reason)
            return None
        captured = replace(captured, adaptations=adapted.adaptations, agreements=tuple(found))
        refused = ", ".join(captured.specialised)
        note(f"specialised: it refuses {refused}." if refused else "")
        return captured

    def taken(self, captured: Captured) -> Captured:
        """A capture, with all that was tried."""
        return replace(with_agreements(captured, captured.agreements), attempts=tuple(self.attempts))


def own_ways(search: Search) -> Iterator[Captured]:
    """What `STRATEGIES` give for the model as it is."""
    yield from filter(None, (search.attempt(name, strategy) for name, strategy in STRATEGIES.items()))
