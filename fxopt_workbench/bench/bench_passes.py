"""`fxopt bench passes`: every pass beside torch's own, on synthetic graphs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from fxopt_core.suggestions import did_you_mean
from fxopt_workbench.commands.output import prints_to_stderr
from fxopt_workbench.tables import output_console

if TYPE_CHECKING:
    from fxopt_workbench.bench.passes import Row
    from fxopt_workbench.bench.timed_passes import Timed

CANNOT = 2
"""Exit code for bad input."""

WARM_UP_NODES = 300


def passes(
    nodes: Annotated[str, typer.Option(help="Sizes of the synthetic graph, with commas.")] = "1000,10000,50000",
    only: Annotated[str | None, typer.Option(help="One pass, or several with commas.", show_default="all")] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Timed runs of each.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print the rows as JSON instead of tables.")] = False,
) -> None:
    """Time every pass beside torch's own, with the garbage collector on and paused; all sizes take some minutes.

    Exit code 2 for bad input. A demand that is not met is shown as such and is no error.
    """
    # torch takes seconds to import, which `fxopt --help` does not need.
    from fxopt_workbench.bench.passes import comparison_table, document, growth_table, growths

    try:
        sizes = _sizes(nodes)
        chosen = _choose(only)
        with prints_to_stderr(as_json):
            rows = _measure(chosen, sizes, repeats)
    except ValueError as error:
        typer.echo(f"fxopt bench passes: {error}", err=True)
        raise typer.Exit(CANNOT) from error
    if as_json:
        typer.echo(json.dumps(document(rows), indent=2))
        return
    console = output_console()
    console.print(comparison_table(rows))
    console.print(growth_table(growths(rows)))


def _sizes(text: str) -> list[int]:
    try:
        return sorted({int(size) for size in text.split(",")})
    except ValueError:
        raise ValueError(f"--nodes is {text!r}; expected whole numbers with commas, such as 1000,10000.") from None


def _choose(only: str | None) -> dict[str, Timed]:
    from fxopt_workbench.bench.timed_passes import timed_passes

    everything = timed_passes()
    if only is None:
        return everything
    names = [name.strip() for name in only.split(",")]
    for name in names:
        if name not in everything:
            hint = did_you_mean(name, everything, most=1)
            raise ValueError(f"there is no pass {name!r} to time.{hint} --only takes {', '.join(everything)}.")
    return {name: everything[name] for name in names}


def _measure(chosen: dict[str, Timed], sizes: list[int], repeats: int) -> list[Row]:
    from fxopt_workbench.bench.passes import PEERS, compare

    progress = Console(stderr=True)
    makers = dict.fromkeys(timed.graph for timed in chosen.values())
    graph_modules = {make: [make(size) for size in sizes] for make in makers}
    rows: list[Row] = []
    for name, timed in chosen.items():
        with progress.status(f"timing {name}"):
            peers = PEERS.get(name, ())
            # Once untimed: what is imported and looked up for the first time is not part of the work.
            compare(name, [timed.graph(WARM_UP_NODES)], timed.work, peers, repeats=1)
            rows += compare(name, graph_modules[timed.graph], timed.work, peers, repeats=repeats)
    return rows
