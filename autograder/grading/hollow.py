"""Hollow copies of installed modules: every name is there, and what is called says "write your own". Imports no torch.

A module of PyTorch that answers a task cannot be left out of the sandbox as ours are: PyTorch imports it itself, and
often shows what is in it under a second name (`torch.nn.utils.fuse_conv_bn_eval` is `torch.nn.utils.fusion`'s). So a
copy lies over the file there, in which functions have no bodies. It holds for every name, for every process that is
started inside, and for whoever reads the file; the compiled form of the original is covered, too.
"""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from autograder.exchange.verdict import write_your_own

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def write_hollow(folder: Path, names: Iterable[str]) -> list[tuple[Path, Path]]:
    """Write hollow copies of installed modules into a folder, with an empty file for each compiled form.

    Args:
        folder: where to.
        names: modules, packages, or functions and classes in them (`torch.fx._symbolic_trace.Tracer.trace`).

    Returns:
        Pairs of copy and installed file.

    Raises:
        LookupError: there is no such module, or nothing of that name in it.
    """
    wanted: dict[Path, set[tuple[str, str]]] = {}
    for name in names:
        files, inside = _files_of(name)
        for file in files:
            wanted.setdefault(file, set()).add((inside, write_your_own(name)))
    pairs = []
    for file, parts in sorted(wanted.items()):
        source = file.read_text()
        for inside, message in sorted(parts):
            source = hollow(source, inside, message)
        for target, content in [(file, source), *((path, "") for path in _compiled(file))]:
            copy = folder / f"{len(pairs)}{target.suffix}"
            copy.write_text(content)
            pairs.append((copy, target))
    return pairs


def _compiled(file: Path) -> list[Path]:
    return sorted((file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"))


@cache
def _files_of(name: str) -> tuple[tuple[Path, ...], str]:
    """The files of a module, and what of it is meant; found without importing it or the package around it."""
    package, *inside = name.split(".")
    spec = importlib.util.find_spec(package)
    for root in list(spec.submodule_search_locations or ()) if spec else []:
        for depth in range(len(inside), 0, -1):
            path = Path(root).resolve().joinpath(*inside[:depth])
            if path.is_dir() and depth == len(inside):
                return tuple(sorted(path.rglob("*.py"))), ""
            if path.with_suffix(".py").is_file():
                return (path.with_suffix(".py"),), ".".join(inside[depth:])
    raise LookupError(f"the withheld module {name} is not installed; correct the table of tasks")


def hollow(source: str, inside: str, message: str) -> str:
    """The source of a module in which functions raise `message`, but those that run when the module is imported.

    Args:
        source: Python.
        inside: a function or a class of the module, or a method (`Class.method`); empty for the whole module.
        message: what a caller is told.

    Raises:
        LookupError: the module has nothing of this name.
    """
    tree = ast.parse(source)
    place: ast.Module | ast.ClassDef | _Function = tree
    for name in inside.split(".") if inside else ():
        found = [node for node in place.body if getattr(node, "name", None) == name]
        if not found or not isinstance(found[0], ast.ClassDef | _Function):
            raise LookupError(f"there is no {inside} in the module that is withheld; correct the table of tasks")
        place = found[0]
    _Hollowing(message, set() if inside else _run_at_import(tree)).visit(place)
    return ast.unparse(ast.fix_missing_locations(tree))


def _run_at_import(tree: ast.Module) -> set[str]:
    """Names of functions that run while the module is imported: its own decorators and calls, and what these call."""
    functions = {node.name: node for node in tree.body if isinstance(node, _Function)}
    waiting: list[ast.AST] = [item for node in ast.walk(tree) for item in getattr(node, "decorator_list", ())]
    waiting += [node for node in tree.body if not isinstance(node, ast.ClassDef | _Function)]
    needed: set[str] = set()
    while waiting:
        for part in ast.walk(waiting.pop()):
            if isinstance(part, ast.Name) and part.id in functions and part.id not in needed:
                needed.add(part.id)
                waiting.append(functions[part.id])
    return needed


class _Hollowing(ast.NodeTransformer):
    def __init__(self, message: str, kept: set[str]) -> None:
        self._kept = kept
        self._body = ast.parse(
            f"from autograder.learner_side.withheld import WithheldImportError\nraise WithheldImportError({message!r})"
        ).body

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        if node.name not in self._kept:
            node.body = list(self._body)
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        node.body = list(self._body)
        return node
