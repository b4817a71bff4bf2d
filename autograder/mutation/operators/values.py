"""Values: numbers, arithmetic, truth, texts, elements of tuples, lists, sets and tables, slices. Imports no torch."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

import libcst as cst

from autograder.mutation.operators.base import Change, Place, held, operator, parsed

ARITHMETIC: dict[type[cst.BaseBinaryOp], tuple[type[cst.BaseBinaryOp], ...]] = {
    cst.Add: (cst.Subtract,),
    cst.Subtract: (cst.Add,),
    cst.Multiply: (cst.FloorDivide, cst.Add),
    cst.Divide: (cst.Multiply,),
    cst.FloorDivide: (cst.Multiply, cst.Divide),
    cst.Modulo: (cst.FloorDivide,),
    cst.Power: (cst.Multiply,),
    cst.BitAnd: (cst.BitOr,),
    cst.BitOr: (cst.BitAnd,),
    cst.BitXor: (cst.BitOr,),
    cst.LeftShift: (cst.RightShift,),
    cst.RightShift: (cst.LeftShift,),
}

AUGMENTED: dict[type[cst.BaseAugOp], type[cst.BaseAugOp]] = {
    cst.AddAssign: cst.SubtractAssign,
    cst.SubtractAssign: cst.AddAssign,
    cst.MultiplyAssign: cst.AddAssign,
    cst.DivideAssign: cst.MultiplyAssign,
    cst.FloorDivideAssign: cst.MultiplyAssign,
    cst.BitAndAssign: cst.BitOrAssign,
    cst.BitOrAssign: cst.BitAndAssign,
}

LOOK_ALIKES: dict[str, tuple[str, ...]] = {
    "call_function": ("call_method", "call_module"),
    "call_method": ("call_function", "call_module"),
    "call_module": ("call_function", "call_method"),
    "placeholder": ("get_attr", "output"),
    "get_attr": ("placeholder", "call_module"),
    "output": ("placeholder",),
}
"""Texts that are taken for one another: the kinds of nodes of `torch.fx`."""


@operator("number: off by one", cst.Integer)
def off_by_one(place: Place) -> Iterator[Change]:
    """One more and one less; so the first becomes the last."""
    node = place.node
    assert isinstance(node, cst.Integer)
    value = node.evaluated_value
    yield Change(node, cst.Integer(str(value + 1)))
    yield Change(node, cst.Integer(str(value - 1)) if value else held(parsed("-1")))


@operator("number: another", cst.Float)
def another_number(place: Place) -> Iterator[Change]:
    """Twice the number; 1 for 0."""
    node = place.node
    assert isinstance(node, cst.Float)
    yield Change(node, cst.Float(repr(2 * node.evaluated_value or 1.0)))


@operator("minus: dropped", cst.UnaryOperation)
def minus_dropped(place: Place) -> Iterator[Change]:
    """`-x` becomes `x`."""
    node = place.node
    assert isinstance(node, cst.UnaryOperation)
    if isinstance(node.operator, cst.Minus):
        yield Change(node, held(node.expression))


@operator("arithmetic: another operator", cst.BinaryOperation)
def arithmetic(place: Place) -> Iterator[Change]:
    """`-` for `+`, `*` for `//`, and the like."""
    node = place.node
    assert isinstance(node, cst.BinaryOperation)
    for other in ARITHMETIC.get(type(node.operator), ()):
        yield Change(node, held(node.with_changes(operator=other())))


@operator("arithmetic: operand dropped", cst.BinaryOperation)
def operand_dropped(place: Place) -> Iterator[Change]:
    """`a + b` becomes `a`, and `b`."""
    node = place.node
    assert isinstance(node, cst.BinaryOperation)
    yield Change(node, held(node.left))
    yield Change(node, held(node.right))


@operator("arithmetic: operands swapped", cst.BinaryOperation)
def operands_swapped(place: Place) -> Iterator[Change]:
    """`a - b` becomes `b - a`, where the order counts."""
    node = place.node
    assert isinstance(node, cst.BinaryOperation)
    if not isinstance(node.operator, (cst.Add, cst.Multiply, cst.BitAnd, cst.BitOr, cst.BitXor)):
        yield Change(node, node.with_changes(left=held(node.right), right=held(node.left)))


@operator("assignment: another operator", cst.AugAssign)
def augmented(place: Place) -> Iterator[Change]:
    """`-=` for `+=`, and a plain `=`."""
    node = place.node
    assert isinstance(node, cst.AugAssign)
    if type(node.operator) in AUGMENTED:
        yield Change(node, node.with_changes(operator=AUGMENTED[type(node.operator)]()))
    yield Change(node, cst.Assign([cst.AssignTarget(node.target)], node.value))


@operator("truth: flipped", cst.Name)
def truth(place: Place) -> Iterator[Change]:
    """`False` for `True` and the other way round."""
    node = place.node
    assert isinstance(node, cst.Name)
    above = place.source.parents.get(node)
    if isinstance(above, cst.Arg) and above.keyword is not None and above.keyword.value in HARMLESS_KEYWORDS:
        return
    if node.value in ("True", "False"):
        yield Change(node, cst.Name("False" if node.value == "True" else "True"))


@operator("text: another", cst.SimpleString)
def another_text(place: Place) -> Iterator[Change]:
    """A look-alike, or one character more."""
    node = place.node
    assert isinstance(node, cst.SimpleString)
    value = ast.literal_eval(node.value)
    if not isinstance(value, str):
        return
    for other in LOOK_ALIKES.get(value, (f"x{value}",)):
        yield Change(node, cst.SimpleString(repr(other)))


@operator("text: part dropped", cst.FormattedString)
def part_dropped(place: Place) -> Iterator[Change]:
    """A value in braces is left out of its text."""
    node = place.node
    assert isinstance(node, cst.FormattedString)
    for part in node.parts:
        if isinstance(part, cst.FormattedStringExpression):
            yield Change(node, node.with_changes(parts=[other for other in node.parts if other is not part]))


HARMLESS_KEYWORDS = frozenset({"strict", "stacklevel", "flush"})
"""Keywords that a right answer is right without: they only guard or decorate."""

Elements = Sequence[cst.BaseElement] | Sequence[cst.BaseDictElement] | Sequence[cst.Arg]


def without(elements: Elements, position: int) -> list[cst.CSTNode]:
    """Elements without one of them; what comes last then ends as the last one did."""
    rest: list[cst.CSTNode] = [*elements[:position], *elements[position + 1 :]]
    if rest and position == len(rest):
        rest[-1] = rest[-1].with_changes(comma=elements[position].comma)
    return rest


def swapped(elements: Elements, position: int) -> list[cst.CSTNode]:
    """Elements with one and its right neighbour exchanged; commas and spaces stay where they are."""
    changed: list[cst.CSTNode] = list(elements)
    left, right = elements[position : position + 2]
    changed[position] = right.with_changes(comma=left.comma)
    changed[position + 1] = left.with_changes(comma=right.comma)
    return changed


def _order_counts(place: Place) -> bool:
    """Whether anything can depend on the order of a tuple's or list's elements."""
    above = place.source.parents.get(place.node)
    if isinstance(above, (cst.ComparisonTarget, cst.ExceptHandler)):
        return False
    if isinstance(above, cst.AssignTarget):
        # `a, b = x, y`: the values are exchanged anyway.
        assign = place.source.parents.get(above)
        return not (isinstance(assign, cst.Assign) and isinstance(assign.value, (cst.Tuple, cst.List)))
    # `isinstance(x, (A, B))`, `text.startswith((a, b))`
    over = place.source.parents.get(above) if isinstance(above, cst.Arg) else None
    if isinstance(over, cst.Call):
        name = over.func.attr if isinstance(over.func, cst.Attribute) else over.func
        asks = ("isinstance", "issubclass", "startswith", "endswith")
        return not (isinstance(name, cst.Name) and name.value in asks)
    return True


def _is_target(place: Place) -> bool:
    """Whether a tuple or list is assigned to."""
    below: cst.CSTNode = place.node
    for above in place.source.above(place.node):
        if isinstance(above, (cst.Element, cst.StarredElement, cst.Tuple, cst.List)):
            below = above
            continue
        return isinstance(above, (cst.AssignTarget, cst.For, cst.CompFor)) and above.target is below
    return False


@operator("element: dropped", cst.Tuple, cst.List, cst.Set)
def element_dropped(place: Place) -> Iterator[Change]:
    """One element is left out."""
    node = place.node
    assert isinstance(node, (cst.Tuple, cst.List, cst.Set))
    if _is_target(place):
        return
    for position in range(len(node.elements)):
        rest = without(node.elements, position)
        if rest or isinstance(node, cst.List):
            yield Change(node, node.with_changes(elements=rest))
        else:
            yield Change(node, parsed("()" if isinstance(node, cst.Tuple) else "set()"))


@operator("element: swapped", cst.Tuple, cst.List)
def element_swapped(place: Place) -> Iterator[Change]:
    """Two neighbours change places, where order counts."""
    node = place.node
    assert isinstance(node, (cst.Tuple, cst.List))
    if _order_counts(place):
        for position in range(len(node.elements) - 1):
            yield Change(node, node.with_changes(elements=swapped(node.elements, position)))


@operator("table: entry dropped", cst.Dict)
def entry_dropped(place: Place) -> Iterator[Change]:
    """A dictionary without one of its entries."""
    node = place.node
    assert isinstance(node, cst.Dict)
    for position in range(len(node.elements)):
        yield Change(node, node.with_changes(elements=without(node.elements, position)))


@operator("table: values swapped", cst.Dict)
def values_swapped(place: Place) -> Iterator[Change]:
    """Two neighbouring keys of a dictionary change values."""
    node = place.node
    assert isinstance(node, cst.Dict)
    for position, (left, right) in enumerate(zip(node.elements, node.elements[1:], strict=False)):
        if isinstance(left, cst.DictElement) and isinstance(right, cst.DictElement):
            elements = list(node.elements)
            elements[position] = left.with_changes(value=right.value)
            elements[position + 1] = right.with_changes(value=left.value)
            yield Change(node, node.with_changes(elements=elements))


@operator("slice: bound dropped", cst.Slice)
def bound_dropped(place: Place) -> Iterator[Change]:
    """`x[a:b:c]` without one of the three."""
    node = place.node
    assert isinstance(node, cst.Slice)
    for name in ("lower", "upper"):
        if getattr(node, name) is not None:
            yield Change(node, node.with_changes(**{name: None}))
    if node.step is not None:
        yield Change(node, node.with_changes(step=None, second_colon=cst.MaybeSentinel.DEFAULT))


@operator("slice: dropped", cst.Subscript)
def slice_dropped(place: Place) -> Iterator[Change]:
    """`x[a:b]` becomes `x`."""
    node = place.node
    assert isinstance(node, cst.Subscript)
    if any(isinstance(part.slice, cst.Slice) for part in node.slice):
        yield Change(node, node.value)
