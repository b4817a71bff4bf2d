"""Import statements for the free names of generated code, and for the operators that it calls."""

from __future__ import annotations

import ast
import importlib
import inspect
import types
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import fx
from torch._library.custom_ops import OPDEFS

from fxopt_core.capture.errors import CaptureError
from fxopt_workbench.recording.expectations import EXPECTATIONS

_CONSTANTS = {"inf": "from math import inf", "nan": "from math import nan", "NoneType": "from types import NoneType"}


def used_names(code: str) -> set[str]:
    """Names that `code` reads."""
    return {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}


def import_statements(names: Iterable[str], meanings: Mapping[str, Any], method: str) -> list[str]:
    """One statement for each of `names` that `meanings` (from `fx.Graph.python_code`) explains.

    The guards of a recorded graph are not imported: their source stands in place of the statement.

    Raises:
        CaptureError: a name stands for an object that no module has under its own name, such as a function
            written in a notebook.
    """
    return sorted({_statement(name, meanings[name], method) for name in names if name in meanings})


def operator_imports(graph: fx.Graph, method: str) -> list[str]:
    """One statement for each module that defines a custom operator (`torch.library.custom_op`) of the graph.

    Raises:
        CaptureError: an operator is defined in a program or notebook, which a file cannot import.
    """
    statements = set()
    for node in graph.nodes:
        target = node.target
        packet = target.overloadpacket if isinstance(target, torch._ops.OpOverload) else target
        definition = OPDEFS.get(getattr(packet, "_qualified_op_name", ""))
        if definition is None:
            continue
        if definition._init_fn.__module__ == "__main__":
            raise CaptureError(
                method,
                f"the graph calls the operator {packet}, which is defined where a file cannot import it.",
                "move the operator into a module that can be imported.",
            )
        statements.add(f"import {definition._init_fn.__module__}  # defines {packet}")
    return sorted(statements)


def _statement(name: str, meaning: Any, method: str) -> str:
    if name in _CONSTANTS:
        return _CONSTANTS[name]
    if isinstance(meaning, types.ModuleType):
        return f"import {meaning.__name__}" if meaning.__name__ == name else f"import {meaning.__name__} as {name}"
    if meaning in EXPECTATIONS:
        return f"{inspect.getsource(meaning).removeprefix('@has_side_effect').strip()}\n\n\n{name} = {meaning.__name__}"
    module = getattr(meaning, "__module__", None)
    attribute = getattr(meaning, "__name__", None)
    if module and module != "__main__" and attribute and _holds(module, attribute, meaning):
        return f"from {module} import {attribute} as {name}" if attribute != name else f"from {module} import {name}"
    raise CaptureError(
        method,
        f"the graph calls {meaning!r}, which a file cannot import.",
        "move the function into a module that can be imported.",
    )


def _holds(module: str, attribute: str, meaning: Any) -> bool:
    try:
        return getattr(importlib.import_module(module), attribute, None) is meaning
    except ImportError:
        return False
