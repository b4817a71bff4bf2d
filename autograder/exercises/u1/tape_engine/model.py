"""A small tape that can make each of the mistakes that learners make, to tell which one it was.

It decides nothing: what is right is asked of PyTorch. Without a flaw it must do as PyTorch does (a test compares them).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy
from numpy.typing import NDArray

from autograder.exercises.u1.arrays import as_array
from autograder.exercises.u1.tape_engine.visible import run

Array = NDArray[numpy.float64]
Rule = Callable[[Array], tuple[Array, ...]]

FLAWS = (
    "starts anew",
    "stale inside",
    "goes on too early",
    "last path only",
    "arrays shared",
    "not summed",
    "factors mixed up",
    "relu passes all",
    "relu at zero",
    "tanh of the input",
    "sign lost",
    "sum not spread",
)


def summed(gradient: Array, shape: tuple[int, ...]) -> Array:
    """A gradient summed over what was stretched, so that it has a shape."""
    gradient = gradient.sum(axis=tuple(range(gradient.ndim - len(shape))))
    stretched = tuple(dim for dim, size in enumerate(shape) if size == 1 and gradient.shape[dim] != 1)
    return gradient.sum(axis=stretched, keepdims=True)


class Model:
    """A value with one flaw, or none."""

    def __init__(
        self, data: Any, needs: bool, flaw: str = "", inputs: tuple[Model, ...] = (), rule: Any = None
    ) -> None:
        self.data: Array = numpy.asarray(data, dtype=float)
        self.needs, self.flaw, self.inputs = needs, flaw, inputs if needs else ()
        self.rule: Rule | None = rule if needs else None
        self.gradient: Array | None = None
        self.inside: Array | None = None

    def _result(self, data: Any, rule: Rule, *others: Model) -> Model:
        inputs = (self, *others)
        return Model(data, any(one.needs for one in inputs), self.flaw, inputs, rule)

    def __add__(self, other: Model) -> Model:
        return self._result(self.data + other.data, lambda g: (g, g), other)

    def __mul__(self, other: Model) -> Model:
        def rule(g: Array) -> tuple[Array, ...]:
            right = (g * other.data, g * self.data)
            return right[::-1] if self.flaw == "factors mixed up" else right

        return self._result(self.data * other.data, rule, other)

    def __matmul__(self, other: Model) -> Model:
        return self._result(self.data @ other.data, lambda g: (g @ other.data.T, self.data.T @ g), other)

    def __neg__(self) -> Model:
        return self._result(-self.data, lambda g: (g if self.flaw == "sign lost" else -g,))

    def relu(self) -> Model:
        """The larger of a number and 0."""

        def rule(g: Array) -> tuple[Array, ...]:
            if self.flaw == "relu passes all":
                return (g,)
            return (g * (self.data >= 0 if self.flaw == "relu at zero" else self.data > 0),)

        return self._result(numpy.maximum(self.data, 0), rule)

    def tanh(self) -> Model:
        """The hyperbolic tangent."""
        result = numpy.tanh(self.data)
        told = self.data if self.flaw == "tanh of the input" else result
        return self._result(result, lambda g: (g * (1 - told * told),))

    def sum(self) -> Model:
        """The sum of all numbers."""
        spread = self.flaw != "sum not spread"
        return self._result(
            self.data.sum(), lambda g: (numpy.broadcast_to(g, self.data.shape).copy() if spread else g,)
        )

    def backward(self) -> None:
        """Gradients of everything that this value was made of.

        Raises:
            ValueError: it has more than one number, or needs no gradient.
        """
        if self.data.size != 1 or not self.needs:
            raise ValueError
        order = self._order()
        if self.flaw == "stale inside":
            self.inside = numpy.ones_like(self.data) + (0 if self.inside is None else self.inside)
            found: dict[int, Array] = {}
        else:
            found = {id(self): numpy.ones_like(self.data)}
        for one in order:
            gradient = one.inside if self.flaw == "stale inside" else found.get(id(one))
            if gradient is None:
                continue
            if one.rule is None:
                one._keep(gradient)
                continue
            for other, part in zip(one.inputs, one.rule(gradient), strict=True):
                other._receive(found, part)
        for one in order:
            if one.rule is None:
                one.inside = None

    def _receive(self, found: dict[int, Array], part: Array) -> None:
        if not self.needs:
            return
        shared = self.flaw == "arrays shared" and part.shape == self.data.shape
        if self.flaw not in ("not summed", "sum not spread") and not shared:
            part = summed(part, self.data.shape)
        before = self.inside if self.flaw == "stale inside" else found.get(id(self))
        if before is None or self.flaw == "last path only":
            after = part
        elif self.flaw == "arrays shared" and before.shape == part.shape:
            before += part
            after = before
        else:
            after = before + part
        if self.flaw == "stale inside":
            self.inside = after
        else:
            found[id(self)] = after

    def _keep(self, gradient: Array) -> None:
        if self.flaw == "arrays shared" and self.gradient is not None:
            # An earlier call of `backward` may have given the same array to another value.
            self.gradient += gradient
            return
        self.gradient = gradient if self.gradient is None or self.flaw == "starts anew" else self.gradient + gradient

    def _order(self) -> list[Model]:
        """Each value after all that were made of it; with a flaw, as they are met on the way from the end."""
        order: list[Model] = []
        met: set[int] = set()
        if self.flaw == "goes on too early":
            queue = [self]
            while queue:
                one = queue.pop(0)
                if id(one) not in met:
                    met.add(id(one))
                    order.append(one)
                    queue += one.inputs
            return order
        stack: list[tuple[Model, bool]] = [(self, False)]
        while stack:
            one, done = stack.pop()
            if done:
                order.append(one)
            elif id(one) not in met:
                met.add(id(one))
                stack.append((one, True))
                stack += [(other, False) for other in one.inputs]
        return order[::-1]


def by_model(given: dict[str, Any], flaw: str = "") -> list[dict[str, Any] | None] | None:
    """Gradients of all values after a program; `None` where the flaw makes it fail."""
    found: list[dict[str, Any] | None] | None = json.loads(_by_model(json.dumps(given), flaw))
    return found


@lru_cache(maxsize=4096)
def _by_model(program: str, flaw: str) -> str:
    given = json.loads(program)
    values: list[Model] = []
    try:
        for one in run(given, lambda data, needs: Model(data, needs, flaw), lambda value: float(value.data.sum())):
            if not isinstance(one, int):
                values.append(one)
            elif values[one].needs and values[one].data.size == 1:
                values[one].backward()
    except ValueError:
        return "null"
    return json.dumps([as_array(value.gradient) for value in values])
