"""Rewrite, compare, and take back the one rewrite that is to blame: the loop behind `optimize` and the backend."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fxopt_core.optimizer.report import OptimizedGraph
from fxopt_core.passes import OptimizationPass
from fxopt_core.verification import EXACT, Equivalence, Gradients, Tolerance, bisect_rewrites

Passes = Sequence[OptimizationPass]
Promise = tuple[Tolerance, Gradients]
"""How far values may be off, and which gradients stay."""


class VerificationError(RuntimeError):
    """The captured graph does not do what the model does, before any pass has changed it."""


@dataclass
class Built:
    """A model after some rewrites.

    Attributes:
        call: what is called like the model.
        graphs: the model's graphs, before and after. Dynamo adds more when a comparison calls the model in a new way;
            these go through the passes too, and may be to blame.
        first: how many graphs there were after the first call.
        numbered: whether the key of a rewrite says in which graph it is.
    """

    call: Any
    graphs: list[OptimizedGraph]
    first: int = 1
    numbered: bool = False

    @property
    def keys(self) -> list[str]:
        """The key of every rewrite, in the order in which they were made."""
        return [
            f"graph {number}: {rewrite.key}" if self.numbered else rewrite.key
            for number, graph in enumerate(self.graphs)
            for rewrite in graph.result.rewrites
        ]


@dataclass(frozen=True)
class Verified:
    """A model after all rewrites that a comparison found right.

    Attributes:
        built: the model.
        tolerance: how far its values may be off, as the capture and the rewrites promise.
        gradients: which gradients it keeps.
        equivalence: what the comparison found; `None` where none was asked for.
        denied: keys of the rewrites that were taken back.
    """

    built: Built
    tolerance: Tolerance
    gradients: Gradients
    equivalence: Equivalence | None
    denied: tuple[str, ...]


def run_verified_passes(
    passes: Passes,
    build: Callable[[Passes, frozenset[str], float], Built],
    compare: Callable[[Any, Tolerance, Gradients], Equivalence] | None,
    *,
    own_rounding: Tolerance = EXACT,
    at_fault: str,
) -> Verified:
    """Build a model with all rewrites; as long as a comparison finds a difference, deny the guilty one and build again.

    The guilty rewrite is found by bisection over the first so many rewrites and no others, because one that is left
    out of the middle might let another one match.

    Args:
        passes: in order.
        build: makes the model with these passes, without the rewrites of these keys, and with at most so many.
        compare: compares what `build` made (`Built.call`) with the model; `None` to trust the passes.
        own_rounding: how far off the graph may be before any rewrite.
        at_fault: how the error begins that says who is to blame if not the passes.

    Raises:
        VerificationError: what is built without any rewrite already differs.
    """
    denied: list[str] = []
    while True:
        built = build(passes, frozenset(denied), math.inf)
        promise = _promise(passes, built.graphs, own_rounding)
        equivalence = compare(built.call, *promise) if compare is not None else None
        if compare is None or equivalence:
            return Verified(built, *promise, equivalence, tuple(sorted(denied)))
        keys = built.keys
        failed = {failure.name for graph in built.graphs for failure in graph.result.failures}
        acting = [pass_ for pass_ in passes if pass_.name not in failed]

        def after(made: int, acting: Passes = acting, promise: Promise = promise) -> Equivalence:
            return compare(build(acting, frozenset(denied), made).call, *promise)

        if not (unchanged := after(0)):
            raise VerificationError(f"{at_fault} {unchanged}")
        denied.append(keys[bisect_rewrites(len(keys), lambda made: bool(after(made)))])


def _promise(passes: Passes, graphs: Sequence[OptimizedGraph], rounding: Tolerance) -> Promise:
    """What the capture and the rewrites promise together: the widest tolerance, and which gradients stay."""
    rewrites = [rewrite for graph in graphs for rewrite in graph.result.rewrites]
    used = {rewrite.rule.partition("/")[0] for rewrite in rewrites}
    promises = [rounding, *(rewrite.tolerance for rewrite in rewrites)]
    tolerance = Tolerance(max(promise.relative for promise in promises), max(promise.absolute for promise in promises))
    return tolerance, "all" if all(pass_.keeps_gradients for pass_ in passes if pass_.name in used) else "inputs"
