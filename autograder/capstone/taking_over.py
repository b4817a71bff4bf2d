"""The learner's package of the week as the beginning of a capstone: what of it can stand alone goes along.

The modules are read, never run. Imports no torch.
"""

from __future__ import annotations

import ast
import sys
from dataclasses import dataclass
from pathlib import Path

from autograder.learner_side.own_functions import PACKAGE

TARGET = "my_capstone"
"""The package in the template."""

MAY_IMPORT = frozenset({"torch", "fxopt_core", *sys.stdlib_module_names})
"""What a capstone can count on wherever it is installed."""


@dataclass(frozen=True)
class Taken:
    """What became of the learner's package.

    Attributes:
        modules: the names of the modules that went along.
        left: the others, each with the reason.
        passes: entry-point lines for passes that they register.
    """

    modules: tuple[str, ...]
    left: dict[str, str]
    passes: tuple[str, ...]

    def lines(self) -> list[str]:
        """What a person reads."""
        said = (
            [f"Taken along from {PACKAGE}: {', '.join(f'{name}.py' for name in self.modules)}."] if self.modules else []
        )
        said += [f"Left behind: {name}.py, because {reason}." for name, reason in self.left.items()]
        if self.passes:
            said.append("Passes of yours stand in pyproject.toml, each behind a #; take it away to register them.")
        return said


def take_over(package: Path, folder: Path) -> Taken:
    """Copy what can stand alone from the learner's package into a new capstone.

    A module can where it imports PyTorch, `fxopt_core`, the standard library and modules of the package that can
    themselves.

    Args:
        package: the learner's package, `workspace/my_fxopt`.
        folder: a capstone that was just made from the template.
    """
    sources = {
        path.stem: path.read_text()
        for path in sorted(package.glob("*.py"))
        if path.stem != "__init__" and not path.name.endswith(".new.py")
    }
    left = {name: reason for name, source in sources.items() if (reason := _reason(source, sources))}
    # What needs a module that stays behind stays behind itself, and so on.
    while further := {
        name: f"it needs {missing[0]}.py, which stays behind"
        for name, source in sources.items()
        if name not in left and (missing := [other for other in _own_imports(source) if other in left])
    }:
        left |= further
    modules = [name for name in sources if name not in left]
    for name in list(modules):
        target = folder / TARGET / f"{name}.py"
        if target.exists():
            left[name] = f"the template has a {name}.py"
            modules.remove(name)
            continue
        target.write_text(sources[name].replace(f"{PACKAGE}.", f"{TARGET}."))
    passes = [line for name in modules for line in _passes(name, sources[name])]
    if passes:
        _note(folder / "pyproject.toml", passes)
    return Taken(tuple(modules), left, tuple(passes))


def _imports(source: str) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found.append(f"{PACKAGE}.{node.module or ''}" if node.level else str(node.module))
    return found


def _own_imports(source: str) -> list[str]:
    return [name.split(".")[1] for name in _imports(source) if name.startswith(f"{PACKAGE}.")]


def _reason(source: str, sources: dict[str, str]) -> str:
    """Why a module cannot stand alone; empty where it can."""
    try:
        imported = _imports(source)
    except SyntaxError as error:
        return f"line {error.lineno} is not Python"
    for name in imported:
        outer = name.split(".")[0]
        if outer == PACKAGE and name.split(".")[1:2] and name.split(".")[1] in sources:
            continue
        if outer not in MAY_IMPORT:
            return f"it imports {name}"
    return ""


def _passes(module: str, source: str) -> list[str]:
    """Entry-point lines of the classes under `@register_pass("name")`."""
    return [
        f'{decorator.args[0].value!s} = "{TARGET}.{module}:{node.name}"'
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef)
        for decorator in node.decorator_list
        if isinstance(decorator, ast.Call)
        and ast.unparse(decorator.func).split(".")[-1] == "register_pass"
        and decorator.args
        and isinstance(decorator.args[0], ast.Constant)
        and isinstance(decorator.args[0].value, str)
    ]


def _note(pyproject: Path, passes: list[str]) -> None:
    """Put the lines, as comments, below those of the template; a capstone of another kind needs their table, too."""
    head = '[project.entry-points."fxopt.passes"]\n'
    lines = "".join(f"# {line}\n" for line in passes)
    text = pyproject.read_text()
    if head in text:
        before, _, rest = text.partition(head)
        first, _, rest = rest.partition("\n")
        pyproject.write_text(f"{before}{head}{first}\n{lines}{rest}")
    else:
        pyproject.write_text(text.replace("[tool.setuptools]", f"# {head}{lines}\n[tool.setuptools]"))
