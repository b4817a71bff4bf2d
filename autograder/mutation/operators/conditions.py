"""Conditions: boundaries, identity, operands of `and` and `or`, conditions that always or never hold.

Imports no torch.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
from libcst import matchers

from autograder.mutation.operators.base import NEGATIONS, Change, Place, held, negated, operator, with_comparison

BOUNDARIES: dict[type[cst.BaseCompOp], type[cst.BaseCompOp]] = {
    cst.LessThan: cst.LessThanEqual,
    cst.LessThanEqual: cst.LessThan,
    cst.GreaterThan: cst.GreaterThanEqual,
    cst.GreaterThanEqual: cst.GreaterThan,
}

ONE_SIDED: dict[type[cst.BaseCompOp], tuple[type[cst.BaseCompOp], ...]] = {
    cst.Equal: (cst.LessThanEqual, cst.GreaterThanEqual),
    cst.NotEqual: (cst.LessThan, cst.GreaterThan),
}

IDENTITIES: dict[type[cst.BaseCompOp], type[cst.BaseCompOp]] = {
    cst.Equal: cst.Is,
    cst.NotEqual: cst.IsNot,
    cst.Is: cst.Equal,
    cst.IsNot: cst.NotEqual,
}

_NUMBER = matchers.OneOf(matchers.Integer(), matchers.Float(), matchers.UnaryOperation(matchers.Minus()))

_THE_SAME_EITHER_WAY = matchers.OneOf(
    matchers.Name("None"),
    matchers.Name("True"),
    matchers.Name("False"),
    matchers.Call(func=matchers.Name("type")),
    matchers.SimpleString(),
    matchers.Integer(),
)
"""For these `is` and `==` answer alike: there is one of each (small numbers and texts of programs are shared)."""


def _compared(place: Place) -> Iterator[tuple[cst.Comparison, int, type[cst.BaseCompOp], cst.BaseExpression]]:
    assert isinstance(place.node, cst.Comparison)
    for position, target in enumerate(place.node.comparisons):
        yield place.node, position, type(target.operator), target.comparator


@operator("comparison: boundary", cst.Comparison)
def boundary(place: Place) -> Iterator[Change]:
    """`<` for `<=`, and the like."""
    for node, position, kind, _ in _compared(place):
        if kind in BOUNDARIES:
            yield Change(node, with_comparison(node, position, BOUNDARIES[kind]))


@operator("comparison: negated", cst.Comparison)
def negated_comparison(place: Place) -> Iterator[Change]:
    """`!=` for `==`, `not in` for `in`, and the like."""
    for node, position, kind, _ in _compared(place):
        yield Change(node, with_comparison(node, position, NEGATIONS[kind]))


@operator("comparison: one side", cst.Comparison)
def one_sided(place: Place) -> Iterator[Change]:
    """`<=` and `>=` for `==` with a number."""
    for node, position, kind, comparator in _compared(place):
        if matchers.matches(comparator, _NUMBER):
            for other in ONE_SIDED.get(kind, ()):
                yield Change(node, with_comparison(node, position, other))


@operator("comparison: identity", cst.Comparison)
def identity(place: Place) -> Iterator[Change]:
    """`is` for `==` and the other way round, where that can make a difference."""
    for node, position, kind, comparator in _compared(place):
        sides = (node.left, comparator)
        if kind in IDENTITIES and not any(matchers.matches(side, _THE_SAME_EITHER_WAY) for side in sides):
            yield Change(node, with_comparison(node, position, IDENTITIES[kind]))


@operator("and/or: swapped", cst.BooleanOperation)
def and_or(place: Place) -> Iterator[Change]:
    """`or` for `and` and the other way round."""
    node = place.node
    assert isinstance(node, cst.BooleanOperation)
    other = cst.Or() if isinstance(node.operator, cst.And) else cst.And()
    # Parentheses, because the two bind differently.
    yield Change(node, held(node.with_changes(operator=other)))


@operator("and/or: operand dropped", cst.BooleanOperation)
def operand_dropped(place: Place) -> Iterator[Change]:
    """`a and b` becomes `b`, and `a`."""
    node = place.node
    assert isinstance(node, cst.BooleanOperation)
    yield Change(node, held(node.right))
    yield Change(node, held(node.left))


@operator("and/or: operand negated", cst.BooleanOperation)
def operand_negated(place: Place) -> Iterator[Change]:
    """`a and b` becomes `not a and b`, and `a and not b`."""
    node = place.node
    assert isinstance(node, cst.BooleanOperation)
    for operand in (node.left, node.right):
        if not isinstance(operand, cst.BooleanOperation):
            yield Change(operand, negated(operand))


@operator("not: dropped", cst.UnaryOperation)
def not_dropped(place: Place) -> Iterator[Change]:
    """`not x` becomes `x`."""
    node = place.node
    assert isinstance(node, cst.UnaryOperation)
    if isinstance(node.operator, cst.Not):
        yield Change(node, held(node.expression))


@operator("condition: negated", cst.If, cst.While, cst.IfExp, cst.CompIf)
def condition_negated(place: Place) -> Iterator[Change]:
    """The condition becomes its opposite."""
    test = place.node.test  # type: ignore[attr-defined]
    yield Change(test, negated(test))


@operator("condition: always", cst.If, cst.IfExp, cst.CompIf)
def condition_always(place: Place) -> Iterator[Change]:
    """As if the condition held always: what `else` and `elif` would do is never done, a filter lets all through."""
    yield Change(place.node.test, cst.Name("True"))  # type: ignore[attr-defined]


@operator("condition: never", cst.If, cst.While, cst.IfExp, cst.CompIf)
def condition_never(place: Place) -> Iterator[Change]:
    """As if the condition never held: the branch is dropped."""
    yield Change(place.node.test, cst.Name("False"))  # type: ignore[attr-defined]
