"""Where the commands print."""

from __future__ import annotations

from rich.console import Console


def output_console(width: int = 120) -> Console:
    """The terminal, as wide as it is; a pipe or file, which has no width of its own, with room for tables.

    Args:
        width: columns in a pipe or file. Rich alone would take 80, too few for a table of nodes.
    """
    console = Console(markup=False, highlight=False)
    return console if console.is_terminal else Console(markup=False, highlight=False, width=width)
