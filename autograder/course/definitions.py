"""Which statements of a notebook's cells a function needs, so that it can live in a module of its own.

The cells are read, never run: a statement at the top of a cell belongs to the names that it binds, and needs the
global names that it reads. Imports no torch.
"""

from __future__ import annotations

import ast
import builtins
import symtable
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

MODULE_NAMES = {"__name__", "__file__", "__doc__"}
"""Names that every module has."""


class MissingDefinitionError(LookupError):
    """A name that is needed is bound in none of the cells."""


@dataclass(frozen=True)
class Statement:
    """One statement at the top of a module or cell.

    Attributes:
        source: its lines, with decorators.
        binds: the names that it binds.
        needs: the global names that it reads, those inside functions and classes included.
    """

    source: str
    binds: frozenset[str]
    needs: frozenset[str]


@dataclass(frozen=True)
class Definitions:
    """What a module must hold so that some names can be used.

    Attributes:
        imports: one line for each name that is imported, in order and without repetition.
        statements: the other statements, in the order of the cells.
    """

    imports: tuple[str, ...]
    statements: tuple[Statement, ...]

    @property
    def source(self) -> str:
        """Imports and statements as the text of a module."""
        imports = ["\n".join(self.imports)] if self.imports else []
        return "\n\n\n".join([*imports, *(statement.source for statement in self.statements)]) + "\n"


def split_statements(source: str) -> Iterator[tuple[ast.stmt, Statement]]:
    """Every statement at the top of a source, with the names that it binds and needs.

    Raises:
        SyntaxError: the source is not Python.
    """
    lines = source.splitlines()
    for node in ast.parse(source).body:
        first, last = span(node)
        text = "\n".join(lines[first:last])
        table = symtable.symtable(ast.unparse(node), "<cell>", "exec")
        bound = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned() or symbol.is_imported()}
        read = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_referenced()}
        yield node, Statement(text, frozenset(bound), frozenset(read | set(_global_reads(table))))


def span(node: ast.stmt) -> tuple[int, int]:
    """The lines of a statement with its decorators, as a slice of the lines of its source."""
    first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", []))])
    return first - 1, node.end_lineno or node.lineno


def _global_reads(table: symtable.SymbolTable) -> Iterator[str]:
    for child in table.get_children():
        yield from (symbol.get_name() for symbol in child.get_symbols() if symbol.is_global())
        yield from _global_reads(child)


def definitions_of(cells: Sequence[str], names: Sequence[str]) -> Definitions:
    """What the given names need of the cells: the last statement that binds each, and what that needs in turn.

    Args:
        cells: sources in the order in which they ran. What is not Python is passed over: it cannot have run.
        names: the names to define.

    Raises:
        MissingDefinitionError: a name is needed that no cell binds and that is not built in.
    """
    found: list[tuple[ast.stmt, Statement]] = []
    for cell in cells:
        try:
            found += split_statements(cell)
        except SyntaxError:
            continue
    last = {name: position for position, (_, statement) in enumerate(found) for name in statement.binds}
    imports: dict[int, list[str]] = {}
    kept: set[int] = set()
    seen: set[str] = set()
    waiting = [(name, "") for name in reversed(names)]
    while waiting:
        name, reader = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        position = last.get(name)
        if position is None:
            if hasattr(builtins, name) or name in MODULE_NAMES:
                continue
            needed_by = f", which {reader} needs," if reader else ""
            raise MissingDefinitionError(
                f"`{name}`{needed_by} is defined in no cell of this notebook; if it comes from a star import, import "
                "it by its name"
            )
        node, statement = found[position]
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports.setdefault(position, []).append(_import_of(node, name))
        elif position not in kept:
            kept.add(position)
            reader = " and ".join(f"`{bound}`" for bound in sorted(statement.binds))
            waiting += [(needed, reader) for needed in sorted(statement.needs, reverse=True)]
    lines = [line for position in sorted(imports) for line in sorted(imports[position])]
    return Definitions(tuple(dict.fromkeys(lines)), tuple(found[position][1] for position in sorted(kept)))


def _import_of(node: ast.Import | ast.ImportFrom, name: str) -> str:
    """The part of an import that binds `name`, as a line of its own."""
    bound = {
        (alias.asname or (alias.name.split(".")[0] if isinstance(node, ast.Import) else alias.name)): alias
        for alias in node.names
    }
    alias = bound[name]
    alone = ast.Import([alias]) if isinstance(node, ast.Import) else ast.ImportFrom(node.module, [alias], node.level)
    return ast.unparse(ast.fix_missing_locations(alone))
