"""Algebraic simplification: what arithmetic proves equal to something cheaper."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import fx

from fxopt_core.graphs.editor import GraphEditor
from fxopt_core.graphs.examples import example_of, value_of
from fxopt_core.graphs.legality import legality
from fxopt_core.graphs.operations import PYTHON_OPERATORS, function_like, operands_of
from fxopt_core.passes.algebraic_matching import (
    Found,
    Kind,
    RuleTable,
    Term,
    Value,
    place,
    rule_table,
    same_number,
    value_example,
)
from fxopt_core.passes.algebraic_rules import Call, Pattern, Rule, Variable
from fxopt_core.passes.base import Analysis, Opportunity, OptimizationPass, PassResult
from fxopt_core.passes.registry import register_pass
from fxopt_core.passes.substitution import Conditions, GraphFacts, Substitution
from fxopt_core.verification import EXACT, Tolerance

FAST_MATH = Tolerance(relative=1e-5, absolute=1e-6)
"""Of `fast_math` in float32: a few roundings (2^-24 each) of the largest value, for what the rules allow as inputs."""


_CONDITIONS = Conditions("algebraic_simplification")


@legality("algebraic_simplification: the rule holds for the dtype")
def holds_for_dtype(rule: Rule, dtype: torch.dtype) -> str | None:
    """Real numbers, machine integers and floating-point numbers obey different laws."""
    return None if dtype in rule.dtypes else f"it does not hold for {dtype}: {rule.reason}"


@legality("algebraic_simplification: one dtype")
def one_dtype(found: Found) -> str | None:
    """An operation on a narrow operand, moved behind the promotion to a wider dtype, is another operation."""
    examples = {name: value_example(value) for name, value in found.tensors.items() if name != "mask"}
    dtypes = {str(example.dtype) for example in examples.values() if example is not None}
    return f"its operands are of {' and '.join(sorted(dtypes))}" if len(dtypes) > 1 else None


@legality("algebraic_simplification: the rule holds for the numbers")
def holds_for_numbers(found: Found, dtype: torch.dtype) -> str | None:
    """Some rules are exact for some numbers only."""
    condition = found.rule.condition
    return condition(found.values, dtype) if condition is not None and dtype in found.rule.dtypes else None


@legality("algebraic_simplification: gradients still flow")
def gradients_still_flow(found: Found, dtype: torch.dtype, facts: GraphFacts, node: fx.Node) -> str | None:
    """A constant has no gradient, and does not even know that one was asked for."""
    if not dtype.is_floating_point or found.rule.carries_gradients:
        return None
    off = facts.timeline.mode(node).gradients is False
    return None if off else "its result takes part in autograd, and a constant does not"


class _Simplifier(Substitution):
    """Replaces values by what the rules make of them."""

    def __init__(self, editor: GraphEditor, table: RuleTable) -> None:
        super().__init__(editor, table.operations)
        self.table = table
        self.canonical: dict[fx.Node, Value] = {}

    def visit(self, node: fx.Node, name: str) -> None:
        if node.kwargs and operands_of(node) is None:
            return
        self.names[node] = name
        operands = self._operands(node)
        if self.table.candidates(name, self._kinds(operands), len(operands) == 2 and operands[0] is operands[1]):
            self._simplify(node)

    def _operands(self, value: Value) -> tuple[Any, ...]:
        if isinstance(value, Term):
            return value.operands
        canonical = self.canonical
        if not canonical:
            return value.args
        return tuple([canonical.get(each, each) if type(each) is fx.Node else each for each in value.args])

    def _kinds(self, operands: tuple[Any, ...]) -> tuple[Kind, ...]:
        kinds: list[Kind] = []
        for operand in operands:
            class_ = type(operand)
            if class_ is fx.Node:
                kinds.append(self.names.get(operand, ""))
            elif class_ is int or class_ is float or class_ is bool:
                kinds.append(self.table.kind(operand))
            else:
                kinds.append(operand.operation if class_ is Term else None)
        return tuple(kinds)

    def _simplify(self, node: fx.Node) -> None:
        """Apply rules to a node, and to what they make of it, until none applies any more."""
        value: Value = node
        applied: list[Rule] = []
        reasons: list[str] = []
        while (step := self._step(node, value, reasons)) is not None:
            rule, value = step
            applied.append(rule)
            if isinstance(value, fx.Node):
                break
        if applied:
            self.canonical[node] = value
            if place(value) is not node:
                self.facts.substituted(node, place(value))
            tolerance = EXACT if all(rule.exact for rule in applied) else FAST_MATH
            names = ", then ".join(rule.name for rule in applied)
            self.analysis.opportunities.append(Opportunity(node, value, names, tolerance))
        elif reasons:
            self.analysis.refuse(node, "; ".join(reasons))

    def _step(self, node: fx.Node, value: Value, reasons: list[str]) -> tuple[Rule, Value] | None:
        """The first rule that applies to a value, and what it makes of it."""
        name = self.names[value] if isinstance(value, fx.Node) else value.operation
        operands = self._operands(value)
        same = len(operands) == 2 and operands[0] is operands[1]
        for rule, pattern in self.table.candidates(name, self._kinds(operands), same):
            found = Found(rule)
            if not self._match(pattern, value, found) or not _are_tensors(node, found):
                continue
            reason = self._why_not(node, found)
            if reason is None:
                replacement = self._instantiate(rule.after, found.values, node)
                reason = self._why_not_by(replacement, node, found)
                if reason is None:
                    return rule, replacement
            reasons.append(f"{rule.name}: {reason}")
        return None

    def _match(self, pattern: Pattern, value: Any, found: Found) -> bool:
        if isinstance(pattern, Variable):
            number = type(value) in (int, float)
            if not (number and (pattern.numeric or pattern.name == "other")) and (
                pattern.numeric or not isinstance(value, (fx.Node, Term))
            ):
                return False
            known_value = found.values.setdefault(pattern.name, value)
            return known_value is value or (pattern.numeric and same_number(known_value, value))
        if not isinstance(pattern, Call):
            return type(value) in (int, float, bool) and same_number(pattern, value)
        if not isinstance(value, (fx.Node, Term)):
            return False
        name = self.names.get(value) if isinstance(value, fx.Node) else value.operation
        if name != pattern.operation:
            return False
        operands, patterns = self._operands(value), pattern.operands
        if patterns[-1] == Variable("rest"):
            patterns = patterns[:-1]
            found.values["rest"], operands = operands[len(patterns) :], operands[: len(patterns)]
        if len(operands) != len(patterns):
            return False
        for below, operand in zip(patterns, operands, strict=True):
            if not self._match(below, operand, found):
                return False
            if isinstance(below, Call):
                found.inner.append(operand)
        if pattern.name is not None:
            found.values[pattern.name] = value
        return True

    def _why_not(self, node: fx.Node, found: Found) -> str | None:
        """Why a rule does not hold, whatever the form of the replacement."""
        examples = [value_example(value) for value in found.tensors.values()]
        reason = _CONDITIONS.known(example_of(node), *examples)
        example = next(
            (e for name, e in zip(found.tensors, examples, strict=True) if name != "mask" and e is not None), None
        )
        if reason is not None or example is None:
            return reason
        return (
            one_dtype(found)
            or holds_for_dtype(found.rule, example.dtype)
            or holds_for_numbers(found, example.dtype)
            or gradients_still_flow(found, example.dtype, self.facts, node)
        )

    def _why_not_by(self, replacement: Value, node: fx.Node, found: Found) -> str | None:
        """Why the replacement may not stand for the node."""
        examples = (value_example(replacement), example_of(node))
        inner = tuple(map(place, found.inner))
        if place(replacement) is not node:
            return _CONDITIONS.why_not(self.facts, node, place(replacement), examples, inner)
        reason = _CONDITIONS.known(*examples) or _CONDITIONS.same_tensor(*examples)
        if reason is None and inner:
            # What stands further up is read later than it was.
            read = tuple(map(place, found.tensors.values()))
            reason = _CONDITIONS.not_written(self.facts, (*read, *inner))
            reason = reason or _CONDITIONS.same_mode(self.facts, node, inner)
        return reason

    def _instantiate(self, pattern: Pattern, values: Mapping[str, Any], node: fx.Node) -> Any:
        """What a right side stands for: a value that is there, a number, or a new term."""
        if isinstance(pattern, Variable):
            return values[pattern.name]
        if not isinstance(pattern, Call):
            return pattern
        operands: list[Any] = []
        for below in pattern.operands:
            operand = self._instantiate(below, values, node)
            operands += operand if below == Variable("rest") else [operand]
        if not any(isinstance(operand, (fx.Node, Term)) for operand in operands):
            return getattr(operator, PYTHON_OPERATORS[pattern.operation])(*operands)
        function = function_like(node, pattern.operation, tuple(operands))
        return Term(pattern.operation, tuple(operands), node, function, _computed(function, operands))


def _are_tensors(node: fx.Node, found: Found) -> bool:
    """Whether all values are tensors, as far as it is known: sizes are calculated with too."""
    nodes = (node, *(value for value in found.tensors.values() if isinstance(value, fx.Node)))
    return not any(value_of(value) is not None and example_of(value) is None for value in nodes)


def _computed(function: Callable[..., Any], operands: list[Any]) -> torch.Tensor | None:
    """What the function gives for the examples of its operands; `None` if they are unknown."""
    examples = [value_example(each) if isinstance(each, (fx.Node, Term)) else each for each in operands]
    if any(example is None for example in examples):
        return None
    with torch.no_grad():
        result: torch.Tensor = function(*examples)
    return result


@register_pass("algebraic_simplification")
class AlgebraicSimplification(OptimizationPass):
    """Compute what is equal and cheaper.

        n = left side of a rule    becomes    n = right side

    for the rules of the table in `algebraic_rules`, in every dialect of graphs. A rule is legal where its equation
    holds for the dtype and the numbers; no promotion lies between its operands; dtype, shape, strides and device stay
    (so that what a capture knows of them is needed; the strides of inputs are those of the example inputs); the mode
    (gradients, autocast) is the same for all that it matches; and gradients still flow. Where a value that is there
    stands for one with storage of its own, nothing may be written to either, and if it is returned nobody else may
    hold its storage.

    Exactness: bitwise, except for sign and payload of a NaN, and provided that subnormal numbers are not flushed to
    zero. With `fast_math=True` also rules of real numbers (`FAST_RULES`; the table says what each one gives up):
    within `FAST_MATH`, if all inputs lie where the rules hold, nothing overflows, and sums do not cancel.

    One walk; rules are chosen by operation and operands, so that what matches none costs two look-ups. What a rule
    makes is simplified at once: chains reach their end in one run. Nodes that become unused are left to dead_code.

    Args:
        fast_math: whether rules that are not exact are used.
    """

    def __init__(self, *, fast_math: bool = False) -> None:
        self.fast_math = fast_math
        self.tolerance = FAST_MATH if fast_math else EXACT

    def analyze(self, editor: GraphEditor) -> Analysis:
        """Find all nodes to which rules apply, and what each becomes in the end."""
        return _Simplifier(editor, rule_table(self.fast_math)).run()

    def transform(self, editor: GraphEditor, opportunity: Opportunity) -> None:
        """Put what the rules made in the node's place."""
        editor.replace(opportunity.node, self._node(editor, opportunity.data))

    def _node(self, editor: GraphEditor, value: Value) -> fx.Node:
        if isinstance(value, fx.Node):
            return value
        if value.made is None:
            operands = [self._node(editor, each) if isinstance(each, Term) else each for each in value.operands]
            value.made = editor.insert("call_function", value.function, tuple(operands), like=value.like)
        return value.made

    def verify(self, editor: GraphEditor, result: PassResult) -> None:
        """Nothing that was simplified is left."""
        self.require_gone(editor, result.rewrites)
