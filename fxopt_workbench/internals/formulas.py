"""Derivative formulas as they stand in `derivatives.yaml`, evaluated without a compiler.

There a formula is an expression in C++. Most of them (`grad * (1 - result.square())`) read the same in Python, so the
mirror of the build takes the common part of both languages: names, numbers, arithmetic, and calls of a few element-wise
functions. Whatever else stands there is refused, with what C++ would have made of it. Nothing is executed that is not
in the tables below, so that a formula may come from anybody.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

import torch

LONGEST = 1000
"""Characters of a formula."""

DEEPEST = 120
"""Parts within parts of a formula. Python's own limit will not do: Inductor raises it while it compiles."""

METHODS = frozenset(
    """
    abs acos add asin atan clamp clamp_max clamp_min conj cos cosh div eq erf exp exp2 expm1 ge gt le log log1p log2
    logical_and logical_not logical_or lt masked_fill maximum minimum mul ne neg pow reciprocal rsqrt sgn sigmoid sign
    sin sinh sqrt square sub sum sum_to_size t tan tanh
    """.split()
)
"""What may be called as a method of a tensor; all but the last few are element-wise."""

FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    **{name: getattr(torch, name) for name in METHODS if hasattr(torch, name)},
    "where": torch.where,
    "zeros_like": torch.zeros_like,
    "ones_like": torch.ones_like,
    "tanh_backward": torch.ops.aten.tanh_backward.default,
    "sigmoid_backward": torch.ops.aten.sigmoid_backward.default,
}
"""What may be called as a function."""

_ARITHMETIC: Mapping[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


class FormulaError(ValueError):
    """A formula that the mirror cannot read; the message says which part, and what to write instead."""


def evaluate(formula: str, values: Mapping[str, Any]) -> torch.Tensor:
    """The value of a formula.

    Args:
        formula: the expression.
        values: what its names stand for: tensors and numbers.

    Returns:
        A tensor, of whatever shape comes out.

    Raises:
        FormulaError: it is no such expression, names something unknown, or PyTorch refuses to compute it.
    """
    if len(formula) > LONGEST:
        raise FormulaError(f"the formula has {len(formula)} characters; the mirror reads {LONGEST} at most")
    try:
        # Of the namespace of C++ functions nothing is left: all that are known here are in it.
        tree = ast.parse(re.sub(r"\bat::(?=\w)", "", formula).strip(), mode="eval")
        found = _Reader(values).value(tree.body)
    except FormulaError:
        raise
    except SyntaxError as error:
        raise FormulaError(
            f"`{formula.strip()}` is not an expression that C++ and Python share ({error.msg}): "
            "use names, numbers, + - * / and calls such as result.square()"
        ) from error
    except (RecursionError, MemoryError) as error:
        raise FormulaError("the formula is nested too deeply") from error
    except (RuntimeError, TypeError, ValueError, IndexError, OverflowError, ZeroDivisionError) as error:
        raise FormulaError(f"`{formula.strip()}` cannot be computed: {error}") from error
    if not isinstance(found, torch.Tensor):
        raise FormulaError(f"`{formula.strip()}` is no tensor: a gradient has the shape of what it is the gradient of")
    return found


class _Reader:
    """Evaluates a tree, part by part."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values
        self._depth = 0

    def value(self, node: ast.expr) -> Any:
        if self._depth == DEEPEST:
            raise FormulaError(f"the formula is nested too deeply: more than {DEEPEST} parts within parts")
        self._depth += 1
        try:
            return self._value(node)
        finally:
            self._depth -= 1

    def _value(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=bool() | int() | float()):
                return node.value
            case ast.Name():
                return self._named(node.id)
            case ast.UnaryOp(op=ast.USub()):
                return -self.value(node.operand)
            case ast.BinOp(op=ast.Pow()):
                raise FormulaError("C++ has no operator **: write .square() or .pow(3)")
            case ast.BinOp() if type(node.op) in _ARITHMETIC:
                return self._computed(node.op, self.value(node.left), self.value(node.right))
            case ast.Compare(ops=[op], comparators=[other]) if type(op) in _ARITHMETIC:
                return self._computed(op, self.value(node.left), self.value(other))
            case ast.Call(keywords=[]):
                return self._called(node)
            case ast.Call():
                raise FormulaError(f"C++ has no keyword arguments, as in `{ast.unparse(node)}`")
        raise FormulaError(f"the mirror does not know what to make of `{ast.unparse(node)}`")

    def _named(self, name: str) -> Any:
        if name not in self._values:
            raise FormulaError(f"nothing is called {name!r} here; there are {', '.join(sorted(self._values))}")
        return self._values[name]

    def _computed(self, how: ast.AST, left: Any, right: Any) -> Any:
        if isinstance(how, ast.Div) and isinstance(left, int) and isinstance(right, int):
            raise FormulaError(f"{left} / {right} is a division of whole numbers in C++: write {left}.0 / {right}")
        return _ARITHMETIC[type(how)](left, right)

    def _called(self, node: ast.Call) -> Any:
        arguments = [self.value(one) for one in node.args]
        match node.func:
            case ast.Name(id=name) if name in FUNCTIONS:
                return FUNCTIONS[name](*arguments)
            case ast.Attribute(value=inner, attr=name) if name in METHODS:
                on = self.value(inner)
                if isinstance(on, torch.Tensor):
                    return getattr(on, name)(*arguments)
                raise FormulaError(f"`{ast.unparse(inner)}` is a number, which has no method {name}")
        raise FormulaError(
            f"the mirror does not know the function `{ast.unparse(node.func)}`; it knows "
            f"{', '.join(sorted({*METHODS, *FUNCTIONS}))}"
        )
