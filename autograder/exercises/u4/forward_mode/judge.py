"""What forward mode gives in PyTorch, and dual numbers with mistakes that explain what differs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product as product_of
from random import Random
from typing import Any

import torch

from autograder.exchange.evidence import Case, Evidence, agrees
from autograder.exchange.verdict import Agreement, Deviation
from autograder.exercises.explaining import OnDemand
from autograder.exercises.u4.forward_mode.visible import PASSES, Program, function_of, made, program

MISCONCEPTIONS = {
    "no dual number": (
        "An operation on a `Dual` gave something else. Every method returns `Dual(value, tangent)`, both of them "
        "tensors."
    ),
    "wrong value": "The value of a dual number is what the function gives on tensors. Yours is another.",
    "wrong tangent": "The tangent of a dual number is not the derivative in the given direction.",
    "tangent of another shape": (
        "A tangent has another shape than its value. When a constant is broadcast against a dual number, the "
        "tangent grows with it: add zeros of the constant's shape."
    ),
    "tangent of another dtype": (
        "A tangent has another dtype than its value. The zeros that stand for a constant have the *constant's* dtype: "
        "beside a constant of double precision the value becomes one of double precision, and the tangent has to "
        "follow. And a slope has the dtype of the value."
    ),
    "value of another dtype": (
        "The value of a dual number has another dtype than what the function gives on tensors. A Python number changes "
        "no dtype, and a constant tensor may: `torch.result_type(value, constant)` says which one both have together."
    ),
    "product of tangents": (
        "The tangent of a product is not the product of the tangents: it is one tangent times the other value, and the "
        "other way round, added up."
    ),
    "sign of the quotient": "In (x / y)' the second part is subtracted: x' / y - x y' / y².",
    "square forgotten": "In (x / y)' the second part is divided by y squared: x' / y - x y' / y².",
    "sign of the reversed difference": "In `2 - x` the tangent of `x` is turned round.",
    "reversed quotient": "In `4 / x` the dual number stands below: its tangent is -4 x' / x².",
    "order in the matrix product": (
        "In (x @ y)' the order stays: x' @ y + x @ y'. Matrix products cannot be exchanged."
    ),
    "power without its factor": "The derivative of x ** n is n x ** (n - 1).",
    "power of its own": "The exponent drops by one: the derivative of x ** n is n x ** (n - 1).",
    "power of zero by the rule": (
        "`x ** 0` is 1 everywhere, so its derivative is 0, at x = 0 as well. There `0 * x ** -1` is 0 times infinity: "
        "NaN."
    ),
    "inner derivative forgotten": "The chain rule: the derivative of the function, times the tangent that came in.",
    "derivative of the sine": "The derivative of the sine is the cosine.",
    "derivative of tanh": "The derivative of tanh is 1 - tanh².",
    "relu passes everything": "The tangent of `relu` is 0 where the value is not positive.",
    "relu at zero": "At 0 PyTorch takes 0 for the derivative of `relu`, so there the tangent ends as well.",
    "no product": "`jvp_by_two_backward_passes` must return a tensor: the product, without the value.",
    "a vector times the Jacobian": (
        "You went backward once with the tangent: that multiplies it from the other side. The second pass goes "
        "backward through the *first pass*, by the vector that it began with."
    ),
    "wrong product": "Two backward passes give another product than forward mode.",
    "product of another shape": "The product has the shape of the function's result, and its dtype.",
    "an input touched": (
        "The input has a gradient afterwards, or other numbers, or it asks for gradients where it did not, or no "
        "longer where it did; or the tangent does, or a weight in the function has a gradient. Detach the input first, "
        "and use `torch.autograd.grad`, which lets `.grad` be."
    ),
    "touched by an error": (
        "The function raised an error, and afterwards the input is not as it was: what you switched on for the passes "
        "stayed on. Switch nothing on at the input itself: `x.detach()` gives a tensor of your own to ask."
    ),
    "an error hidden": (
        "The function or its derivative raised an error, and yours returned as if nothing had happened. Let the error "
        "through: there is no product."
    ),
}


class Dual:
    """A number and its derivative in one direction. Subclasses make mistakes."""

    def __init__(self, value: torch.Tensor, tangent: torch.Tensor) -> None:
        self.value, self.tangent = value, tangent

    def _new(self, value: torch.Tensor, tangent: torch.Tensor) -> Dual:
        return type(self)(value, tangent)

    @staticmethod
    def _parts(other: Any) -> tuple[Any, Any]:
        if isinstance(other, Dual):
            return other.value, other.tangent
        return other, torch.zeros_like(other) if isinstance(other, torch.Tensor) else 0

    def _lifted(self, other: Any) -> Dual:
        constant = torch.as_tensor(other, dtype=torch.result_type(self.value, other))
        return self._new(constant, torch.zeros_like(constant))

    def _chain(self, value: torch.Tensor, slope: torch.Tensor) -> Dual:
        return self._new(value, slope * self.tangent)

    def __add__(self, other: Any) -> Dual:
        value, tangent = self._parts(other)
        return self._new(self.value + value, self.tangent + tangent)

    def __radd__(self, other: Any) -> Dual:
        return self + other

    def __neg__(self) -> Dual:
        return self._new(-self.value, -self.tangent)

    def __sub__(self, other: Any) -> Dual:
        value, tangent = self._parts(other)
        return self._new(self.value - value, self.tangent - tangent)

    def __rsub__(self, other: Any) -> Dual:
        return -(self - other)

    def __mul__(self, other: Any) -> Dual:
        value, tangent = self._parts(other)
        return self._new(self.value * value, self.tangent * value + self.value * tangent)

    def __rmul__(self, other: Any) -> Dual:
        return self * other

    def __truediv__(self, other: Any) -> Dual:
        value, tangent = self._parts(other)
        return self._new(self.value / value, self.tangent / value - self.value * tangent / value**2)

    def __rtruediv__(self, other: Any) -> Dual:
        return self._chain(other / self.value, -other / self.value**2)

    def __matmul__(self, other: Any) -> Dual:
        value, tangent = self._parts(other)
        return self._new(self.value @ value, self.tangent @ value + self.value @ tangent)

    def __rmatmul__(self, other: Any) -> Dual:
        return self._new(other @ self.value, other @ self.tangent)

    def __pow__(self, exponent: int) -> Dual:
        if not exponent:
            return self._lifted(torch.ones_like(self.value))
        return self._chain(self.value**exponent, exponent * self.value ** (exponent - 1))

    def exp(self) -> Dual:
        """The exponential."""
        return self._chain(self.value.exp(), self.value.exp())

    def sin(self) -> Dual:
        """The sine."""
        return self._chain(self.value.sin(), self.value.cos())

    def tanh(self) -> Dual:
        """The hyperbolic tangent."""
        return self._chain(self.value.tanh(), 1 - self.value.tanh() ** 2)

    def relu(self) -> Dual:
        """The positive part."""
        return self._chain(self.value.relu(), (self.value > 0).to(self.value.dtype))

    def sum(self) -> Dual:
        """The sum of all numbers."""
        return self._new(self.value.sum(), self.tangent.sum())


def _flaw(**methods: Any) -> type[Dual]:
    return type("Flawed", (Dual,), methods)


def _quotient(self: Dual, other: Any, sign: int, power: int) -> Dual:
    value, tangent = self._parts(other)
    return self._new(self.value / value, self.tangent / value + sign * self.value * tangent / value**power)


def _quotients(sign: int, power: int) -> tuple[type[Dual], ...]:
    """With a number above the line, the rule for it may be right, or the same wrong one."""
    return (
        _flaw(__truediv__=lambda self, other: _quotient(self, other, sign, power)),
        _flaw(
            __truediv__=lambda self, other: _quotient(self, other, sign, power),
            __rtruediv__=lambda self, other: self._lifted(other) / self,
        ),
    )


FLAWED: dict[str, tuple[type[Dual], ...]] = {
    "product of tangents": (
        _flaw(__mul__=lambda self, other: self._new(self.value * self._parts(other)[0], self.tangent * _or_one(other))),
        _flaw(
            __mul__=lambda self, other: self._new(
                self.value * self._parts(other)[0], self.tangent * self._parts(other)[1]
            )
        ),
    ),
    "sign of the quotient": _quotients(1, 2),
    "square forgotten": _quotients(-1, 1),
    "sign of the reversed difference": (
        _flaw(__rsub__=lambda self, other: self._new(other - self.value, self.tangent)),
        _flaw(__rsub__=lambda self, other: self._new(other - self.value, self.tangent + 0 * other)),
    ),
    "reversed quotient": (
        _flaw(__rtruediv__=lambda self, other: self._chain(other / self.value, other / self.value**2)),
        _flaw(__rtruediv__=lambda self, other: self._new(other / self.value, other / self.tangent)),
        _flaw(__rtruediv__=lambda self, other: self._chain(other / self.value, 1 / other)),
    ),
    "order in the matrix product": (_flaw(__matmul__=lambda self, other: _exchanged(self, other)),),
    "power without its factor": (
        _flaw(__pow__=lambda self, exponent: self._chain(self.value**exponent, self.value ** (exponent - 1))),
    ),
    "power of its own": (
        _flaw(__pow__=lambda self, exponent: self._chain(self.value**exponent, exponent * self.value**exponent)),
    ),
    "power of zero by the rule": (
        _flaw(
            __pow__=lambda self, exponent: self._chain(self.value**exponent, exponent * self.value ** (exponent - 1))
        ),
    ),
    "inner derivative forgotten": (
        _flaw(_chain=lambda self, value, slope: self._new(value, slope)),
        _flaw(exp=lambda self: self._new(self.value.exp(), self.value.exp())),
        _flaw(sin=lambda self: self._new(self.value.sin(), self.value.cos())),
        _flaw(tanh=lambda self: self._new(self.value.tanh(), 1 - self.value.tanh() ** 2)),
    ),
    "derivative of the sine": (
        _flaw(sin=lambda self: self._chain(self.value.sin(), self.value.sin())),
        _flaw(sin=lambda self: self._chain(self.value.sin(), -self.value.cos())),
    ),
    "derivative of tanh": (
        _flaw(tanh=lambda self: self._chain(self.value.tanh(), 1 - self.value.tanh())),
        _flaw(tanh=lambda self: self._chain(self.value.tanh(), 1 - self.value**2)),
    ),
    "relu passes everything": (_flaw(relu=lambda self: self._new(self.value.relu(), self.tangent)),),
    "relu at zero": (_flaw(relu=lambda self: self._chain(self.value.relu(), (self.value >= 0).to(self.value.dtype))),),
}
"""For each mistake the ways to make it."""


def _or_one(other: Any) -> Any:
    return other.tangent if isinstance(other, Dual) else other


def _exchanged(self: Dual, other: Any) -> Dual:
    value, tangent = self._parts(other)
    return self._new(self.value @ value, value @ self.tangent + self.value @ tangent)


STEADY = 1e-3
"""How far single precision may lead a function that is asked for: 10,000 times as far as the rounding of one step. In
double precision that is a thousandth of what the comparison lets pass."""


def hidden_cases(random: Random) -> list[Case]:
    """Each operation on each side, and random functions."""
    pairs = {
        "numbers before it": program([3], ["2 + x", 0], ["2 - x", 1], ["3 * x", 2], ["4 / x", 3]),
        "numbers after it": program([2, 3], ["x + 2", 0], ["x - 2", 1], ["x * 3", 2], ["x / 4", 3]),
        "to the power of 0 and 1": program([4], ["x ** 1", 0], ["x ** 0", 1], ["x * y", 0, 2], ["x + y", 1, 3]),
        "powers of zero": program(
            [6], ["x ** 1", 0], ["x ** 2", 0], ["x ** 3", 0], ["x + y", 1, 2], ["x + y", 3, 4], zeros=True
        ),
        # What a mask does: the constant has a tangent of 0, and not of 0 times itself.
        "an infinite number": program([3], ["x - inf", 0], ["exp", 1], ["x + y", 0, 2]),
        "flat": program([6], ["x ** 0", 0], zeros=True),
        "powers": program([3], ["sin", 0], ["exp", 1], ["x ** 2", 2], ["x ** 3", 3], ["x ** -1", 4]),
        "further powers": program([3], ["sin", 0], ["exp", 1], ["x ** -2", 2], ["x ** 5", 1], ["x + y", 3, 4]),
        # Whatever is computed of a number, the number stays.
        "read again and again": program(
            [3],
            *(["-x", 0], ["x + 2", 0], ["x * 3", 0], ["x / 4", 0], ["x ** 2", 0], ["relu", 0], ["exp", 0], ["sin", 0]),
            *(["tanh", 0], ["x + y", 0, 1], ["x - y", 0, 2], ["x * y", 0, 3], ["sum", 0], ["x + y", 10, 11]),
            *(["x + y", 12, 14], ["x * y", 15, 0], ["x * y", 1, 4], ["x + y", 16, 17]),
        ),
        "a square": program([4], ["x ** 2", 0]),
        "the inverse": program([4], ["exp", 0], ["x ** -1", 1]),
        "constants before it": program(
            [2, 2], ["x @ y", 1, 0], ["x + y", 1, 2], ["x * y", 1, 3], ["x - y", 1, 4], constants=[[2, 2]]
        ),
        "constants after it": program(
            [2, 2], ["x @ y", 0, 1], ["x - y", 2, 1], ["x / y", 3, 1], ["x + y", 4, 1], constants=[[2, 2]]
        ),
        "a constant divided by it": program([2], ["x / y", 1, 0], constants=[[2]]),
        "a constant that is wider": program([1], ["x + y", 0, 1], constants=[[4]]),
        "less a constant that is wider": program([1], ["x - y", 0, 1], constants=[[4]]),
        "it subtracted from what is wider": program([1], ["x - y", 1, 0], constants=[[2, 3]]),
        "it added to what is wider": program([], ["x + y", 1, 0], constants=[[3]]),
        # Zeros of another dtype than the constant's show where nothing else of the constant's comes in.
        **{
            f"{step} in two precisions, {side}": program(
                [3], [step, *indices], constants=[[3]], dtype="float32", dtypes=["float64"]
            )
            for step in ("x + y", "x - y")
            for side, indices in (("the constant behind", (0, 1)), ("the constant in front", (1, 0)))
        },
        "a product in two precisions": program(
            [], ["x * y", 0, 1], ["x / y", 2, 0], constants=[[4]], dtype="float32", dtypes=["float64"]
        ),
        "a constant of single precision": program(
            [3], ["x + y", 0, 1], ["x - y", 1, 2], ["x * y", 3, 1], constants=[[3]], dtypes=["float32"]
        ),
        "one constant of double precision": program(
            [3], ["x + y", 0, 1], ["x * y", 1, 2], ["x - y", 3, 1], constants=[[]], dtype="float32", dtypes=["float64"]
        ),
        "whole constants": program(
            [2, 3],
            *(["x + y", 0, 1], ["x - y", 1, 2], ["x * y", 3, 1], ["x / y", 4, 1], ["x - y", 5, 1], ["x * y", 1, 6]),
            constants=[[3]],
            dtype="float32",
            dtypes=["int64"],
        ),
        # The negative of a byte is a byte again, and no number below 0.
        "less a byte, and a byte less": program(
            [3], ["x - y", 0, 1], ["x - y", 1, 2], constants=[[3]], dtypes=["uint8"]
        ),
        "divided by a whole number": program([3], ["exp", 0], ["x / y", 1, 2], constants=[[3]], dtypes=["int64"]),
        "x times itself": program([2, 2], ["x * y", 0, 0], ["x @ y", 1, 0], ["x / y", 2, 1], ["-x", 3]),
        "a matrix product of both": program([3, 3], ["sin", 0], ["x @ y", 0, 1], ["sum", 2]),
        "the sine": program([3], ["sin", 0]),
        "the exponential": program([3], ["sin", 0], ["exp", 1]),
        "tanh": program([3], ["3 * x", 0], ["tanh", 1]),
        "relu": program([4, 4], ["relu", 0], ["x * y", 1, 0]),
        # Of each number or its negative relu lets one pass, whichever sign is drawn.
        "relu at zero": program([6], ["relu", 0], ["-x", 0], ["relu", 2], ["x - y", 1, 3], zeros=True),
        "a difference of both": program([3], ["sin", 0], ["x - y", 1, 0], ["x - y", 0, 2]),
        "a sum": program([3, 2], ["x * y", 0, 0], ["sum", 1]),
        "one number": program([], ["exp", 0], ["x * y", 0, 1]),
        "single precision": program(
            [3], ["sin", 0], ["x * y", 1, 2], ["0.7 * x", 3], ["relu", 4], constants=[[3]], dtype="float32"
        ),
        "more comes out": program([2], ["x @ y", 0, 1], ["exp", 2], constants=[[2, 5]]),
        "linear": program([3], ["3 * x", 0], ["sum", 1]),
        "it does not matter": program([3], ["exp", 1], constants=[[2]], dual=False),
        "it does not matter, and the result is infinite": program([3], ["x - inf", 1], constants=[[2]], dual=False),
        "only weights matter": program([3], ["exp", 1], constants=[[2]], dual=False, asking=True),
        "weights": program([3, 4], ["x @ y", 0, 1], ["tanh", 2], constants=[[4, 2]], dual=False, asking=True),
    }
    cases = [Case(name, _steady(random, partial(dict, one))) for name, one in pairs.items()]
    for name, step in (("the function raises", "raise"), ("its derivative raises", "spoil")):
        given = program([3], ["sin", 0], [step, 1], dual=False, raises=True, seed=random.randrange(10**6))
        cases.append(Case(name, given))
    return cases + [Case(f"random {number}", _steady(random, lambda: random_program(random))) for number in range(4)]


def _steady(random: Random, draw: Callable[[], Program]) -> Program:
    """A drawn function with drawn numbers on which rounding shows in no more than a few of the last digits.

    Where it shows, as beside a pole or where large numbers cancel, right answers differ from one another.
    """
    while True:
        given = {**draw(), "seed": random.randrange(10**6)}
        exact, rough = by_pytorch({**given, "dtype": "float64"}), by_pytorch({**given, "dtype": "float32"})
        if all(torch.allclose(r.double(), e, rtol=STEADY, atol=STEADY) for e, r in zip(exact, rough, strict=True)):
            return given


def random_program(random: Random) -> Program:
    """Four to eight steps on square matrices, no number of which grows beyond bounds."""
    steps: list[list[Any]] = []
    names = ["x + y", "x - y", "x * y", "x @ y", "-x", "2 - x", "3 * x", "x / 4", "x ** 2", "relu", "sum"]
    dual = [True, False]
    for _ in range(random.randint(4, 8)):
        name = random.choice([*names, *names, "exp", "x / y"])
        of_x = [number for number, one in enumerate(dual) if one]
        first = random.choice(of_x)
        if name in ("exp", "x / y", "x ** 2", "sum"):
            # What goes in there must be small, or far from zero.
            steps.append([{"x / y": "sin", "sum": "tanh"}.get(name, "sin"), first])
            first = len(dual)
            dual.append(True)
        if name == "x / y":
            steps += [["exp", first]]
            dual.append(True)
            steps.append(["x / y", random.choice(of_x), len(dual) - 1])
        elif name.count("y"):
            pair = [first, random.randrange(len(dual))]
            random.shuffle(pair)
            steps.append([name, *pair])
        else:
            steps.append(["tanh" if name == "sum" else name, first])
        dual.append(True)
    return program([2, 2], *steps, constants=[[2, 2]])


def by_pytorch(given: Program) -> tuple[torch.Tensor, torch.Tensor]:
    """Value and product, in forward mode."""
    x, tangent, constants = made(given)
    value, product = torch.func.jvp(function_of(given, constants), (x,), (tangent,))[:2]
    return value, product


def _alike(given: Program, found: Any, wanted: torch.Tensor) -> bool:
    """As close as the narrowest of the dtypes that meet in a function allows, whichever its result has."""
    relative = 1e-4 if "float32" in (given["dtype"], *(given["dtypes"] or ())) else 1e-9
    return agrees(found, wanted, relative=relative, absolute=relative)


def _numbers(tangent: torch.Tensor) -> torch.Tensor:
    """A tangent in which NaN is like NaN: no right one has any, but that of a mistake may."""
    return tangent.nan_to_num(nan=-12345.0)


def _like(found: torch.Tensor, wanted: torch.Tensor) -> bool:
    return (found.shape, found.dtype) == (wanted.shape, wanted.dtype)


def _beside(given: Program, found: torch.Tensor, wanted: torch.Tensor) -> str:
    """What was expected and what came: size and dtype where they differ, else the first number that is not right."""
    if not _like(found, wanted):
        kinds = (f"{list(one.shape)} of {str(one.dtype).removeprefix('torch.')}" for one in (wanted, found))
        return "expected {}, got {}".format(*kinds)
    place = next(at for at in product_of(*map(range, wanted.shape)) if not _alike(given, found[at], wanted[at]))
    return f"at {list(place)} expected {wanted[place].item():.10g}, got {found[place].item():.10g}"


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str] | Deviation | Agreement]:
    """What differs from forward mode in PyTorch."""
    given = case.parameters
    if given["raises"]:
        if evidence.values["raised"] != [*PASSES]:
            yield "an error hidden", ""
        if evidence.values["untouched"] is not True:
            yield "touched by an error", ""
        return
    value, product = by_pytorch(given)
    if given["dual"]:
        yield from _judge_dual(given, evidence, value, product)
    for name in PASSES:
        found = evidence.tensors.get(name)
        if found is None:
            yield "no product", ""
            return
        if not _alike(given, found, product):
            yield _why_product(given, found, product), f"({name}: {_beside(given, found, product)})"
            return
    if evidence.values["untouched"] is not True:
        yield "an input touched", ""


def _judge_dual(
    given: Program, evidence: Evidence, value: torch.Tensor, product: torch.Tensor
) -> Iterator[tuple[str, str] | Deviation | Agreement]:
    found = [evidence.tensors.get(name) for name in ("dual value", "dual tangent")]
    if found[0] is None or found[1] is None:
        yield "no dual number", f"(but {evidence.values['dual is']})"
        return
    if found[0].dtype != value.dtype:
        yield "value of another dtype", f"({_beside(given, found[0], value)})"
        return
    if not _alike(given, found[0], value):
        yield "wrong value", _beside(given, found[0], value)
        return
    if found[1].dtype != value.dtype:
        yield "tangent of another dtype", f"({_beside(given, found[1], value)})"
        return
    if not _like(found[1], value):
        yield "tangent of another shape", f"({_beside(given, found[1], value)})"
        return
    tangents = OnDemand(FLAWED, lambda name: [_by_dual(given, one) for one in FLAWED[name]])
    if _alike(given, found[1], product):
        yield Agreement(
            "wrong tangent",
            lambda names: [name for name in names if not any(_alike(given, one, product) for one in tangents[name])],
        )
        return
    tangent = _numbers(found[1])
    fits = tuple(
        name
        for name, ones in tangents.items()
        if any(one is not None and _alike(given, tangent, _numbers(one)) for one in ones)
    )
    yield Deviation("wrong tangent", fits, _beside(given, found[1], product), len(given["steps"]))


def _by_dual(given: Program, dual: type[Dual]) -> torch.Tensor | None:
    """The tangent; `None` where the mistake makes an operator raise."""
    x, tangent, constants = made(given)
    try:
        found: torch.Tensor = function_of(given, constants)(dual(x, tangent)).tangent
    except RuntimeError:
        return None
    return found


def _why_product(given: Program, found: torch.Tensor, product: torch.Tensor) -> str:
    x, tangent, constants = made(given)
    leaf = x.requires_grad_()
    result = function_of(given, constants)(leaf)
    if result.requires_grad and result.shape == tangent.shape:
        (backward,) = torch.autograd.grad(result, leaf, tangent)
        if _alike(given, found, backward):
            return "a vector times the Jacobian"
    return "wrong product" if _like(found, product) else "product of another shape"
