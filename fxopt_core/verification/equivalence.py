"""Whether two functions do the same in everything that can be observed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from fxopt_core.capture.isolation import ExampleInputs, split_example_inputs
from fxopt_core.verification.cases import Case, cases
from fxopt_core.verification.observation import Function, Observation, observe
from fxopt_core.verification.tolerance import EXACT, ROUNDING, Tolerance, same_scalar, tensor_error

Gradients = Literal["all", "inputs", "none"]


@dataclass(frozen=True)
class Difference:
    """One thing that the two functions do differently.

    Attributes:
        what: the kind: `value`, `structure`, `dtype`, `shape`, `stride`, `gradient`, `aliasing`, ...
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
class Equivalence:
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
        if self.equal:
            return f"the same on {len(self.cases)} sets of inputs; largest error {self.largest_error:g}"
        return "\n".join(map(str, self.differences))


def check_equivalence(
    original: Function,
    transformed: Function,
    inputs: ExampleInputs,
    *,
    tolerance: Tolerance = EXACT,
    gradients: Gradients = "all",
    gradient_tolerance: Tolerance = ROUNDING,
    seed: int = 0,
    adversarial: bool = True,
    more_inputs: Sequence[ExampleInputs] = (),
) -> Equivalence:
    """Call both on copies of the same inputs, from the same state and seed, and compare everything observable.

    That is: structure and types of the result; dtype, shape, stride, device and values of its tensors; which results
    share storage with what; writes to inputs, parameters and buffers; training flags; the state of the random
    generators; gradients; exceptions. Nothing of the caller's is changed: inputs are copied, and the values of
    parameters and buffers are put back. State is compared where both sides have the name.

    Hostile values (negative zeros, infinities, NaN, subnormal and largest numbers) are tried when every bit counts:
    a rewrite within a tolerance may overflow where the original does not.

    Args:
        original: what is right.
        transformed: what is to be as right.
        inputs: a tuple or list of positional arguments, or a dictionary of keyword arguments.
        tolerance: for values of outputs and for writes.
        gradients: of `all` inputs and parameters; of `inputs` only, for rewrites that fold parameters; or `none`.
        gradient_tolerance: for gradients.
        seed: of all draws.
        adversarial: whether to try other values than those given.
        more_inputs: further inputs to try as they are.

    Raises:
        TypeError: inputs are neither positional nor keyword arguments.
        ValueError: the original raises on all inputs, so that nothing was compared.
    """
    compared: list[str] = []
    raised: list[str] = []
    largest = 0.0
    for case in _all_cases(inputs, more_inputs, seed, adversarial=adversarial, special=tolerance.exact):
        flow = gradients != "none"
        expected = observe(original, case, seed, gradients=flow)
        found = observe(transformed, case, seed, gradients=flow)
        compared.append(case.name)
        if expected.error is not None and expected.error is found.error:
            raised.append(case.name)
            continue
        comparison = _Comparison(expected, found, case.name, tolerance, gradient_tolerance, gradients)
        differences = tuple(comparison.differences())
        largest = max(largest, comparison.largest)
        if differences:
            return Equivalence(differences, tuple(compared), tuple(raised), largest)
    if len(raised) == len(compared):
        raise ValueError("the original raises on all of these inputs, so there is nothing to compare; give others.")
    return Equivalence((), tuple(compared), tuple(raised), largest)


def _all_cases(
    inputs: ExampleInputs, more: Sequence[ExampleInputs], seed: int, *, adversarial: bool, special: bool
) -> Iterator[Case]:
    given = split_example_inputs(inputs)
    yield Case("as given", *given)
    for number, others in enumerate(more):
        yield Case(f"more inputs {number}", *split_example_inputs(others))
    if adversarial:
        yield from cases(*given, seed, special=special)


class _Comparison:
    """Compares two observations; `largest` is the largest error seen among the outputs."""

    def __init__(
        self,
        expected: Observation,
        found: Observation,
        case: str,
        tolerance: Tolerance,
        gradient_tolerance: Tolerance,
        gradients: Gradients,
    ) -> None:
        self.expected = expected
        self.found = found
        self.case = case
        self.tolerance = tolerance
        self.gradient_tolerance = gradient_tolerance
        self.gradients = gradients
        self.largest = 0.0

    def differences(self) -> Iterator[Difference]:
        expected, found = self.expected, self.found
        if expected.error is not found.error:
            yield self._difference("exception", "the call", found.error or "no exception", expected.error or "none")
            return
        if expected.structure != found.structure:
            yield self._difference("structure", "the output", found.structure, expected.structure)
            return
        for name, value in expected.outputs.items():
            yield from self._value(name, found.outputs[name], value, self.tolerance)
        yield from self._table("aliasing", expected.aliases, found.aliases)
        for name, value in expected.inputs.items():
            yield from self._value(name, found.inputs[name], value, self.tolerance, "write to")
        for name in expected.state.keys() & found.state.keys():
            yield from self._value(name, found.state[name], expected.state[name], self.tolerance, "write to")
        yield from self._table("training flag", expected.training, found.training)
        for name, state in expected.random.items():
            same = (
                torch.equal(state, found.random[name])
                if isinstance(state, torch.Tensor)
                else state == found.random[name]
            )
            if not same:
                yield Difference("random state", f"the {name} generator", "another number of draws", self.case)
        yield from self._gradient_differences()

    def _gradient_differences(self) -> Iterator[Difference]:
        names = [name for name in self.expected.gradients if self.gradients == "all" or name.startswith("input")]
        for name in names:
            want, got = self.expected.gradients[name], self.found.gradients.get(name)
            if want is None or got is None:
                if want is not got and any(gradient is not None and gradient.any() for gradient in (want, got)):
                    yield self._difference("gradient", name, "none" if got is None else "one", "the contrary")
            else:
                yield from self._value(name, got, want, self.gradient_tolerance, "gradient")

    def _difference(self, what: str, where: str, found: Any, expected: Any) -> Difference:
        return Difference(what, where, f"{found} instead of {expected}", self.case)

    def _table(self, what: str, expected: dict[str, Any], found: dict[str, Any]) -> Iterator[Difference]:
        for name in expected.keys() & found.keys():
            if expected[name] != found[name]:
                yield self._difference(what, name, found[name], expected[name])

    def _value(
        self, where: str, found: Any, expected: Any, tolerance: Tolerance, what: str = "value"
    ) -> Iterator[Difference]:
        if not isinstance(expected, torch.Tensor) or not isinstance(found, torch.Tensor):
            if not same_scalar(found, expected):
                yield self._difference(what, where, repr(found), repr(expected))
            return
        traits: dict[str, Callable[[torch.Tensor], Any]] = {
            "dtype": lambda tensor: tensor.dtype,
            "shape": lambda tensor: tuple(tensor.shape),
            "device": lambda tensor: tensor.device,
            "stride": _strides,
            "part in autograd": lambda tensor: tensor.requires_grad,
        }
        for trait, read in traits.items():
            # How a gradient lies in memory is nobody's promise.
            if read(found) != read(expected) and not (what == "gradient" and trait in ("stride", "part in autograd")):
                yield self._difference(trait, where, read(found), read(expected))
                if trait in ("dtype", "shape"):
                    return
        error, wrong = tensor_error(found, expected, tolerance)
        if what == "value":
            self.largest = max(self.largest, 0.0 if math.isnan(error) else error)
        if wrong:
            yield Difference(what, where, wrong, self.case)


def _strides(tensor: torch.Tensor) -> tuple[int, ...]:
    """Strides of the dimensions along which they matter."""
    return tuple(stride for stride, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1)
