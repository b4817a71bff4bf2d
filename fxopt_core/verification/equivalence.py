"""Whether two functions do the same in everything that can be observed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from fxopt_core.display import Displayable
from fxopt_core.verification.cases import AGAIN, SPECIAL, Case, cases, further_draws, in_a_row, negative_integers
from fxopt_core.verification.comparison import (
    EXACT,
    Tolerance,
    largest_magnitude,
    rounding,
    same_scalar,
    tensor_error,
    with_overflow_forgiven,
)
from fxopt_core.verification.isolation import ExampleInputs, split_example_inputs
from fxopt_core.verification.memory import MemoryLocation
from fxopt_core.verification.observation import Function, Observation, observe
from fxopt_core.verification.state import State, module_of

Gradients = Literal["all", "inputs", "none"]

MOST_TOLD = 120
"""Characters of a value that a difference quotes."""


@dataclass(frozen=True)
class Difference:
    """One thing that the two functions do differently.

    Attributes:
        what: the kind, such as `value`, `dtype`, `aliasing`, `mutation`, `gradient`, `exception`; see
            `check_equivalence`.
        where: which output, input, parameter or buffer.
        detail: in words, with figures.
        case: the inputs on which it showed.
    """

    what: str
    where: str
    detail: str
    case: str

    def __str__(self) -> str:
        return f"{self.what} of {self.where}: {self.detail} (inputs: {self.case})"


@dataclass(frozen=True)
class Equivalence(Displayable):
    """What a comparison found. True if the two functions do the same.

    Attributes:
        differences: what they do differently, in the first case in which they do.
        cases: the names of the inputs that were tried.
        raised: those of the cases in which both raised the same exception.
        largest_error: of all outputs, in units of their values; infinite where no number says it.
    """

    differences: tuple[Difference, ...]
    cases: tuple[str, ...]
    raised: tuple[str, ...]
    largest_error: float

    @property
    def equal(self) -> bool:
        """Whether no difference was found."""
        return not self.differences

    def __bool__(self) -> bool:
        return self.equal

    def __str__(self) -> str:
        if not self.equal:
            return "\n".join(map(str, self.differences))
        both = f" (on {', '.join(self.raised)} both raise)" if self.raised else ""
        return f"the same on {len(self.cases)} sets of inputs{both}; largest error {self.largest_error:g}"


def check_equivalence(
    original: Function,
    transformed: Function,
    inputs: ExampleInputs,
    *,
    tolerance: Tolerance = EXACT,
    gradients: Gradients = "all",
    gradient_tolerance: Tolerance | None = None,
    seed: int = 0,
    adversarial: bool = True,
    more_inputs: Sequence[ExampleInputs] = (),
) -> Equivalence:
    """Call both on copies of the same inputs, from the same state and seed, and compare everything observable.

    The inputs that are given are called with three times in a row, each call from the state that the one before left:
    as they are, with every floating-point input asking for gradients, and without gradients. A call with fresh values
    follows in the same row.

    Compared are
    - `structure` of the result; `value`, `dtype`, `shape`, `device`, `stride` and `part in autograd` of its leaves;
    - `aliasing`: which results and inputs are the same object, or share memory, with which other or with the module;
    - `mutation` of inputs, parameters, buffers and other state that `State` sees; `training flag`. What a later call in
      the row still changes must be changed likewise; what only the first changes (a cache that it fills) may be
      missing, if the transformed one has nothing of that name;
    - `random state` after the call, so that the number of draws counts, and `mode`: gradients, autocast, default dtype;
    - `gradient` of results and of what was written, weighted at random, by inputs and parameters that require grad.
      Zero differs from none, since optimisers skip a parameter without gradient;
    - `exception`: its type, in the call or in the backward pass.

    Nothing of the caller's changes: inputs are copied, and what the modules hold is put back. What a function holds
    cannot be seen, unless it is what the module that it is compared with holds. Parameters that are only read may
    differ.

    Three more sets of inputs are made from those given: fresh values, zeros of both signs and special values
    (infinities, NaN, subnormal and largest numbers; within a tolerance not the largest, with which a rewrite may
    overflow where the original does not). Special values are tried without gradients too. Of them the sums in a
    gradient may overflow in one order and not in another: where that makes an infinity or NaN, the same gradient in
    smaller numbers decides (see `with_overflow_forgiven`). Whole numbers are also tried below zero, where the original
    takes them; and where every bit counts, small inputs are drawn some more times, with values powers of two apart.

    Args:
        original: what is right.
        transformed: what is to be as right.
        inputs: a tuple or list of positional arguments, or a dictionary of keyword arguments. Gradients flow to those
            that require grad.
        tolerance: for values of outputs and of what is written. The default wants every bit: 0.0 and -0.0 differ.
        gradients: of `all` inputs and parameters; of `inputs` only, for rewrites that fold parameters; or `none`.
        gradient_tolerance: for gradients; by default what `rounding` says.
        seed: of all draws.
        adversarial: whether to try other values than those given.
        more_inputs: further inputs to try as they are.

    Raises:
        TypeError: inputs are neither positional nor keyword arguments or cannot be copied, a tensor is not dense, or
            an output is of a type that cannot be compared.
        ValueError: both raise on all inputs, so that nothing was compared.
    """
    state = State(original if module_of(original) is not None else transformed)
    other_state = State(transformed if module_of(transformed) is not None else original)
    compared: list[str] = []
    raised: list[str] = []
    largest, reason = 0.0, ""
    rows = list(_rows(inputs, more_inputs, seed, gradients, adversarial=adversarial, exact=tolerance.exact))
    while rows:
        row = rows.pop(0)
        expected = observe(original, state, row)
        if len(expected) < len(row):
            # A call that raises may leave anything behind: those after it begin anew.
            rows.insert(0, row[len(expected) :])
        found = observe(transformed, other_state, row[: len(expected)])
        for case, want, got in zip(row, expected, found, strict=False):
            if want.error and case.optional:
                continue
            compared.append(case.name)
            if want.error and type(want.error) is type(got.error):
                raised.append(case.name)
                reason = f"{type(want.error).__name__}: {want.error}"
                continue
            comparison = Comparison(want, got, case.name, tolerance, gradient_tolerance, gradients)
            differences = tuple(comparison.differences())
            largest = max(largest, comparison.largest)
            if differences:
                return Equivalence(differences, tuple(compared), tuple(raised), largest)
    if len(raised) == len(compared):
        raise ValueError(
            "the original raises on all of these inputs, so there is nothing to compare; give others. The last "
            f"exception: {reason}"
        )
    return Equivalence((), tuple(compared), tuple(raised), largest)


def _rows(
    inputs: ExampleInputs,
    more: Sequence[ExampleInputs],
    seed: int,
    gradients: Gradients,
    *,
    adversarial: bool,
    exact: bool,
) -> Iterator[list[Case]]:
    args, kwargs = split_example_inputs(inputs)
    given = Case("as given", args, kwargs, gradients != "none", seed=seed)
    made = list(cases(args, kwargs, seed, largest=exact)) if adversarial else []
    row = in_a_row(given) if given.gradients else [given, given._replace(name=f"as given, {AGAIN}")]
    # Other values follow in the row: what a call keeps of its inputs shows when the next one has others.
    yield [*row, *(case._replace(gradients=given.gradients) for case in made[:1])]
    if adversarial:
        drawn = [[case] for case in negative_integers(args, kwargs, seed)]
        drawn += [further_draws(args, kwargs, seed)] if exact else []
        yield from ([case._replace(gradients=None if given.gradients else False) for case in row] for row in drawn)
    for number, others in enumerate(more):
        args, kwargs = split_example_inputs(others)
        yield [given._replace(name=f"more inputs {number}", args=args, kwargs=kwargs)]
    for case in made[1:]:
        case = case._replace(gradients=given.gradients)
        yield [case]
        if case.name == SPECIAL and given.gradients:
            # A fused kernel may only be there without gradients, and may have special values of its own.
            yield [case._replace(name=f"{case.name}, without gradients", gradients=False)]


@dataclass
class Comparison:
    """Compares what two calls did.

    Attributes:
        expected: what is right.
        found: what is to be as right.
        case: the inputs.
        tolerance: for values of outputs and of what is written; `None` for what `rounding` says of each dtype.
        gradient_tolerance: for gradients; `None` for what `rounding` says.
        gradients: which ones count.
        values_only: whether strides, and the part in autograd of what is written, do not count, and a gradient of
            zeros is as good as none.
        largest: the largest error seen among the outputs; infinite where no number says it.
    """

    expected: Observation
    found: Observation
    case: str
    tolerance: Tolerance | None = None
    gradient_tolerance: Tolerance | None = None
    gradients: Gradients = "all"
    values_only: bool = False
    largest: float = 0.0

    def differences(self) -> Iterator[Difference]:
        """Each difference; after one in an exception or in the structure nothing else can be compared."""
        expected, found = self.expected, self.found
        if expected.error or found.error:
            yield self._difference("exception", "the call", _raised(found.error), _raised(expected.error))
            return
        for where, structure in expected.structure.items():
            if structure != found.structure[where]:
                yield self._difference("structure", where, found.structure[where], structure)
                return
        for name, value in expected.outputs.items():
            yield from self._value("value", name, found.outputs[name], value, self.tolerance)
        yield from self._aliasing()
        for name, value in expected.inputs.items():
            yield from self._value("mutation", name, found.inputs[name], value, self.tolerance)
        yield from self._written()
        for (what, where), value in expected.process.items():
            other = found.process.get((what, where), value)  # a device may have come into use in between
            if other != value:
                detail = f"{other} instead of {value}" if what == "mode" else "another number of draws"
                yield Difference(what, where, detail, self.case)
        yield from self._gradients()

    def _aliasing(self) -> Iterator[Difference]:
        """Each result and input stands for those of its storage by the first of them that both sides name."""
        expected, found = self.expected.locations, self.found.locations
        shared = [name for name in expected if name in found]
        results = [name for name in shared if name in self.expected.outputs or name in self.expected.inputs]
        for name in results:
            want, got = (_alias(name, shared, locations) for locations in (expected, found))
            if want != got:
                yield self._difference("aliasing", name, got, want)

    def _written(self) -> Iterator[Difference]:
        expected, found = self.expected.written, self.found.written
        for name in expected | found:
            what = "training flag" if name.rpartition(".")[2] == "training" else "mutation"
            if name in expected and name in found:
                yield from self._value(what, name, found[name], expected[name], self.tolerance)
            elif name in expected and (
                name in self.found.state or name in self.expected.registered or not self.expected.first
            ):
                yield Difference(what, name, "left as it was instead of written", self.case)
            elif name in found and (name in self.expected.state or name in self.found.registered):
                yield Difference(what, name, "written instead of left as it was", self.case)

    def _gradients(self) -> Iterator[Difference]:
        expected, found = self.expected, self.found
        if expected.gradient_error or found.gradient_error:
            texts = _raised(found.gradient_error), _raised(expected.gradient_error)
            if type(expected.gradient_error) is not type(found.gradient_error):
                yield self._difference("exception", "the backward pass", *texts)
            return
        known = [gradient for gradient in expected.gradients.values() if gradient is not None]
        largest = max(map(largest_magnitude, known), default=0.0)
        for name in {**expected.gradients, **found.gradients}:
            want, got = expected.gradients.get(name), found.gradients.get(name)
            is_input = name in expected.inputs
            # Parameters may have other names in the one and in the other.
            if want is got or not (is_input or (self.gradients == "all" and name in expected.gradients)):
                continue
            if self.values_only and is_input:
                zeros = torch.zeros_like(next(one for one in (want, got) if one is not None))
                want, got = (zeros if one is None else one for one in (want, got))
            if (want is None or got is None) and self.values_only:
                continue
            if want is None or got is None:
                kinds = ["none" if gradient is None else "a tensor" for gradient in (got, want)]
                yield self._difference("gradient", name, *kinds)
                continue
            tolerance = self.gradient_tolerance or rounding(want.dtype, largest)
            yield from self._value("gradient", name, self._with_overflow_forgiven(name, got, want), want, tolerance)

    def _with_overflow_forgiven(self, name: str, got: torch.Tensor, want: torch.Tensor) -> torch.Tensor:
        traits = (got.shape, got.dtype, got.device) == (want.shape, want.dtype, want.device)
        small = [one.small_gradients.get(name) for one in (self.found, self.expected)]
        if not traits or small[0] is None or small[1] is None or bool((got.isfinite() & want.isfinite()).all()):
            return got
        return with_overflow_forgiven(got, want, (small[0], small[1]), self.expected.scale, self.gradient_tolerance)

    def _difference(self, what: str, where: str, found: Any, expected: Any) -> Difference:
        return Difference(what, where, f"{found} instead of {expected}", self.case)

    def _value(
        self, what: str, where: str, found: Any, expected: Any, tolerance: Tolerance | None
    ) -> Iterator[Difference]:
        if not isinstance(expected, torch.Tensor) or not isinstance(found, torch.Tensor):
            if not same_scalar(found, expected):
                self.largest = math.inf
                yield self._difference(what, where, _text(found), _text(expected))
            return
        for trait, got, want in zip(_TRAITS, _traits(found), _traits(expected), strict=True):
            # How a gradient lies in memory is nobody's promise.
            promised = what == "value" and trait == _TRAITS[4] if self.values_only else what != "gradient"
            if got == want or (trait in _TRAITS[3:] and not promised):
                continue
            if what == "value":
                yield self._difference(trait, where, got, want)
            else:
                yield self._difference(what, where, f"{trait} {got}", want)
            if trait in _TRAITS[:3]:
                self.largest = math.inf
                return
        error, wrong = tensor_error(found, expected, tolerance or rounding(expected.dtype))
        if what == "value":
            self.largest = max(self.largest, error)
        if wrong:
            yield Difference(what, where, wrong, self.case)


_TRAITS = ("dtype", "shape", "device", "stride", "part in autograd")


def _traits(tensor: torch.Tensor) -> tuple[Any, ...]:
    # Strides matter along dimensions with several elements.
    strides = tuple(stride for stride, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1)
    return tensor.dtype, tuple(tensor.shape), tensor.device, strides, tensor.requires_grad


def _alias(name: str, shared: Sequence[str], locations: Mapping[str, MemoryLocation]) -> str:
    """In words, with whom a tensor shares memory."""
    location = locations[name]
    earlier = shared[: shared.index(name)]
    same = [other for other in earlier if locations[other].storage == location.storage]
    if not same:
        # Under a name of its own, such as that of a folded weight.
        hidden = any(own.storage == location.storage for other, own in locations.items() if other not in shared)
        return "part of the module" if hidden else "memory of its own"
    twin = next((other for other in same if locations[other].tensor == location.tensor), None)
    if twin is not None:
        return f"the same object as {twin}"
    return f"shares memory with {same[0]}, {location.first - locations[same[0]].first} bytes behind its start"


def _raised(error: Exception | None) -> str:
    return "no exception" if error is None else f"{type(error).__name__} ({error})"


def _text(value: Any) -> str:
    text = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, torch.Tensor) else repr(value)
    # The state of a generator fills a page.
    return text if len(text) <= MOST_TOLD else f"{text[:MOST_TOLD]}…"
