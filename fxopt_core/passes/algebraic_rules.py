"""The table of algebraic rules, and the language in which they are written."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch

from fxopt_core.graphs.operations import COMMUTATIVE

Number = int | float

BOOLEAN = frozenset({torch.bool})
SIGNED = frozenset({torch.int8, torch.int16, torch.int32, torch.int64})
INTEGER = SIGNED | {torch.uint8}
DISCRETE = INTEGER | BOOLEAN
FLOAT = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})
REAL = FLOAT | DISCRETE
ANY = REAL | {torch.complex64, torch.complex128}


@dataclass(frozen=True)
class Variable:
    """Matches one value: `c` and `d` a number, `other` a tensor or number, `rest` all further arguments, any other
    name a tensor."""

    name: str

    @property
    def numeric(self) -> bool:
        """Whether it stands for a number."""
        return self.name in ("c", "d")


@dataclass(frozen=True)
class Call:
    """Matches a call of an operation. `name`, if it has one, stands for the value of the call.

    Attributes:
        operation: in the words of ATen.
        operands: what its arguments match.
        name: of a variable for its value.
    """

    operation: str
    operands: tuple[Pattern, ...]
    name: str | None = None


Pattern = Variable | Call | int | float
"""A number matches itself, whatever its type: that the dtype stays is a condition of its own. -0.0 is not 0.0."""

Condition = Callable[[Mapping[str, Any], torch.dtype], str | None]
"""Of the numbers in a match and the dtype of the tensors: why the rule does not hold, or `None`."""


def finite_inverse(values: Mapping[str, Any], dtype: torch.dtype) -> str | None:
    """`1 / c` is a normal number of the dtype, and so is `c`."""
    limits = torch.finfo(dtype)
    normal = all(limits.tiny <= abs(number) <= limits.max for number in (values["c"], 1 / (values["c"] or math.inf)))
    return None if normal else f"1 / {values['c']} is no normal number of {dtype}"


def power_of_two(values: Mapping[str, Any], dtype: torch.dtype) -> str | None:
    """Only then is `1 / c` exact, and are quotient and product one rounding of the same real number."""
    if abs(math.frexp(values["c"])[0]) != 0.5:
        return f"1 / {values['c']} is not exact, for {values['c']} is no power of two"
    return finite_inverse(values, dtype)


def small_integers(values: Mapping[str, Any], dtype: torch.dtype) -> str | None:
    """Both numbers, their sum and product are integers of the dtype; sums and products of tensors wrap around."""
    c, d, limits = values["c"], values["d"], torch.iinfo(dtype)
    if all(type(n) is int and limits.min <= n <= limits.max for n in (c, d, c + d, c * d)):
        return None
    return f"{c} and {d}, their sum and product are not all integers of {dtype}"


def never_nan(values: Mapping[str, Any], dtype: torch.dtype) -> str | None:
    """The number is no NaN: even an integer is neither less than NaN nor greater or equal."""
    return "nothing is less than NaN, nor greater or equal" if values["other"] != values["other"] else None


@dataclass(frozen=True)
class Rule:
    """One equation, read from left to right.

    Attributes:
        name: `before -> after`, and `(fast_math)` where it is not exact.
        dtypes: of the tensors for which it holds. All have the same one, except the tensor called `mask`.
        reason: why it does not hold for other dtypes; for rules that are not exact, why.
        exact: whether every bit stays, except sign and payload of a NaN.
        condition: on its numbers.
        before: the left side.
        after: the right side.
    """

    name: str
    dtypes: frozenset[torch.dtype]
    reason: str
    exact: bool
    condition: Condition | None
    before: Call
    after: Pattern

    @property
    def carries_gradients(self) -> bool:
        """Whether a gradient of the right side reaches every tensor of the left side."""
        return not (isinstance(self.after, Call) and self.after.operation == "zeros_like")


def _rule(
    before: str, after: str, dtypes: frozenset[torch.dtype], reason: str, condition: Condition | None, *, exact: bool
) -> Rule:
    left = _parse(ast.parse(before, mode="eval").body)
    right = _parse(ast.parse(after, mode="eval").body)
    assert isinstance(left, Call)
    name = f"{before} -> {after}" if exact else f"{before} -> {after} (fast_math)"
    return Rule(name, dtypes, reason, exact, condition, left, right)


def exact(
    before: str, after: str, dtypes: frozenset[torch.dtype], reason: str, condition: Condition | None = None
) -> Rule:
    """A rule that changes no bit."""
    return _rule(before, after, dtypes, reason, condition, exact=True)


def fast(
    before: str, after: str, dtypes: frozenset[torch.dtype], reason: str, condition: Condition | None = None
) -> Rule:
    """A rule of real numbers, which rounding, signed zeros, infinities and NaN may tell from the original."""
    return _rule(before, after, dtypes, reason, condition, exact=False)


_SYNTAX: dict[type[ast.AST], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
    ast.FloorDiv: "floor_divide",
    ast.Pow: "pow",
    ast.BitAnd: "bitwise_and",
    ast.BitOr: "bitwise_or",
    ast.BitXor: "bitwise_xor",
    ast.LShift: "bitwise_left_shift",
    ast.RShift: "bitwise_right_shift",
    ast.USub: "neg",
    ast.Invert: "bitwise_not",
    ast.Not: "logical_not",
    ast.Eq: "eq",
    ast.NotEq: "ne",
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Gt: "gt",
    ast.GtE: "ge",
}


def _parse(tree: ast.expr) -> Pattern:
    match tree:
        case ast.Constant(value=number):
            assert isinstance(number, (int, float))
            return number
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=number)):
            assert isinstance(number, (int, float))
            return -number
        case ast.Name(id=name) | ast.Starred(value=ast.Name(id=name)):
            return Variable(name)
        case ast.UnaryOp(op=kind, operand=operand):
            return Call(_SYNTAX[type(kind)], (_parse(operand),))
        case ast.BinOp(op=kind, left=left, right=right) | ast.Compare(left=left, ops=[kind], comparators=[right]):
            return Call(_SYNTAX[type(kind)], (_parse(left), _parse(right)))
        case ast.Call(func=ast.Name(id=name), args=operands):
            return Call(name, tuple(map(_parse, operands)))
        case ast.NamedExpr(target=ast.Name(id=name), value=value):
            call = _parse(value)
            assert isinstance(call, Call)
            return Call(call.operation, call.operands, name)
    raise ValueError(f"{ast.unparse(tree)} is no expression of a rule.")


def spellings(pattern: Pattern) -> Iterator[Pattern]:
    """The pattern, and all others that come of it by exchanging operands of commutative operations."""
    if not isinstance(pattern, Call):
        yield pattern
        return
    found: dict[Pattern, None] = {}
    for operands in product(*map(spellings, pattern.operands)):
        found[Call(pattern.operation, operands, pattern.name)] = None
        if pattern.operation in COMMUTATIVE:
            found[Call(pattern.operation, operands[::-1], pattern.name)] = None
    yield from found


EXACT_RULES = (
    exact("x * 1", "x", REAL, "with complex numbers, infinity times 1 + 0j has a NaN in it"),
    exact("x / 1", "x", REAL, "complex division scales its operands"),
    exact("x // 1", "x", INTEGER, "floor division rounds"),
    exact("x ** 1", "x", REAL, "the complex power is computed through logarithms"),
    exact("x - 0", "x", REAL, "the sign of imaginary zeros is lost"),  # -0.0 - 0.0 is -0.0
    exact("x + -0.0", "x", FLOAT, "it changes the sign of an imaginary zero"),
    exact("x + 0", "x", INTEGER, "-0.0 + 0.0 is 0.0"),
    exact("x | 0", "x", DISCRETE, "only integers have bits"),
    exact("x ^ 0", "x", DISCRETE, "only integers have bits"),
    exact("x << 0", "x", INTEGER, "only integers have bits"),
    exact("x >> 0", "x", INTEGER, "only integers have bits"),
    exact("x & True", "x", BOOLEAN, "of an integer it leaves one bit"),
    exact("x & -1", "x", SIGNED, "-1 has to have all bits set"),
    exact("x & x", "x", DISCRETE, "only integers have bits"),
    exact("x | x", "x", DISCRETE, "only integers have bits"),
    exact("logical_and(x, x)", "x", BOOLEAN, "its result is boolean"),
    exact("logical_or(x, x)", "x", BOOLEAN, "its result is boolean"),
    exact("maximum(x, x)", "x", DISCRETE, "the gradient of a NaN would be halved"),
    exact("minimum(x, x)", "x", DISCRETE, "the gradient of a NaN would be halved"),
    exact("fmax(x, x)", "x", REAL, "complex numbers have no order"),
    exact("fmin(x, x)", "x", REAL, "complex numbers have no order"),
    exact("where(mask, x, x)", "x", ANY, ""),
    exact("-(-x)", "x", REAL, "the sign of zeros is lost"),  # the smallest integer is its own negative
    exact("~(~x)", "x", DISCRETE, "only integers have bits"),
    exact("not (not x)", "x", BOOLEAN, "its result is boolean"),
    exact("abs(y := abs(x))", "y", REAL, "the absolute value of a complex number is real"),
    exact("relu(y := relu(x))", "y", REAL, "complex numbers have no order"),
    exact("floor(y := floor(x))", "y", REAL, "complex numbers have no order"),
    exact("ceil(y := ceil(x))", "y", REAL, "complex numbers have no order"),
    exact("trunc(y := trunc(x))", "y", REAL, "complex numbers have no order"),
    exact("round(y := round(x))", "y", REAL, "complex numbers have no order"),
    exact("sign(y := sign(x))", "y", REAL, "complex numbers have no order"),
    exact("clamp(y := clamp(x, c, d), c, d)", "y", REAL, "complex numbers have no order"),
    exact("clamp_min(y := clamp_min(x, c), c)", "y", REAL, "complex numbers have no order"),
    exact("clamp_max(y := clamp_max(x, c), c)", "y", REAL, "complex numbers have no order"),
    exact("abs(-x)", "abs(x)", FLOAT | SIGNED, "the negative of an unsigned integer wraps around"),
    exact("x + -y", "x - y", INTEGER, "a NaN would have another sign"),
    exact("x - -y", "x + y", INTEGER, "a NaN would have another sign"),
    exact("-x * -y", "x * y", INTEGER, "a NaN would have another sign"),
    exact("x * -1", "-x", SIGNED, "a NaN would have another sign"),
    exact("x * 0", "zeros_like(x)", INTEGER, "infinity and NaN times 0 are NaN, and -1.0 * 0.0 is -0.0"),
    exact("x - x", "zeros_like(x)", INTEGER, "infinity and NaN minus themselves are NaN"),
    exact("x ^ x", "zeros_like(x)", DISCRETE, "only integers have bits"),
    exact("x & 0", "zeros_like(x)", DISCRETE, "only integers have bits"),
    exact(
        "x ** 2", "x * x", INTEGER, "the gradient, computed as g * (2 * x), may overflow where g * x + g * x does not"
    ),
    exact("x / c", "x * (1 / c)", FLOAT, "quotients of integers are rounded to a floating dtype", power_of_two),
    exact("(x + c) + d", "x + (c + d)", INTEGER, "sums are rounded twice", small_integers),
    exact("(x * c) * d", "x * (c * d)", INTEGER, "products are rounded twice", small_integers),
    exact("~(x == other)", "x != other", ANY, ""),  # NaN is not equal to NaN, and unequal to it
    exact("~(x != other)", "x == other", ANY, ""),
    exact("not (x == other)", "x != other", ANY, ""),
    exact("not (x != other)", "x == other", ANY, ""),
    exact("~(x < other)", "x >= other", DISCRETE, "NaN is neither less nor greater", never_nan),
    exact("~(x <= other)", "x > other", DISCRETE, "NaN is neither less nor greater", never_nan),
    exact("~(x > other)", "x <= other", DISCRETE, "NaN is neither less nor greater", never_nan),
    exact("~(x >= other)", "x < other", DISCRETE, "NaN is neither less nor greater", never_nan),
)
"""Rules that change no bit of a result, except sign and payload of a NaN."""

FAST_RULES = (
    fast("x ** 2", "x * x", FLOAT, "gradients that overflow; the values are the same"),
    fast("maximum(x, x)", "x", FLOAT, "gradients of NaN; the values are the same"),
    fast("minimum(x, x)", "x", FLOAT, "gradients of NaN; the values are the same"),
    fast("x + 0", "x", FLOAT, "-0.0 becomes 0.0"),
    fast("x * 0", "zeros_like(x)", FLOAT, "not for infinity and NaN"),
    fast("x - x", "zeros_like(x)", FLOAT, "not for infinity and NaN"),
    fast("x + -y", "x - y", FLOAT, "the sign of a NaN"),
    fast("x - -y", "x + y", FLOAT, "the sign of a NaN"),
    fast("-x * -y", "x * y", FLOAT, "the sign of a NaN"),
    fast("x * -1", "-x", FLOAT, "the sign of a NaN"),
    fast("x / c", "x * (1 / c)", FLOAT, "1 / c is rounded", finite_inverse),
    fast("(x + c) + d", "x + (c + d)", FLOAT, "one rounding less; inner overflow"),
    fast("(x * c) * d", "x * (c * d)", FLOAT, "one rounding less; inner overflow"),
    fast("x * y + x * z", "x * (y + z)", FLOAT, "one rounding less; inner overflow"),
    fast("sum(x * c, *rest)", "sum(x, *rest) * c", FLOAT, "the order of roundings; inner overflow"),
    fast("mean(x * c, *rest)", "mean(x, *rest) * c", FLOAT, "the order of roundings; inner overflow"),
    fast("exp(log(x))", "x", FLOAT, "for x > 0; rounding"),
    fast("log(exp(x))", "x", FLOAT, "rounding; overflow of exp"),
    fast("sqrt(x) * sqrt(x)", "x", FLOAT, "for x >= 0; rounding"),
    fast("sqrt(x * x)", "abs(x)", FLOAT, "rounding; overflow of the square"),
    fast("1 / (1 / x)", "x", FLOAT, "rounding; 0 and infinity"),
    fast("reciprocal(reciprocal(x))", "x", FLOAT, "rounding; subnormal numbers"),
    fast("1 / sqrt(x)", "rsqrt(x)", FLOAT, "one rounding less"),
    fast("reciprocal(sqrt(x))", "rsqrt(x)", FLOAT, "one rounding less"),
    fast("x / sqrt(y)", "x * rsqrt(y)", FLOAT, "rounding"),
    fast("log(x + 1)", "log1p(x)", FLOAT, "more accurate near 0"),
    fast("exp(x) - 1", "expm1(x)", FLOAT, "more accurate near 0"),
    fast("1 / (exp(-x) + 1)", "sigmoid(x)", FLOAT, "rounding"),
    fast("reciprocal(exp(-x) + 1)", "sigmoid(x)", FLOAT, "rounding"),
    fast("x * sigmoid(x)", "silu(x)", FLOAT, "one rounding less"),
)
"""Rules of real numbers. The last column says what is not as it was."""
