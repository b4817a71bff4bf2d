"""An import that nearly nobody needs and every process would pay for, put off until somebody does. Imports no torch.

`nbformat` imports `jsonschema`, and that, where it is installed, `rfc3987_syntax`, which builds 38 parsers for
addresses with international letters: 1.2 seconds of processor time in each process that reads a notebook. No schema of
a notebook asks for such an address.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

PACKAGE = "rfc3987_syntax"


def defer_address_syntax() -> None:
    """Put something that loads the package at its first use in its place; nothing where it is loaded or not there."""
    if PACKAGE in sys.modules or (spec := find_spec(PACKAGE)) is None:
        return
    later = ModuleType(PACKAGE)

    def really() -> ModuleType:
        if sys.modules.get(PACKAGE) is later:
            del sys.modules[PACKAGE]
        return import_module(PACKAGE)

    def found(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)  # what Python's import system asks of every module
        return _at_first_call(lambda: getattr(really(), name))

    later.__path__ = spec.submodule_search_locations or []
    later.__spec__ = spec
    later.__getattr__ = found  # type: ignore[method-assign]
    sys.modules[PACKAGE] = later


def _at_first_call(load: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
    return lambda *arguments, **options: load()(*arguments, **options)
