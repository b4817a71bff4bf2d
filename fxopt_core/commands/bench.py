"""`fxopt bench`: how fast this package is, beside its peers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

if TYPE_CHECKING:
    from torch import fx

    from fxopt_core.benchmark.passes import Row

CANNOT = 2
"""Exit code for bad input."""

WIDTH = 190
"""Columns of a table that goes into a pipe or file."""

bench = typer.Typer(no_args_is_help=True, help="How fast this package is, beside its peers.")


@bench.callback()
def _root() -> None:
    """How fast this package is, beside its peers."""


@bench.command()
def passes(
    nodes: Annotated[str, typer.Option(help="Sizes of the synthetic graph, with commas.")] = "1000,10000,50000",
    only: Annotated[str | None, typer.Option(help="One pass, or several with commas.", show_default="all")] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Timed runs of each.")] = 5,
    as_json: Annotated[Path | None, typer.Option("--json", help="Write the rows to this file too.")] = None,
) -> None:
    """Time every pass beside torch's own, with the garbage collector on and paused; all sizes take some minutes.

    Exit code 2 for bad input. A demand that is not met is shown as such and is no error.
    """
    # torch takes seconds to import, which `fxopt --help` does not need.
    from fxopt_core.benchmark.passes import comparison_table, document, growth_table, growths

    try:
        sizes = _sizes(nodes)
        chosen = _choose(only)
        if as_json is not None and not as_json.parent.is_dir():
            raise ValueError(f"{as_json}: the folder {as_json.parent} does not exist; create it first.")
        rows = _measure(chosen, sizes, repeats)
        if as_json is not None:
            as_json.write_text(json.dumps(document(rows), indent=2) + "\n")
    except (ValueError, OSError) as error:
        typer.echo(f"fxopt bench passes: {error}", err=True)
        raise typer.Exit(CANNOT) from error
    console = Console(markup=False, highlight=False)
    console = console if console.is_terminal else Console(markup=False, highlight=False, width=WIDTH)
    console.print(comparison_table(rows))
    console.print(growth_table(growths(rows)))


def _sizes(text: str) -> list[int]:
    try:
        return sorted({int(size) for size in text.split(",")})
    except ValueError:
        raise ValueError(f"--nodes is {text!r}; expected whole numbers with commas, such as 1000,10000.") from None


def _ours() -> dict[str, Callable[[fx.GraphModule], fx.Graph]]:
    """Everything that can be timed, by its name: each does the work and generates no code."""
    from fxopt_core.optimizer.pipeline import PipelineResult, run_in_place
    from fxopt_core.passes import choose_passes, pass_names, run_pass

    def run(*names: str) -> Callable[[fx.GraphModule], fx.Graph]:
        def work(graph_module: fx.GraphModule) -> fx.Graph:
            for name in names:
                run_pass(name, graph_module, recompile=False)
            return graph_module.graph

        return work

    def preset(graph_module: fx.GraphModule) -> fx.Graph:
        run_in_place(PipelineResult(graph_module), choose_passes("inference"), recompile=False)
        return graph_module.graph

    # The peer of constant_folding takes out what is dead, so ours has to do that too.
    single = {name: run(name, "dead_code") if name == "constant_folding" else run(name) for name in pass_names()}
    return {**single, "inference_preset": preset}


def _choose(only: str | None) -> dict[str, Callable[[fx.GraphModule], fx.Graph]]:
    import difflib

    ours = _ours()
    if only is None:
        return ours
    names = [name.strip() for name in only.split(",")]
    for name in names:
        if name not in ours:
            near = difflib.get_close_matches(name, ours, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise ValueError(f"there is no pass {name!r} to time.{hint} --only takes {', '.join(ours)}.")
    return {name: ours[name] for name in names}


def _measure(chosen: dict[str, Callable[[fx.GraphModule], fx.Graph]], sizes: list[int], repeats: int) -> list[Row]:
    from fxopt_core.benchmark.passes import PEERS, compare, synthetic_aten_graph

    progress = Console(stderr=True)
    # Each is run once untimed: what is imported and looked up for the first time is not part of the work.
    warm_up = [synthetic_aten_graph(300)]
    graph_modules = [synthetic_aten_graph(size) for size in sizes]
    rows: list[Row] = []
    for name, ours in chosen.items():
        with progress.status(f"timing {name}"):
            peers = PEERS.get(name, ())
            compare(name, warm_up, ours, peers, repeats=1)
            rows += compare(name, graph_modules, ours, peers, repeats=repeats)
    return rows
