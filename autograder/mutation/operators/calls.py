"""Calls: arguments and keywords dropped or exchanged, calls dropped, names taken for one another. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from autograder.mutation.operators.base import Change, Place, held, operator
from autograder.mutation.operators.values import HARMLESS_KEYWORDS, swapped, without

FUNCTIONS: dict[str, tuple[str, ...]] = {
    "all": ("any",),
    "any": ("all",),
    "min": ("max",),
    "max": ("min",),
    "sorted": ("list",),
    "reversed": ("list",),
    "set": ("list",),
    "floor": ("ceil",),
    "ceil": ("floor",),
    "deepcopy": ("copy",),
    "list": ("set",),
}
"""Functions, by name or as an attribute of a module, that are taken for one another."""

_PAIRS = (
    "args kwargs",
    "next prev",
    "users all_input_nodes",
    "append appendleft",
    "pop popleft",
    "add discard",
    "append extend",
    "keys values",
    "startswith endswith",
    "inserting_before inserting_after",
    "weight bias",
    "running_mean running_var",
    "in_features out_features",
    "in_channels out_channels",
    "train eval",
    "union intersection",
    "issubset issuperset",
    "placeholder get_attr",
    "call_function call_method",
    "call_module call_method",
    "target name",
    "argmin argmax",
    "amin amax",
    "min max",
    "all any",
    "relu tanh",
    "parameters buffers",
    "named_parameters named_buffers",
    "named_modules named_children",
    "modules children",
    "allclose equal",
    "shape stride",
    "ceil floor",
    "training requires_grad",
    "index rindex",
    "partition rpartition",
    "find rfind",
    "mean median",
    "lt le",
    "gt ge",
    "add sub",
    "mul div",
)

ATTRIBUTES: dict[str, tuple[str, ...]] = {}
for _pair in _PAIRS:
    for _one, _other in (_pair.split(), _pair.split()[::-1]):
        ATTRIBUTES[_one] = (*ATTRIBUTES.get(_one, ()), _other)
ATTRIBUTES["pop"] = ("popleft",)


def _is_statement(place: Place) -> bool:
    return isinstance(place.source.parents.get(place.node), cst.Expr)


def _positional(arguments: tuple[cst.Arg, ...] | list[cst.Arg]) -> int:
    """How many plain positional arguments a call begins with."""
    plain = [argument.keyword is None and not argument.star for argument in arguments]
    return plain.index(False) if False in plain else len(plain)


@operator("call: dropped", cst.Call)
def call_dropped(place: Place) -> Iterator[Change]:
    """`f(x, …)` becomes `x`, and `x.method(…)` becomes `x`: so `reversed`, copies and recursion are lost."""
    node = place.node
    assert isinstance(node, cst.Call)
    if _is_statement(place):
        return  # as a statement it is dropped elsewhere
    function = node.func
    method = isinstance(function, cst.Attribute) and not place.source.names_module(function)
    own = (
        isinstance(function, cst.Attribute) and isinstance(function.value, cst.Name) and function.value.value == "self"
    )
    if method and not own:
        assert isinstance(function, cst.Attribute)
        yield Change(node, held(function.value))
    elif _positional(list(node.args)):
        yield Change(node, held(node.args[0].value))


@operator("argument: dropped", cst.Call)
def argument_dropped(place: Place) -> Iterator[Change]:
    """A call without its last positional argument, without `*those`, and without one of its keywords."""
    node = place.node
    assert isinstance(node, cst.Call)
    plain = _positional(list(node.args))
    for position, argument in enumerate(node.args):
        dropped = argument.keyword is not None or bool(argument.star) or (position == plain - 1 and position > 0)
        if argument.keyword is not None and argument.keyword.value in HARMLESS_KEYWORDS:
            dropped = False
        if dropped:
            yield Change(node, node.with_changes(args=without(node.args, position)))


@operator("argument: swapped", cst.Call)
def argument_swapped(place: Place) -> Iterator[Change]:
    """Two neighbouring positional arguments change places."""
    node = place.node
    assert isinstance(node, cst.Call)
    for position in range(_positional(list(node.args)) - 1):
        yield Change(node, node.with_changes(args=swapped(node.args, position)))


@operator("function: a look-alike", cst.Call)
def look_alike(place: Place) -> Iterator[Change]:
    """`any` for `all`, `max` for `min`, `list` for `sorted`, and the like."""
    node = place.node
    assert isinstance(node, cst.Call)
    if isinstance(node.func, cst.Name):
        for other in FUNCTIONS.get(node.func.value, ()):
            changed = node.with_changes(func=cst.Name(other))
            if other == "list" and node.args:
                changed = changed.with_changes(args=[node.args[0].with_changes(comma=cst.MaybeSentinel.DEFAULT)])
            yield Change(node, changed)


@operator("attribute: a look-alike", cst.Attribute)
def attribute_look_alike(place: Place) -> Iterator[Change]:
    """`args` for `kwargs`, `inserting_after` for `inserting_before`, and the like."""
    node = place.node
    assert isinstance(node, cst.Attribute)
    for other in (*ATTRIBUTES.get(node.attr.value, ()), *FUNCTIONS.get(node.attr.value, ())):
        if other not in ("list", "set"):
            yield Change(node, node.with_changes(attr=cst.Name(other)))


@operator("range: off by one", cst.Call)
def range_off_by_one(place: Place) -> Iterator[Change]:
    """`range(n)` without its first and without its last number; `enumerate` that counts from 1."""
    node = place.node
    assert isinstance(node, cst.Call)
    if not isinstance(node.func, cst.Name) or len(node.args) != 1 or _positional(list(node.args)) != 1:
        return
    one = cst.Integer("1")
    if node.func.value == "range":
        less = cst.BinaryOperation(held(node.args[0].value), cst.Subtract(), one)
        yield Change(node, node.with_changes(args=[cst.Arg(one), cst.Arg(node.args[0].value)]))
        yield Change(node, node.with_changes(args=[cst.Arg(less)]))
    elif node.func.value == "enumerate":
        yield Change(node, node.with_changes(args=[cst.Arg(node.args[0].value), cst.Arg(one)]))


@operator("decorator: dropped", cst.FunctionDef, cst.ClassDef)
def decorator_dropped(place: Place) -> Iterator[Change]:
    """A function or class without one of its decorators."""
    node = place.node
    assert isinstance(node, (cst.FunctionDef, cst.ClassDef))
    for decorator in node.decorators:
        rest = [other for other in node.decorators if other is not decorator]
        yield Change(node, node.with_changes(decorators=rest))
