"""A second lock: the Python code that `torch.fx` generates from a decoded graph is read before it is executed.

Names and arguments are checked one by one when a graph is decoded. Should the generator nevertheless let one of them
out of its quotes, the code has statements, names or attributes that no graph has, and is refused here.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from torch import fx
from torch.fx.node import _get_qualified_name

from autograder.exchange.graph_form.format import GraphFormatError, shown
from autograder.exchange.graph_form.literals import TORCH_CONSTANTS
from autograder.exchange.graph_form.targets import ATTRIBUTES, methods

_SYNTAX = (
    ast.Module, ast.FunctionDef, ast.arguments, ast.arg, ast.Assign, ast.AugAssign, ast.Return, ast.Pass, ast.Expr,
    ast.Name, ast.Load, ast.Store, ast.Attribute, ast.Constant, ast.Call, ast.keyword, ast.Subscript, ast.Slice,
    ast.Tuple, ast.List, ast.Dict, ast.BinOp, ast.UnaryOp, ast.Compare, ast.operator, ast.unaryop, ast.cmpop,
)  # fmt: skip
# `infj` and `nanj` are what `repr` makes of complex numbers with such parts: no Python names, so that the generated
# forward fails on them, while `run` takes them as they are.
_BUILTINS = frozenset({"self", "getattr", "slice", "range", "Ellipsis", "infj", "nanj"})
_PYTREE = frozenset({"fx_pytree.tree_flatten_spec", "pytree.tree_unflatten"})


def check_generated_code(graph: fx.Graph, where: str) -> None:
    """Check that the code of `graph` is one function made of calls and literals that the graph has.

    Raises:
        GraphFormatError: the code holds anything else.
        SyntaxError: the code is none; a call such as `operator.add` with one argument may raise other exceptions.
    """
    code = graph.python_code("self")
    tree = ast.parse(code.src)
    if len(tree.body) != 1 or not isinstance(tree.body[0], ast.FunctionDef):
        raise GraphFormatError(f"{where}: its generated code is more than one function")
    function = tree.body[0]
    everything = list(ast.walk(function))
    local = {node.id for node in everything if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    local |= {node.arg for node in everything if isinstance(node, ast.arg)}
    names = local | set(code.globals) | _BUILTINS
    dotted = TORCH_CONSTANTS | _PYTREE
    dotted |= {_get_qualified_name(node.target) for node in graph.nodes if node.op == "call_function"}
    paths = {part for node in graph.nodes if node.op in _PATHS for part in str(node.target).split(".")}
    attributes = methods() | ATTRIBUTES | paths
    for node in _outermost(tree):
        problem = _problem(node, names, dotted, attributes, paths, local)
        if problem:
            raise GraphFormatError(f"{where}: its generated code holds {shown(problem)}, which no graph has")


_PATHS = ("get_attr", "call_module")


def _outermost(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes below `node`, but of a dotted name such as `torch.ops.aten.add` only the whole."""
    for child in ast.iter_child_nodes(node):
        yield child
        yield from _outermost(child if _chain(child) is None else ast.Pass())


def _chain(node: ast.AST) -> list[str] | None:
    """The parts of a dotted name that starts with a variable."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if parts and isinstance(node, ast.Name):
        return [node.id, *reversed(parts)]
    return None


def _problem(
    node: ast.AST, names: set[str], dotted: set[str], attributes: Any, paths: set[str], local: set[str]
) -> str | None:
    if not isinstance(node, _SYNTAX):
        return type(node).__name__
    if isinstance(node, ast.FunctionDef) and (node.name != "forward" or node.decorator_list):
        return node.name
    chain = _chain(node)
    if chain is not None:
        root, *rest = chain
        if root == "self":
            known = rest[0] in paths or rest in (["_in_spec"], ["_out_spec"])
        elif root in local:
            known = all(part in attributes for part in rest)
        else:
            known = ".".join(chain) in dotted
        return None if known else ".".join(chain)
    if isinstance(node, ast.Attribute) and node.attr not in attributes:
        return node.attr
    if isinstance(node, ast.Name) and node.id not in names:
        return node.id
    return None
