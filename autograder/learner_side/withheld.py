"""Modules that would answer a task: importing one from a learner's cell says "write your own".

The guard teaches; it is not what keeps grades honest. While grading, the withheld modules of `fxopt_core`
are not in the sandbox at all, and the grade rests on evidence about the learner's own code.
"""

from __future__ import annotations

import builtins
import importlib
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from types import CodeType, FunctionType, ModuleType
from typing import Any

from autograder.exchange.verdict import write_your_own

LEARNER_FILE_MARKS = ("<ipython-input", "<learner", "ipykernel_", "<cell")
"""How the file names of code typed into a cell begin or what they contain."""


class WithheldImportError(ImportError):
    """The learner's code imports what it is asked to write."""


def _is_withheld(module: str, withheld: Iterable[str]) -> bool:
    return any(module == name or module.startswith(name + ".") for name in withheld)


@lru_cache(maxsize=4096)
def _is_learner_code(file_name: str) -> bool:
    return any(mark in file_name for mark in LEARNER_FILE_MARKS)


@contextmanager
def withhold(withheld: Iterable[str]) -> Iterator[None]:
    """While active, an import of a withheld module from a learner's cell raises `WithheldImportError`."""
    names = tuple(withheld)
    original_import, original_import_module = builtins.__import__, importlib.import_module

    def by_learner() -> bool:
        """Whether a learner's cell called the import that asks."""
        return _is_learner_code(sys._getframe(2).f_code.co_filename)

    def refuse(targets: list[str]) -> None:
        for target in targets:
            if _is_withheld(target, names):
                raise WithheldImportError(write_your_own(target))

    def guarded_import(
        name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
    ) -> ModuleType:
        # Libraries import within functions, thousands of times: whose import it is comes first.
        if by_learner():
            refuse([name, *(f"{name}.{part}" for part in fromlist or ())])
        return original_import(name, globals, locals, fromlist, level)

    def guarded_import_module(name: str, package: str | None = None) -> ModuleType:
        if by_learner():
            refuse([name])
        return original_import_module(name, package)

    builtins.__import__ = guarded_import
    importlib.import_module = guarded_import_module
    try:
        yield
    finally:
        builtins.__import__, importlib.import_module = original_import, original_import_module


def withheld_use(answer: Any, withheld: Iterable[str]) -> str | None:
    """The withheld module that a learner's function or class is, or reaches through a global name, if any."""
    names = tuple(withheld)
    seen: set[int] = set()
    waiting = [answer]
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        module = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
        if isinstance(module, str) and _is_withheld(module, names):
            return module
        if isinstance(value, type):
            waiting += [member for member in vars(value).values() if isinstance(member, FunctionType)]
            waiting += [base for base in value.__bases__ if base is not object]
        elif isinstance(value, FunctionType) and _is_learner_code(value.__code__.co_filename):
            waiting += [value.__globals__[name] for name in _names(value.__code__) if name in value.__globals__]
    return None


def _names(code: CodeType) -> Iterator[str]:
    """Every global or attribute name that a code object, or one nested in it, refers to."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
