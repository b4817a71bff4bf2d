"""Which algebraic rules may apply to a call, and what a match consists of."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from torch import fx

from fxopt_core.graphs.examples import example_of
from fxopt_core.graphs.operations import Operations
from fxopt_core.passes.algebraic_rules import EXACT_RULES, FAST_RULES, Call, Pattern, Rule, Variable, spellings


@dataclass(eq=False)
class Term:
    """A call that is going to be in the graph.

    Attributes:
        operation: in the words of ATen.
        operands: nodes, terms, numbers.
        like: the node for whose sake it is there.
        function: what is called.
        example: its value without data, if that of the operands is known.
        made: its node, once there is one.
    """

    operation: str
    operands: tuple[Any, ...]
    like: fx.Node
    function: Callable[..., Any]
    example: torch.Tensor | None = None
    made: fx.Node | None = None


Value = fx.Node | Term


@dataclass
class Found:
    """A rule that matches.

    Attributes:
        rule: which one.
        values: of its variables.
        inner: the values of the calls below the outermost one.
    """

    rule: Rule
    values: dict[str, Any] = field(default_factory=dict)
    inner: list[Value] = field(default_factory=list)

    @property
    def tensors(self) -> dict[str, Value]:
        """The variables that stand for tensors."""
        return {name: value for name, value in self.values.items() if isinstance(value, (fx.Node, Term))}


def value_example(value: Any) -> torch.Tensor | None:
    """What is known of a value: a tensor without data."""
    return value.example if isinstance(value, Term) else example_of(value)


def place(value: Value) -> fx.Node:
    """The node that stands for the value in the graph as it is."""
    return value.like if isinstance(value, Term) else value


Kind = str | tuple[float, bool] | None
"""What an operand is, as far as rules are chosen by it: for tensors the operation that made it, or an empty string;
for numbers that occur in rules the number, and whether it is -0.0; for others `_NUMBER`; for anything else `None`."""
_NUMBER = (math.nan, False)


class RuleTable:
    """Rules by the operations and operands that they begin with."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules: dict[str, list[tuple[Rule, Call]]] = {}
        names: dict[str, None] = {}
        self._numbers: set[float] = set()
        for rule in rules:
            for pattern in spellings(rule.before):
                assert isinstance(pattern, Call)
                self._rules.setdefault(pattern.operation, []).append((rule, pattern))
                self._note(pattern, names)
        self.operations = Operations(names)
        self._chosen: dict[tuple[str, tuple[Kind, ...], bool], list[tuple[Rule, Call]]] = {}

    def _note(self, pattern: Pattern, names: dict[str, None]) -> None:
        if isinstance(pattern, Call):
            names[pattern.operation] = None
            for operand in pattern.operands:
                self._note(operand, names)
        elif not isinstance(pattern, Variable):
            self._numbers.add(pattern)

    def kind(self, number: float) -> Kind:
        """The kind of a number."""
        if number not in self._numbers:
            return _NUMBER
        return (float(number), number == 0 and math.copysign(1.0, number) < 0)

    def candidates(self, operation: str, kinds: tuple[Kind, ...], same: bool) -> list[tuple[Rule, Call]]:
        """The rules that may match a call. `same` says whether it has two operands, which are one value."""
        key = (operation, kinds, same)
        chosen = self._chosen.get(key)
        if chosen is None:
            rules = self._rules.get(operation, [])
            self._chosen[key] = chosen = [entry for entry in rules if self._may_match(entry[1], kinds, same)]
        return chosen

    def _may_match(self, pattern: Call, kinds: tuple[Kind, ...], same: bool) -> bool:
        operands = pattern.operands
        if operands[-1] == Variable("rest"):
            operands, kinds = operands[:-1], kinds[: len(operands) - 1]
        if len(operands) != len(kinds):
            return False
        if len(operands) == 2 and isinstance(operands[0], Variable) and operands[0] == operands[1] and not same:
            return False
        return all(map(self._fits, operands, kinds))

    def _fits(self, operand: Pattern, kind: Kind) -> bool:
        if isinstance(operand, Call):
            return kind == operand.operation
        if isinstance(operand, Variable):
            return isinstance(kind, (tuple, str) if operand.name == "other" else tuple if operand.numeric else str)
        return kind == self.kind(operand)


@cache
def rule_table(fast_math: bool) -> RuleTable:
    """The table of the exact rules, with `fast_math` followed by the others."""
    return RuleTable((*EXACT_RULES, *FAST_RULES) if fast_math else EXACT_RULES)


def same_number(one: float, other: float) -> bool:
    """Whether two numbers are equal and of one sign: 0.0 and -0.0 differ, 1 and 1.0 do not."""
    return one == other and math.copysign(1.0, one) == math.copysign(1.0, other)
