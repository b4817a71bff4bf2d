"""What an operator of mutation is, the table of all of them, and what they share. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import libcst as cst

MODULES = frozenset(
    "torch nn fx F functional copy math operator itertools functools collections re time statistics gc inspect dynamo "
    "warnings contextlib random string os sys io pickle json ast types weakref logging".split()
)
"""Names that stand for modules by custom: what is called of them is a function, no method of a value."""


@dataclass(frozen=True)
class Source:
    """The answer that is mutated.

    Attributes:
        module: its tree.
        parents: for each node of the tree the one that holds it.
        imported: names that it imports, in any scope.
    """

    module: cst.Module
    parents: Mapping[cst.CSTNode, cst.CSTNode]
    imported: frozenset[str] = field(default=frozenset())

    def above(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """What holds a node, from the nearest to the module."""
        while (found := self.parents.get(node)) is not None:
            yield found
            node = found

    def names_module(self, node: cst.BaseExpression) -> bool:
        """Whether an expression such as `torch.nn` begins with the name of a module."""
        while isinstance(node, cst.Attribute):
            node = node.value
        return isinstance(node, cst.Name) and (node.value in MODULES or node.value in self.imported)


@dataclass(frozen=True)
class Place:
    """One node, and the answer that it stands in."""

    node: cst.CSTNode
    source: Source


@dataclass(frozen=True)
class Change:
    """One edit: `new` takes the place of `old`."""

    old: cst.CSTNode
    new: cst.CSTNode


Operator = Callable[[Place], Iterable[Change]]

OPERATORS: dict[str, tuple[type[cst.CSTNode] | tuple[type[cst.CSTNode], ...], Operator]] = {}
"""Every operator by name, with the kinds of nodes that it is asked about."""


def operator(name: str, *kinds: type[cst.CSTNode]) -> Callable[[Operator], Operator]:
    """Enter an operator into the table.

    Args:
        name: what it does to an answer, for tables; no other has it.
        kinds: the nodes that it wants to see.

    Raises:
        ValueError: the name is taken.
    """

    def enter(function: Operator) -> Operator:
        if name in OPERATORS:
            raise ValueError(f"two operators of mutation are named {name!r}")
        OPERATORS[name] = kinds, function
        return function

    return enter


_ATOMS = (cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.BaseString, cst.BaseNumber, cst.List, cst.Set, cst.Dict)


def held(expression: cst.BaseExpression) -> cst.BaseExpression:
    """An expression that may stand in any place: in parentheses, unless it holds together by itself."""
    if isinstance(expression, _ATOMS) or expression.lpar:
        return expression
    return expression.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def parsed(text: str) -> cst.BaseExpression:
    """The expression that a text spells."""
    return cst.parse_expression(text)


NEGATIONS: dict[type[cst.BaseCompOp], type[cst.BaseCompOp]] = {
    cst.LessThan: cst.GreaterThanEqual,
    cst.LessThanEqual: cst.GreaterThan,
    cst.GreaterThan: cst.LessThanEqual,
    cst.GreaterThanEqual: cst.LessThan,
    cst.Equal: cst.NotEqual,
    cst.NotEqual: cst.Equal,
    cst.Is: cst.IsNot,
    cst.IsNot: cst.Is,
    cst.In: cst.NotIn,
    cst.NotIn: cst.In,
}
"""For each comparison the one that holds where it does not."""


def with_comparison(node: cst.Comparison, position: int, kind: type[cst.BaseCompOp]) -> cst.Comparison:
    """A comparison with another operator at one place."""
    targets = list(node.comparisons)
    targets[position] = targets[position].with_changes(operator=kind())
    return node.with_changes(comparisons=targets)


def negated(expression: cst.BaseExpression) -> cst.BaseExpression:
    """The opposite of a condition, in the plainest way to write it."""
    if isinstance(expression, cst.UnaryOperation) and isinstance(expression.operator, cst.Not):
        return held(expression.expression)
    if isinstance(expression, cst.Comparison) and len(expression.comparisons) == 1:
        return with_comparison(expression, 0, NEGATIONS[type(expression.comparisons[0].operator)])
    return held(cst.UnaryOperation(cst.Not(), held(expression)))
