"""Which code a row was measured with, so that rows of older code can be told apart and measured again."""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

from fxopt_workbench.huggingface.coverage.methods import METHODS_OF_OTHERS, named_function

_OURS = ("fxopt_core", "fxopt_workbench")
_MEASURING = "fxopt_workbench.huggingface.coverage.worker"
_PLUGGED_IN = "fxopt.capture_strategies"


@functools.cache
def code_version(method: str) -> str:
    """Twelve hexadecimal digits that change when the code changes that a row of this method depends on.

    That is the worker with all that it imports of this distribution, and the method's module likewise. Comments,
    docstrings and layout do not count; the versions of torch and transformers are kept apart (see `Results`).

    Args:
        method: as `find_method` takes it, or `eager`.
    """
    roots = {_MEASURING}
    module = named_function(method).partition(":")[0] if method != "eager" else _MEASURING
    roots.add(module)
    if module not in (_MEASURING, METHODS_OF_OTHERS):
        roots |= {one.module for one in entry_points(group=_PLUGGED_IN)}
    digest = hashlib.sha256()
    for name, tree in sorted(_modules(roots).items()):
        digest.update(f"{name}\n{ast.dump(tree)}\n".encode())
    return digest.hexdigest()[:12]


def _modules(roots: set[str]) -> dict[str, ast.Module]:
    """These modules and whatever of ours they import, wherever in them: name → syntax tree without docstrings."""
    found: dict[str, ast.Module] = {}
    waiting = sorted(roots)
    while waiting:
        name = waiting.pop()
        path = None if name in found else _source(name)
        if path is None:
            continue
        found[name] = _parsed(path)
        waiting += [one for one in _imported(found[name]) if one.split(".")[0] in _OURS]
    return found


@functools.cache
def _source(name: str) -> Path | None:
    """The file of a module; `None` for what is no module, such as a function that is imported from one."""
    top, *parts = name.split(".")
    spec = importlib.util.find_spec(top)
    if spec is None or spec.origin is None:
        return None
    if spec.submodule_search_locations is None:
        return None if parts else Path(spec.origin)
    place = Path(spec.origin).parent.joinpath(*parts)
    return next((one for one in (place / "__init__.py", place.with_suffix(".py")) if one.is_file()), None)


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        names = [one.name for one in node.names] if isinstance(node, (ast.Import, ast.ImportFrom)) else []
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{one}" for one in names]
        for name in names:
            parts = name.split(".")
            yield from (".".join(parts[:count]) for count in range(1, len(parts) + 1))


@functools.cache
def _parsed(path: Path) -> ast.Module:
    tree = ast.parse(path.read_bytes())
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):  # a lambda has an expression
            node.body = [one for one in body if not _is_text(one)]  # type: ignore[attr-defined]
    return tree


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(getattr(statement.value, "value", None), str)
