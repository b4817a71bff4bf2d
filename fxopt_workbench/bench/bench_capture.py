"""`fxopt bench capture`: seconds of every method of capture on six models, and what `auto` costs beside the best."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from fxopt_workbench.commands.output import prints_to_stderr
from fxopt_workbench.tables import Table, output_console

if TYPE_CHECKING:
    from fxopt_workbench.bench.timed_captures import Timed

CANNOT = 2
"""Exit code for bad input."""

DEMAND = 1.3
"""What `auto` may cost at most beside the best single method."""


@dataclass(frozen=True)
class Cost:
    """What `auto` costs on one model. Seconds are medians.

    Attributes:
        model: its name.
        best: the fastest method that gives one graph that was found right, comparisons included.
        auto_seconds: of `auto`, comparisons included.
        best_seconds: of `best`, comparisons on the same calls included.
        ratio: of these two.
        comparing_seconds: what `auto` spends on comparisons.
        capturing_ratio: of both without comparisons.
        peer: the fastest peer that gives one right graph, if any does.
        peer_ratio: of `auto` and the peer, comparisons of both included.
    """

    model: str
    best: str
    auto_seconds: float
    best_seconds: float
    ratio: float
    comparing_seconds: float
    capturing_ratio: float
    peer: str | None
    peer_ratio: float | None


def capture(
    only: Annotated[str | None, typer.Option(help="One model, or several with commas.", show_default="all")] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Timed runs of each way.")] = 3,
    tiny: Annotated[bool, typer.Option("--tiny", help="The small versions, to see whether everything works.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    """Time every method of capture on six models, in turn, beside torch's and transformers' own (ten minutes or so).

    Each capture is compared with the model on the same calls, and that is part of its time. Exit code 2 for bad input.
    A method that fails, or is wrong, is shown as such and is no error; nor is a demand that is not met.
    """
    from fxopt_workbench import zoo
    from fxopt_workbench.commands.models import chosen_names

    try:
        known = [name.removesuffix("-moderate") for name in zoo.names("moderate")]
        names = chosen_names("model", only, known)
        with prints_to_stderr(as_json):
            rows = _measure(names, "" if tiny else "-moderate", repeats)
    except (ValueError, ModuleNotFoundError) as error:
        typer.echo(f"fxopt bench capture: {error}", err=True)
        raise typer.Exit(CANNOT) from error
    costs = [cost for name in names for cost in cost_of_auto([row for row in rows if row.model == name])]
    if as_json:
        typer.echo(json.dumps(document(rows, costs, repeats), indent=2, ensure_ascii=False, allow_nan=False))
        return
    console = output_console()
    for name in names:
        _show([row for row in rows if row.model == name], console)
    console.print(_cost_table(costs))


def _measure(names: list[str], size: str, repeats: int) -> list[Timed]:
    from fxopt_core.capture import capture_methods
    from fxopt_workbench import zoo
    from fxopt_workbench.bench.timed_captures import PEERS, time_captures

    rows: list[Timed] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("capture", total=len(names) * (1 + repeats) * len([*capture_methods(), *PEERS]))
        for name in names:
            chosen = zoo.build(name + size, "cpu")

            def done(way: str, name: str = name) -> None:
                progress.update(task, advance=1, description=f"{name}, {way}")

            rows += time_captures(name, chosen.model, dict(chosen.example_inputs), repeats, done)
    return rows


def cost_of_auto(rows: Iterable[Timed]) -> list[Cost]:
    """What `auto` costs beside the best single method of this package, of the rows of one model.

    Empty where `auto`, or every other method, gave no single graph that was found right.
    """
    from fxopt_workbench.bench.timed_captures import AUTO

    found = {row.way: row for row in rows if row.single_and_right}
    auto = found.pop(AUTO, None)
    own, peers = ([row for row in found.values() if row.peer is peer] for peer in (False, True))
    if auto is None or not own:
        return []
    best = min(own, key=_seconds)
    peer = min(peers, key=_seconds, default=None)
    return [
        Cost(
            auto.model,
            best.way,
            _seconds(auto),
            _seconds(best),
            _seconds(auto) / _seconds(best),
            statistics.median(auto.comparing),
            statistics.median(auto.capturing) / statistics.median(best.capturing),
            peer.way if peer else None,
            _seconds(auto) / _seconds(peer) if peer else None,
        )
    ]


def _seconds(row: Timed) -> float:
    return row.total.median


def document(rows: Iterable[Timed], costs: Iterable[Cost], repeats: int) -> dict[str, Any]:
    """Everything as JSON values."""
    import torch

    from fxopt_core.devices import device_name

    return {
        "torch": torch.__version__,
        "device": device_name(torch.device("cpu")),
        "threads": torch.get_num_threads(),
        "repeats": repeats,
        "demanded_ratio": DEMAND,
        "auto": [asdict(cost) for cost in costs],
        "captures": [asdict(row) for row in rows],
    }


def _show(rows: list[Timed], console: Console) -> None:
    table = []
    for row in rows:
        way = f"{row.way} (peer)" if row.peer else row.way
        if not row.capturing:
            table.append((way, "", "", "", "", row.verdict))
            continue
        seconds, comparing = row.total, statistics.median(row.comparing)
        cells = (f"{seconds.median:.2f}", f"± {seconds.interquartile_range / 2:.2f}", f"{comparing:.2f}")
        table.append((way, *cells, str(row.graphs), row.verdict))
    headings = ("way", "seconds", "spread", "comparing", "graphs", "verdict")
    title = f"{rows[0].model}, capture and comparison with the model"
    console.print(Table(title, headings, table, words=("verdict",)))
    for row in rows:
        if row.why:
            console.print(f"  {row.way}: {row.why[:300]}", soft_wrap=True)


def _cost_table(costs: list[Cost]) -> Table:
    headings = ("model", "auto", "of which comparing", "best single method", "seconds", "ratio")
    rows = [
        (
            cost.model,
            f"{cost.auto_seconds:.2f}",
            f"{cost.comparing_seconds:.2f}",
            cost.best,
            f"{cost.best_seconds:.2f}",
            f"{cost.ratio:.2f}{'' if cost.ratio <= DEMAND else ', too slow'}",
            f"{cost.capturing_ratio:.2f}",
            f"{cost.peer}: {cost.peer_ratio:.2f}" if cost.peer else "none",
        )
        for cost in costs
    ]
    title = f"auto beside the best single method that was found right (demanded: at most {DEMAND})"
    words = ("best single method", "ratio", "best peer")
    return Table(title, (*headings, "without comparing", "best peer"), rows, words=words)
