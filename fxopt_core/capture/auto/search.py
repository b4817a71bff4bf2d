"""The search: every strategy on the model as it is, then on adapted copies, until one agrees with the model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import chain, product
from typing import Any

from fxopt_core.capture.agreement import EXAMPLE, Agreement, Reference, agreements, references
from fxopt_core.capture.auto.strategies import (
    OPENED,
    READS_AUTOGRAD,
    STRATEGIES,
    hopeless,
    refuses_batch_or_length,
)
from fxopt_core.capture.check_against_model import with_agreements
from fxopt_core.capture.dimensions import Dynamic
from fxopt_core.capture.errors import CaptureError
from fxopt_core.capture.extensions import Adapted, Objection, Strategy, extensions
from fxopt_core.capture.failures import in_one_line
from fxopt_core.capture.methods.dynamo import capture_with_dynamo
from fxopt_core.capture.new_values import may_refuse, new_values
from fxopt_core.capture.result import Attempt, Captured
from fxopt_core.verification.cases import AGAIN
from fxopt_core.verification.isolation import Model, private_copy
from fxopt_core.verification.state import same_state


def capture_automatically(
    model: Model,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    dynamic: Dynamic,
    objection: Objection | None = None,
) -> Captured:
    """One graph that agrees with the model on every trial, else one that refuses some, else Dynamo's partitions.

    A graph that refuses a padded mask, other whole numbers or sizes that nobody named is specialised to the
    example's; of several the one that refuses least is taken. One that is wrong on any trial, or refuses new values of
    the same shapes, is not taken. Partitions may refuse, never be wrong. Strategies of which an earlier failure says
    that they would fail too are left out. Where Python goes through a batch piece by piece, which fixes its size, a
    copy that takes all pieces at once is tried as soon as the first strategy fails or fixes a size: the others take
    long and end at the pieces all the same. Where no strategy gives a graph, one run is recorded.

    The trials are the example, new values of the same shapes, a padded mask where the example has a full one, and
    other sizes where `dynamic` names them or lets all vary: those that the model itself can do.

    Raises:
        CaptureError: nothing gave graphs that agree with the model; the message tells every attempt.
        Exception: the model's own, where it fails on the example.
    """
    trials = list(references(model, args, kwargs, new_values(model, args, kwargs, dynamic)))
    search = _Search(trials, dynamic, may_refuse([one.on for one in trials]), objection)
    specialised: list[Captured] = []
    outputs = trials[0].outputs
    # What extensions give lacks something of the model: an entry of the result, or gradients.
    others = extensions() if objection is None else ()
    held = "; ".join(filter(None, (one.unreturnable(model, outputs) for one in others)))
    if held:
        search.attempts.append(Attempt("as it is", failure=f"the result holds {held}, which no graph returns."))
    tried: list[Adapted] = []
    copies = chain.from_iterable(one.adapt(model, outputs) for one in others)
    for adapted in chain([Adapted(model)], copies):
        if held and not adapted.adaptations:
            continue
        tried.append(adapted)
        for captured in search.captures(adapted):
            if not captured.specialised and _has_gradients(captured):
                return search.taken(captured)
            specialised.append(captured)
        if any(one.adaptations == adapted.adaptations for one in specialised):
            break  # further adaptations are for models that cannot be captured
    if specialised:
        # The first of the least specialised is the best; of several, one that can be differentiated.
        return search.taken(min(specialised, key=lambda one: (len(one.specialised), not _has_gradients(one))))
    last_resort = chain.from_iterable(one.last_resort.items() for one in others)
    for (name, strategy), adapted in product(last_resort, tried):
        recorded = search.attempt(name, strategy, adapted)
        if recorded is not None:
            return search.taken(recorded)
    # Of a branch on data, partitions hold one side, and refuse the other.
    search.refusable = frozenset([f"{EXAMPLE}, {AGAIN}", *(one.on for one in trials[1:])])
    partitions = search.attempt("dynamo, partitions", capture_with_dynamo, Adapted(model))
    if partitions is not None:
        return search.taken(partitions)
    told = "; ".join(
        f"{one.strategy}{''.join(f', {a}' for a in one.adaptations)}: {one.failure}" for one in search.attempts
    )
    raise CaptureError("auto", f"no way gave graphs that agree with the model. {told}", 'see method="dynamo".')


@dataclass
class _Search:
    """What is compared with, and what was tried so far.

    Attributes:
        trials: inputs, and what the model gives for them; the first is the example.
        dynamic: which sizes may vary.
        refusable: the trials that a capture may refuse.
        objection: what else may speak against a capture.
        attempts: so far.
        known: how the first strategy failed on the models tried so far.
    """

    trials: list[Reference]
    dynamic: Dynamic
    refusable: frozenset[str]
    objection: Objection | None = None
    attempts: list[Attempt] = field(default_factory=list)
    known: set[str] = field(default_factory=set)

    def captures(self, adapted: Adapted) -> Iterator[Captured]:
        """What the strategies that are not hopeless give for a model, and for it with its sizes opened."""
        failures, partly, no_gradients = list[str](), dict[str, tuple[str, ...]](), False
        for name, strategy in STRATEGIES.items():
            if name != READS_AUTOGRAD if no_gradients else hopeless(name, failures, partly, self.dynamic):
                continue
            captured = self.attempt(name, strategy, adapted)
            first = not failures
            failures.append(self.attempts[-1].failure)
            if captured is not None:
                partly[name] = captured.specialised
                no_gradients |= not _has_gradients(captured)
                yield captured
            elif first:
                if failures[0] in self.known:
                    return  # the adaptation is none for what it fails at
                self.known.add(failures[0])
            if first and self.dynamic.choice and all(map(refuses_batch_or_length, partly.values())):
                yield from self._opened(adapted)

    def _opened(self, adapted: Adapted) -> Iterator[Captured]:
        args, kwargs = self.trials[0].args, self.trials[0].kwargs
        wider = next(filter(None, (one.open_sizes(adapted, args, kwargs) for one in extensions())), None)
        if wider is None:
            return
        for name, strategy in OPENED.items():
            captured = self.attempt(name, strategy, wider)
            if captured is None:
                continue
            yield captured
            if not refuses_batch_or_length(captured.specialised):
                return

    def attempt(self, name: str, strategy: Strategy, adapted: Adapted) -> Captured | None:
        """The capture, when it agrees or refuses where it may; else `None`. Either way `attempts` has one more."""
        args, kwargs = self.trials[0].args, self.trials[0].kwargs
        found: list[Agreement] = []

        def note(failure: str) -> None:
            self.attempts.append(Attempt(name, adapted.adaptations, failure, tuple(found)))

        try:
            copied = private_copy(adapted.model, args, kwargs)
            # A graph that draws from a generator of the copy's has to begin where the model would.
            with same_state(copied[0]):
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
        refused = ", ".join(one.on for one in found if one.refusal)
        note(f"specialised: it refuses {refused}." if refused else "")
        return replace(captured, adaptations=adapted.adaptations, agreements=tuple(found))

    def taken(self, captured: Captured) -> Captured:
        """A capture, with all that was tried."""
        return replace(with_agreements(captured, captured.agreements), attempts=tuple(self.attempts))


def _has_gradients(captured: Captured) -> bool:
    return not any(one.gradients for one in captured.agreements)
