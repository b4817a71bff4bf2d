"""Stands in for a package that is not there while a task is graded: every name in it can be had, and nothing computes.

The view holds this file under the package's name. Cells that only mention the package (`import torch`, `from torch
import nn`, a type in a signature) run; what calls something in it is told that it is not there. The package itself is
absent from the sandbox, as a folder and in memory: what a learner changes here brings nothing back.
"""

from __future__ import annotations

import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, ClassVar

asked: list[str] = []
"""What was called, in order."""


class NotThereError(ImportError):
    """Code calls something of a package that is not there while the task is graded."""


class Name:
    """Anything in the package."""

    def __init__(self, path: str) -> None:
        self.__name__ = path

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Name(f"{self.__name__}.{name}")

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """What it computes is for the learner to work out.

        Raises:
            NotThereError: always.
        """
        asked.append(self.__name__)
        package = self.__name__.partition(".")[0]
        raise NotThereError(
            f"`{package}` is not there while this task is graded, and you call `{self.__name__}`: use plain Python"
        )

    def __mro_entries__(self, bases: Any) -> tuple[()]:
        return ()

    def __or__(self, other: Any) -> Any:
        return self

    __ror__ = __or__

    def __getitem__(self, key: Any) -> Any:
        return self

    def __enter__(self) -> Any:
        return self()

    def __exit__(self, *error: Any) -> None:
        return None


class Module(ModuleType):
    """A module of the package: it has every name."""

    __path__: ClassVar[list[str]] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Name(f"{self.__name__}.{name}")


class Finder(MetaPathFinder, Loader):
    """Finds every module of the package, whatever it is called."""

    def __init__(self, package: str) -> None:
        self._package = package

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """A module for every name inside the package."""
        if not fullname.startswith(f"{self._package}."):
            return None
        return ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """An empty one."""
        return Module(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing to run."""


def calls_of(package: str) -> list[str] | None:
    """What was called of a package, where this file stands in for it; `None` where the package is really there."""
    found = getattr(sys.modules.get(package), "asked", None)
    return found if isinstance(found, list) else None


if __name__ != "autograder.learner_side.stand_in":
    sys.modules[__name__].__class__ = Module
    sys.meta_path.insert(0, Finder(__name__))
