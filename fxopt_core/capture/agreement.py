"""Whether what was captured gives what the model gives."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from fxopt_core.capture.dimensions import NOTHING_DYNAMIC
from fxopt_core.capture.failures import in_one_line
from fxopt_core.capture.module import CapturedModule, trying_small_sizes
from fxopt_core.capture.new_values import ONE, Call
from fxopt_core.capture.running import Runner
from fxopt_core.verification.cases import AGAIN, Case, in_a_row
from fxopt_core.verification.equivalence import Comparison
from fxopt_core.verification.isolation import Model
from fxopt_core.verification.observation import Observation, observe
from fxopt_core.verification.state import PLAIN, State, with_shared_tensors


@dataclass(frozen=True)
class Agreement:
    """How a captured call compared with the model's own.

    Attributes:
        on: which inputs, in words.
        agrees: whether every output agrees but for rounding.
        difference: the largest absolute difference; infinite where shapes, types or numbers of outputs differ.
        refusal: where the capture refused these inputs (a guard, a range), what it said; else empty.
        unwritten: paths in the model that its own call changes and the captured one does not, or not likewise.
        gradients: what is wrong about the gradients, in words; empty where they agree.
    """

    on: str
    agrees: bool
    difference: float
    refusal: str = ""
    unwritten: tuple[str, ...] = ()
    gradients: str = ""

    def __str__(self) -> str:
        if self.refusal:
            return f"{self.on}: refused ({self.refusal})"
        return f"{self.on}: {'agrees' if self.agrees else 'DIFFERS'}, largest difference {self.difference:.3g}"


EXAMPLE = "the example"
"""Description of the example inputs: the only ones on which calls begin from the random state at hand, and come four
times in a row."""


class Reference:
    """What calls of the model itself give, on copies of the inputs and from the state that the model has now.

    Args:
        model: is as it was afterwards.
        state: of the model.
        call: what is special about the inputs, and the inputs.
        then: other inputs to call with afterwards, which show what the first call has kept of its own.

    Attributes:
        on: which inputs, in words.
        row: the calls, one after the other.
        outputs: of the example, what the last call returned, as the model returned it. It records no gradients, so
            that nothing is kept of what is computed inside.

    Raises:
        Exception: the model's own, where it fails on these inputs.
    """

    def __init__(self, model: Model, state: State, call: Call, then: Call | None = None) -> None:
        self.on, self.args, self.kwargs = call
        self._model, self._state = model, state
        first = Case(*call, gradients=None, seed=None if self.on == EXAMPLE else zlib.crc32(self.on.encode()))
        # Once more just like it: a graph may refuse the other modes, and so hide that it does not follow the state.
        again = first._replace(name=f"{EXAMPLE}, {AGAIN}", gradients=torch.is_grad_enabled() or None)
        self.row = [first, again, *in_a_row(first)[1:]] if self.on == EXAMPLE else [first]
        self.row += [again._replace(args=then[1], kwargs=then[2], seed=first.seed, gradients=None)] if then else []
        self.outputs: Any = None
        self._seen: dict[frozenset[str], list[Observation]] = {}
        (error, *_) = (one.error for one in self.without(frozenset()))
        if error is not None:
            raise error

    def without(self, names: frozenset[str]) -> list[Observation]:
        """What the calls did, those entries of the result left out that `names` says."""

        def call(*args: Any, **kwargs: Any) -> list[Any]:
            result = self._model(*args, **kwargs)
            if self.on == EXAMPLE:
                self.outputs = result
            if isinstance(result, Mapping):
                result = [value for name, value in result.items() if name not in names]
            return _leaves(result, set())

        if names not in self._seen:
            self._seen[names] = observe(call, self._state, self.row)
        return self._seen[names]

    @cached_property
    def repeats(self) -> bool:
        """Whether the model agrees with itself from the same state and seed. It may read memory that nobody wrote."""
        return agreement_with(Runner(self._model), self._state, self, frozenset()).agrees


def references(
    model: Model, args: tuple[Any, ...], kwargs: dict[str, Any], others: Iterable[Call]
) -> Iterator[Reference]:
    """The example, for which the model's own error is raised, and of the `others` those that the model can do."""
    model = with_shared_tensors(model)
    state = State(model)
    then: Call | None = (EXAMPLE, args, kwargs)
    yield Reference(model, state, (EXAMPLE, args, kwargs))
    for call in others:
        try:
            expected = Reference(model, state, call, then)
        except Exception:  # the model itself takes no such inputs: there is nothing to compare with
            continue
        then = None
        yield expected


