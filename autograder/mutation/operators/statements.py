"""Statements: dropped, ended early, returned too soon, unguarded. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from autograder.mutation.operators.base import Change, Place, operator

KEPT = (cst.Import, cst.ImportFrom, cst.Pass, cst.Global, cst.Nonlocal, cst.Return, cst.TypeAlias)
"""Small statements that are not dropped: they do nothing by themselves, or are changed in other ways."""

SWALLOWED = "RuntimeError", "ValueError"
"""What is raised instead of another exception, and instead of itself."""


@operator("statement: dropped", cst.SimpleStatementLine)
def statement_dropped(place: Place) -> Iterator[Change]:
    """A statement is not there."""
    node = place.node
    assert isinstance(node, cst.SimpleStatementLine)
    for small in node.body:
        if not isinstance(small, KEPT) and not is_docstring(place, small):
            yield Change(small, cst.Pass())


def is_docstring(place: Place, statement: cst.CSTNode) -> bool:
    """Whether a statement is a text and nothing else."""
    return isinstance(statement, cst.Expr) and isinstance(statement.value, cst.BaseString)


@operator("loop: dropped", cst.For)
def loop_dropped(place: Place) -> Iterator[Change]:
    """A loop is not there."""
    yield Change(place.node, cst.SimpleStatementLine([cst.Pass()]))


@operator("loop: one pass", cst.For, cst.While)
def one_pass(place: Place) -> Iterator[Change]:
    """A loop ends after its first pass."""
    body = place.node.body  # type: ignore[attr-defined]
    if isinstance(body, cst.IndentedBlock):
        yield Change(body, body.with_changes(body=[*body.body, cst.SimpleStatementLine([cst.Break()])]))


@operator("return: in the loop", cst.FunctionDef)
def returned_early(place: Place) -> Iterator[Change]:
    """The return at a function's end stands at the end of a loop's body, one step too far to the right."""
    node = place.node
    assert isinstance(node, cst.FunctionDef)
    if not isinstance(node.body, cst.IndentedBlock):
        return
    *before, last = node.body.body
    if not _returns(last):
        return
    for position, statement in enumerate(before):
        # Right before the return, ending the loop comes to the same.
        if isinstance(statement, (cst.For, cst.While)) and position < len(before) - 1:
            body = statement.body
            if isinstance(body, cst.IndentedBlock):
                yield Change(body, body.with_changes(body=[*body.body, last]))


def _returns(statement: cst.BaseStatement) -> bool:
    return isinstance(statement, cst.SimpleStatementLine) and isinstance(statement.body[-1], cst.Return)


@operator("return: nothing", cst.Return)
def returns_nothing(place: Place) -> Iterator[Change]:
    """`return x` becomes `return None`; where nothing is returned, the function goes on."""
    node = place.node
    assert isinstance(node, cst.Return)
    if node.value is None:
        yield Change(node, cst.Pass())
    elif not (isinstance(node.value, cst.Name) and node.value.value == "None"):
        yield Change(node, cst.Return(cst.Name("None")))


@operator("return: goes on", cst.If)
def goes_on(place: Place) -> Iterator[Change]:
    """A branch that only returns or raises does nothing instead; the others are as they were."""
    node = place.node
    assert isinstance(node, cst.If)
    body = node.body
    if (
        node.orelse is not None
        and isinstance(body, cst.IndentedBlock)
        and len(body.body) == 1
        and _returns(body.body[0])
    ):
        yield Change(body, body.with_changes(body=[cst.SimpleStatementLine([cst.Pass()])]))


@operator("else: dropped", cst.Else)
def else_dropped(place: Place) -> Iterator[Change]:
    """An `else` does nothing."""
    node = place.node
    assert isinstance(node, cst.Else)
    if isinstance(node.body, cst.IndentedBlock):
        yield Change(node.body, node.body.with_changes(body=[cst.SimpleStatementLine([cst.Pass()])]))


@operator("break: for continue", cst.Break, cst.Continue)
def break_continue(place: Place) -> Iterator[Change]:
    """`continue` for `break` and the other way round."""
    yield Change(place.node, cst.Continue() if isinstance(place.node, cst.Break) else cst.Break())


@operator("with: dropped", cst.With)
def with_dropped(place: Place) -> Iterator[Change]:
    """What stands under a `with` runs without it, or without one of several."""
    node = place.node
    assert isinstance(node, cst.With)
    if len(node.items) > 1:
        for item in node.items:
            *rest, last = (other for other in node.items if other is not item)
            yield Change(node, node.with_changes(items=[*rest, last.with_changes(comma=cst.MaybeSentinel.DEFAULT)]))
    else:
        yield Change(node, cst.If(cst.Name("True"), node.body, leading_lines=node.leading_lines))


@operator("try: handler dropped", cst.Try)
def handler_dropped(place: Place) -> Iterator[Change]:
    """Exceptions are not caught; what `finally` does is not done."""
    node = place.node
    assert isinstance(node, cst.Try)
    if len(node.handlers) > 1 or (node.handlers and node.finalbody is not None):
        for handler in node.handlers:
            rest = [other for other in node.handlers if other is not handler]
            # `else` needs a handler.
            yield Change(node, node.with_changes(handlers=rest, orelse=node.orelse if rest else None))
    elif node.handlers and node.orelse is None:
        yield Change(node, cst.If(cst.Name("True"), node.body, leading_lines=node.leading_lines))
    if node.finalbody is not None:
        block = cst.IndentedBlock([cst.SimpleStatementLine([cst.Pass()])])
        yield Change(node.finalbody, node.finalbody.with_changes(body=block))


@operator("case: dropped", cst.Match)
def case_dropped(place: Place) -> Iterator[Change]:
    """A `match` without one of its cases."""
    node = place.node
    assert isinstance(node, cst.Match)
    if len(node.cases) > 1:
        for case in node.cases:
            yield Change(node, node.with_changes(cases=[other for other in node.cases if other is not case]))


@operator("raise: another exception", cst.Raise)
def another_exception(place: Place) -> Iterator[Change]:
    """An exception of another kind."""
    node = place.node
    assert isinstance(node, cst.Raise)
    call = node.exc
    kind = call.func if isinstance(call, cst.Call) else call
    if isinstance(kind, cst.Name):
        other = cst.Name(SWALLOWED[kind.value == SWALLOWED[0]])
        yield Change(kind, other)


@operator("raise: message without its first part", cst.Raise)
def message_shortened(place: Place) -> Iterator[Change]:
    """The message of an exception without what it begins with, and without the first value in it."""
    node = place.node
    assert isinstance(node, cst.Raise)
    message = node.exc.args[0].value if isinstance(node.exc, cst.Call) and node.exc.args else None
    if not isinstance(message, cst.FormattedString):
        return
    values = [part for part in message.parts if isinstance(part, cst.FormattedStringExpression)]
    for dropped in {id(part): part for part in (message.parts[0], *values[:1])}.values():
        parts = [part for part in message.parts if part is not dropped]
        yield Change(message, message.with_changes(parts=parts))
