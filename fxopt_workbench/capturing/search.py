"""The ways that `auto` goes with the workbench: many strategies, on the model as it is and on adapted copies of it.

A strategy that an earlier failure makes hopeless is left out. Where Python goes through a batch piece by piece, which
fixes its size, a copy that takes all pieces at once is tried as soon as the first strategy fails or fixes a size: the
others take long and end at the pieces all the same. Where no strategy gives a graph, one run is recorded.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from fxopt_core.capture.auto import Search
from fxopt_core.capture.extensions import Adapted
from fxopt_core.capture.result import Attempt, Captured
from fxopt_workbench.capturing.strategies import (
    OPENED,
    READS_AUTOGRAD,
    STRATEGIES,
    hopeless,
    refuses_batch_or_length,
)
from fxopt_workbench.huggingface.adapters import adapted_models, returned_cache
from fxopt_workbench.huggingface.batch_pieces import opened
from fxopt_workbench.recording import capture_with_recorder


def ways(search: Search) -> Iterator[Captured]:
    """Every graph that a strategy gives, the most faithful first.

    Further adaptations are for models of which the last adaptation gave no graph. What an adapted copy or a recording
    gives lacks something of the model (an entry of the result, gradients), so it is left out where there is an
    objection.
    """
    outputs = search.trials[0].outputs
    everything = search.objection is None
    held = returned_cache(search.model, outputs) if everything else None
    if held:
        search.attempts.append(Attempt("as it is", failure=f"the result holds {held}, which no graph returns."))
    found: list[Captured] = []
    tried: list[Adapted] = []
    failures_of_the_first: set[str] = set()
    for adapted in chain([Adapted(search.model)], adapted_models(search.model, outputs) if everything else ()):
        if held and not adapted.adaptations:
            continue
        tried.append(adapted)
        for captured in _of_one(search, adapted, failures_of_the_first):
            found.append(captured)
            yield captured
        if any(one.adaptations == adapted.adaptations for one in found):
            return
    for adapted in tried if everything and not found else ():
        recorded = search.attempt("recorder", capture_with_recorder, adapted)
        if recorded is not None:
            yield recorded
            return


def _of_one(search: Search, adapted: Adapted, known: set[str]) -> Iterator[Captured]:
    """What the strategies that are not hopeless give for a model, and for it with its sizes opened.

    Args:
        search: takes note of what is tried.
        adapted: the model.
        known: how the first strategy failed on the models tried so far.
    """
    failures, partly, no_gradients = list[str](), dict[str, tuple[str, ...]](), False
    for name, strategy in STRATEGIES.items():
        if name != READS_AUTOGRAD if no_gradients else hopeless(name, failures, partly, search.dynamic):
            continue
        captured = search.attempt(name, strategy, adapted)
        first = not failures
        failures.append(search.attempts[-1].failure)
        if captured is not None:
            partly[name] = captured.specialised
            no_gradients |= not captured.has_gradients
            yield captured
        elif first:
            if failures[0] in known:
                return  # the adaptation is none for what it fails at
            known.add(failures[0])
        if first and search.dynamic.choice and all(map(refuses_batch_or_length, partly.values())):
            yield from _with_sizes_opened(search, adapted)


def _with_sizes_opened(search: Search, adapted: Adapted) -> Iterator[Captured]:
    wider = opened(adapted, search.trials[0].args, search.trials[0].kwargs)
    if wider is None:
        return
    for name, strategy in OPENED.items():
        captured = search.attempt(name, strategy, wider)
        if captured is None:
            continue
        yield captured
        if not refuses_batch_or_length(captured.specialised):
            return