def agreements(
    runner: Runner, expected: Iterable[Reference], without: frozenset[str] = frozenset()
) -> Iterator[Agreement]:
    """Make the same calls of `runner`, from the state that it has now, and compare. Its state is as it was afterwards.

    Compared are tensors and plain values in the result and, after the call, in the inputs, to the rule of `rounding`;
    gradients, where the model can be differentiated with respect to all its inputs; and what is written. Entries of the
    model's result named in `without` do not count. A trial other than the example on which the model does not agree
    with itself tells nothing, and is left out; it is asked only where the calls disagree.
    """
    state = State(runner.module)
    for one in expected:
        with trying_small_sizes(runner.module, one.args, one.kwargs) as small:
            found = agreement_with(runner, state, one, without)
            small.allowed = found.agrees
        if not (found.agrees or found.refusal or one.on == EXAMPLE or one.repeats):
            continue
        if small.sizes and not found.agrees and not found.refusal and one.on.startswith(ONE):
            wrong = f"the graph would be wrong by up to {found.difference:.3g}"
            found = replace(found, refusal=wrong)
        yield found


def agreement_with(runner: Runner, state: State, expected: Reference, without: frozenset[str]) -> Agreement:
    """How `runner`, whose module holds `state` now, agrees with one reference; see `agreements`."""
    wanted = expected.without(without)
    row = expected.row[: len(wanted)]
    found = observe(lambda *args, **kwargs: _leaves(runner(*args, **kwargs), set()), state, row)
    largest, gradients = 0.0, runner.module.lost_gradients if isinstance(runner.module, CapturedModule) else ""
    # Also what only the first call writes, which may be missing where two functions are to do the same.
    unwritten = dict.fromkeys(f"self.{name}" for name in wanted[0].written if name not in found[0].written)
    for case, want, got in zip(row, wanted, found, strict=False):
        if want.error is not None:
            break  # the model itself takes no gradients, or its first call leaves a state in which it fails
        if got.error is not None:
            refusal = in_one_line(got.error, "run", NOTHING_DYNAMIC)
            return Agreement(case.name, agrees=False, difference=float("inf"), refusal=refusal)
        comparison = Comparison(want, got, case.name, values_only=True)
        agrees = True
        for one in comparison.differences():
            if one.what in ("gradient", "exception", "part in autograd"):
                told = f"{one.what} of {one.where}: {one.detail}" if want.gradient_error is None else ""
                gradients = gradients or told
            elif one.what in ("mutation", "training flag") and one.where not in want.inputs:
                unwritten[f"self.{one.where}"] = None
            elif one.what not in ("aliasing", "random state", "mode"):
                agrees = False
        largest = max(largest, comparison.largest)
        if not agrees:
            return Agreement(case.name, agrees=False, difference=largest, unwritten=tuple(sorted(unwritten)))
    return Agreement(
        expected.on, agrees=True, difference=largest, unwritten=tuple(sorted(unwritten)), gradients=gradients
    )


def _leaves(values: Any, seen: set[int]) -> list[Any]:
    """Tensors and plain values, also those held by objects (a cache), without `None`."""
    found: list[Any] = []
    for leaf in tree_leaves(values):
        if isinstance(leaf, (torch.Tensor, *PLAIN)):
            found += [] if leaf is None else [leaf]
        elif id(leaf) not in seen and hasattr(leaf, "__dict__"):
            seen.add(id(leaf))
            found += _leaves(vars(leaf), seen)
    return found
