"""Whether what was captured gives what the model gives."""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from fxopt_core.capture.dimensions import NOTHING_DYNAMIC
from fxopt_core.capture.failures import in_one_line
from fxopt_core.capture.new_values import Call
from fxopt_core.capture.running import Runner
from fxopt_core.verification.cases import AGAIN, Case, in_a_row
from fxopt_core.verification.comparison import EXACT, largest_magnitude, rounding, same_value, tensor_error
from fxopt_core.verification.isolation import Model
from fxopt_core.verification.observation import Observation, observe
from fxopt_core.verification.state import PLAIN


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

_SPENT: ContextVar[list[float] | None] = ContextVar("seconds of comparisons", default=None)


@contextmanager
def time_comparisons() -> Iterator[list[float]]:
    """The seconds of each comparison inside, and of each call of the model that it needs, as they come."""
    spent: list[float] = []
    token = _SPENT.set(spent)
    try:
        yield spent
    finally:
        _SPENT.reset(token)


@contextmanager
def _timed() -> Iterator[None]:
    start, spent = time.perf_counter(), _SPENT.get()
    try:
        yield
    finally:
        if spent is not None:
            spent.append(time.perf_counter() - start)


class Reference:
    """What calls of the model itself give, on copies of the inputs and from the state that the model has now.

    Args:
        model: is as it was afterwards.
        call: what is special about the inputs, and the inputs.

    Attributes:
        on: which inputs, in words.
        row: the calls, one after the other.
        outputs: what the first returned, as the model returned it.

    Raises:
        Exception: the model's own, where it fails on these inputs.
    """

    def __init__(self, model: Model, call: Call) -> None:
        self.on, self.args, self.kwargs = call
        self._model = model
        first = Case(*call, gradients=None, seed=None if self.on == EXAMPLE else zlib.crc32(self.on.encode()))
        # Once more just like it: a graph may refuse the other modes, and so hide that it does not follow the state.
        again = first._replace(name=f"{EXAMPLE}, {AGAIN}")
        self.row = [first, again, *in_a_row(first)[1:]] if self.on == EXAMPLE else [first]
        self.outputs: Any = None
        self._seen: dict[frozenset[str], list[Observation]] = {}
        (error, *_) = (one.error for one in self.without(frozenset()))
        if error is not None:
            raise error

    @_timed()
    def without(self, names: frozenset[str]) -> list[Observation]:
        """What the calls did, those entries of the result left out that `names` says."""

        def call(*args: Any, **kwargs: Any) -> list[Any]:
            result = self._model(*args, **kwargs)
            self.outputs = result if self.outputs is None else self.outputs
            if isinstance(result, Mapping):
                result = [value for name, value in result.items() if name not in names]
            return _leaves(result, set())

        if names not in self._seen:
            self._seen[names] = observe(call, self._model, self.row)
        return self._seen[names]


@_timed()
def compare(runner: Runner, expected: Reference, without: frozenset[str] = frozenset()) -> Agreement:
    """Make the same calls of `runner`, from the state that it has now, and compare. Its state is as it was afterwards.

    Compared are tensors and plain values in the result and, after the call, in the inputs, to the rule of `rounding`;
    gradients, where the model can be differentiated with respect to all its inputs; and what is written. Entries of the
    model's result named in `without` do not count.
    """
    wanted = expected.without(without)
    found = observe(
        lambda *args, **kwargs: _leaves(runner(*args, **kwargs), set()), runner.module, expected.row[: len(wanted)]
    )
    largest, unwritten, gradients = 0.0, tuple(_unwritten(wanted[0], found[0])), ""
    for case, want, got in zip(expected.row, wanted, found, strict=False):
        if want.error is not None:
            break  # the model itself takes no gradients, or its first call leaves a state in which it fails
        if got.error is not None:
            refusal = in_one_line(got.error, "run", NOTHING_DYNAMIC)
            return Agreement(case.name, agrees=False, difference=float("inf"), refusal=refusal)
        values = [(*one.outputs.values(), *one.inputs.values()) for one in (got, want)]
        differences = [_difference(*pair) for pair in zip(*values, strict=False)]
        if len(values[0]) != len(values[1]):
            differences = [(float("inf"), False)]
        largest = max((largest, *(one for one, _ in differences)))
        if not all(close for _, close in differences):
            return Agreement(case.name, agrees=False, difference=largest, unwritten=unwritten)
        gradients = gradients or _wrong_gradient(got, want)
    return Agreement(expected.on, agrees=True, difference=largest, unwritten=unwritten, gradients=gradients)


def _unwritten(want: Observation, got: Observation) -> Iterator[str]:
    for name, value in want.written.items():
        if name not in got.written or not _difference(got.written[name], value)[1]:
            yield f"self.{name}"


def _wrong_gradient(got: Observation, want: Observation) -> str:
    """In words; a gradient of zeros is as good as none."""
    if want.gradient_error is not None:
        return ""
    if got.gradient_error is not None:
        return in_one_line(got.gradient_error, "run", NOTHING_DYNAMIC)
    for name in {**want.gradients, **got.gradients}:
        pair = [one.gradients.get(name) for one in (got, want)]
        if name.startswith("input") or None not in pair:
            found, expected = (torch.zeros(()) if one is None else one for one in pair)
            found, expected = (one.expand(max(found.shape, expected.shape, key=len)) for one in (found, expected))
            if tensor_error(found, expected, EXACT)[1] is None:
                continue
            known = [one for one in (*got.gradients.values(), *want.gradients.values()) if one is not None]
            largest = max(map(largest_magnitude, known), default=0.0)
            error, wrong = tensor_error(found, expected, rounding(expected.dtype, largest))
            if wrong:
                return f"that of {name} is wrong by {error:.3g}"
    return ""


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


def _difference(found: Any, expected: Any) -> tuple[float, bool]:
    """The largest difference, and whether it is no more than rounding."""
    if not (isinstance(found, torch.Tensor) and isinstance(expected, torch.Tensor)):
        same = not isinstance(found, torch.Tensor) and same_value(found, expected)
        return (0.0, True) if same else (float("inf"), False)
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return float("inf"), False
    error, wrong = tensor_error(found.to(expected.device), expected, rounding(expected.dtype))
    return error, wrong is None
