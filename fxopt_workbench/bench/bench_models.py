"""`fxopt bench models`: six models, run by every engine with and without the passes, and by what `auto` takes."""

from __future__ import annotations

import copy
import json
import math
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console

from fxopt_workbench.commands.models import chosen_names
from fxopt_workbench.commands.output import prints_to_stderr
from fxopt_workbench.tables import NONE, Table, output_console

if TYPE_CHECKING:
    from torch import nn

Run = Callable[[], Any]

REFERENCE = "eager"
"""The model itself, as PyTorch runs it."""

AUTO, FXOPT, COMPILED = "auto", "fxopt, then ", "torch.compile"


@dataclass(frozen=True)
class ModelRow:
    """One way to run one model.

    Attributes:
        model: its name.
        candidate: how it was run.
        seconds: median of a call.
        spread: width of the middle half of the calls, in seconds.
        speed_up: over eager, of the medians.
        error: largest difference from eager PyTorch in float64, in units of the output; `None` where that failed.
        passes_gain: of an engine after the passes: how many times as fast as the same engine without them.
        taken: of `auto`: the engine.
        failure: why it could not be run, else `None`.
    """

    model: str
    candidate: str
    seconds: float | None
    spread: float | None
    speed_up: float | None
    error: float | None
    passes_gain: float | None = None
    taken: str | None = None
    failure: str | None = None

    @property
    def single(self) -> bool:
        """Whether this is an engine by itself: not `auto`, and nothing of fxopt before it."""
        return self.candidate != AUTO and not self.candidate.startswith(FXOPT)


def models(
    only: Annotated[str | None, typer.Option(help="One model, or several with commas.", show_default="all")] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Timed calls of each candidate.")] = 20,
    tiny: Annotated[bool, typer.Option("--tiny", help="The small versions, to see whether everything works.")] = False,
    attention: Annotated[
        str, typer.Option(help="How transformers computes it: eager (written out) or sdpa.")
    ] = "eager",
    engine_seconds: Annotated[float, typer.Option(help="Seconds in which auto may choose.")] = 60.0,
    clock: Annotated[
        str, typer.Option(help="wall, or cpu: this process's time, which others disturb less. For one thread.")
    ] = "wall",
    as_json: Annotated[bool, typer.Option("--json", help="Print the rows as JSON instead of tables.")] = False,
) -> None:
    """Time six models, without gradients, run in turn: by every engine, with the passes and without, and by auto.

    Exit code 2 for bad input. A candidate that cannot run a model says why and is no error.
    """
    from fxopt_workbench.bench.compared_models import NAMES, compared_model

    try:
        names = chosen_names("model", only, NAMES)
        (kind,) = chosen_names("attention", attention, ("eager", "sdpa"))
        (timed_by,) = chosen_names("clock", clock, ("wall", "cpu"))
    except ValueError as error:
        typer.echo(f"fxopt bench models: {error}", err=True)
        raise typer.Exit(2) from error
    rows: list[ModelRow] = []
    console = output_console()
    progress = Console(stderr=True)
    for name in names:
        with progress.status(f"timing {name}"), prints_to_stderr(as_json):
            model, inputs = compared_model(name, tiny=tiny, attention=kind)
            rows += compare(name, model, inputs, repeats, engine_seconds, "cpu" if timed_by == "cpu" else "wall")
        if not as_json:
            console.print(_table(name, [row for row in rows if row.model == name]))
    summary = summarize(rows)
    if as_json:
        typer.echo(json.dumps({"rows": [asdict(row) for row in rows], "summary": summary}, indent=2))
        return
    console.print(_summary_table(summary))


def compare(
    name: str,
    model: nn.Module,
    inputs: Any,
    repeats: int,
    engine_seconds: float = 60.0,
    clock: Literal["wall", "cpu"] = "wall",
) -> list[ModelRow]:
    """Run one model in every way there is, interleaved."""
    import torch

    from fxopt_core.benchmark import measure_interleaved
    from fxopt_core.benchmark.accuracy import largest_error
    from fxopt_core.verification.isolation import split_example_inputs

    args, kwargs = split_example_inputs(inputs)
    exact_args, exact_kwargs = _double((args, kwargs))
    runs: dict[str, Run] = {}
    failures: dict[str, str] = {}
    errors: dict[str, float | None] = {}
    taken: str | None = None
    with torch.no_grad(), tempfile.TemporaryDirectory(prefix="fxopt-bench-") as folder:
        exact = _tensors(copy.deepcopy(model).double()(*exact_args, **exact_kwargs))
        for candidate, make in candidates(model, inputs, Path(folder), engine_seconds):
            try:
                with warnings.catch_warnings(action="ignore"):  # of converters, about what the error shows
                    called = make()
                    errors[candidate] = largest_error(_tensors(called(*args, **kwargs)), exact)
            except Exception as error:  # an engine may raise anything; it is shown beside the others' figures
                first = next(iter(str(error).splitlines()), "")
                failures[candidate] = f"{type(error).__name__}: {first[:120]}"
                continue
            if candidate == AUTO:
                taken = getattr(getattr(called, "engine", None), "name", REFERENCE)
            runs[candidate] = partial(called, *args, **kwargs)
        seconds = time.process_time if clock == "cpu" else time.perf_counter
        measured = measure_interleaved(runs, clock=seconds, warmup=3, repeats=repeats)
    medians = {candidate: one.median for candidate, one in measured.items()}
    rows = [
        ModelRow(
            name,
            candidate,
            medians[candidate],
            one.interquartile_range,
            medians[REFERENCE] / medians[candidate],
            errors[candidate],
            _gain(candidate, medians),
            taken if candidate == AUTO else None,
        )
        for candidate, one in measured.items()
    ]
    return rows + [
        ModelRow(name, candidate, None, None, None, None, failure=why) for candidate, why in failures.items()
    ]


def _gain(candidate: str, medians: dict[str, float]) -> float | None:
    """How many times as fast an engine is after the passes."""
    plain = candidate.removeprefix(FXOPT)
    return medians[plain] / medians[candidate] if plain != candidate and plain in medians else None


def candidates(
    model: nn.Module, inputs: Any, folder: Path, engine_seconds: float
) -> Iterator[tuple[str, Callable[[], Callable[..., Any]]]]:
    """Every way to run the model, by name, as functions that set it up."""
    import torch

    from fxopt_core.optimizer import GraphOptimizer
    from fxopt_core.optimizer.engines import Request
    from fxopt_workbench.engines import EAGER, Auto, Engine, registry
    from fxopt_workbench.engines.places import place_of

    optimizer = GraphOptimizer(model, inputs)
    threads = torch.get_num_threads()

    def over(engine: Engine, passes: list[str] | str) -> Callable[..., Any]:
        result = optimizer.optimize(passes)
        request: Any = Request(result.module, inputs, None, False, optimizer.verify)  # type: ignore[arg-type]
        stands = place_of(request)
        if objection := engine.objection(stands.program, gradients=False):
            raise ValueError(objection)
        own = folder / ("with" if passes else "without") / engine.name
        own.mkdir(parents=True, exist_ok=True)
        made: Callable[..., Any] = stands.over(engine, own, threads)
        return made

    yield REFERENCE, lambda: model
    yield COMPILED, lambda: _warm(torch.compile(copy.deepcopy(model)), inputs)
    yield f"{FXOPT}{REFERENCE}", lambda: optimizer.optimize("inference").module
    for name, where in registry.references().items():
        if name == EAGER:
            continue
        engine = registry.load(where)
        yield name, partial(over, engine, [])
        yield f"{FXOPT}{name}", partial(over, engine, "inference")
    yield AUTO, lambda: optimizer.optimize("inference", engine=Auto(engine_seconds)).module


def _warm(compiled: Any, inputs: Any) -> Callable[..., Any]:
    """Compiled here, and not at the first timed call."""
    from fxopt_core.verification.isolation import split_example_inputs

    args, kwargs = split_example_inputs(inputs)
    compiled(*args, **kwargs)
    made: Callable[..., Any] = compiled
    return made


def summarize(rows: Sequence[ModelRow]) -> dict[str, Any]:
    """How `auto` does beside the best single engine: on each model, and the geometric means over all.

    The best single engine over all models is the one with the largest geometric mean of speed-ups among those that
    run every model. What could be chosen at best takes, on each model, whatever was fastest there, after the passes or
    without them: no choice among these engines gains more.
    """
    names = list(dict.fromkeys(row.model for row in rows))
    speeds: dict[str, dict[str, float]] = {}
    for row in rows:
        if row.speed_up is not None and (row.single or row.candidate == AUTO):
            speeds.setdefault(row.candidate, {})[row.model] = row.speed_up
    everywhere = {one: found.values() for one, found in speeds.items() if len(found) == len(names)}
    means = {one: statistics.geometric_mean(found) for one, found in everywhere.items()}
    singles = {one: mean for one, mean in means.items() if one != AUTO}
    best = max(singles, key=lambda one: singles[one]) if singles else None
    others = [row for row in rows if row.candidate != AUTO]
    fastest_of = [max((row.speed_up or 0.0 for row in others if row.model == name), default=0.0) for name in names]
    ceiling = statistics.geometric_mean(fastest_of) if all(fastest_of) else None
    by_model = {}
    for name in names:
        own = {one: found[name] for one, found in speeds.items() if name in found and one != AUTO}
        auto = speeds.get(AUTO, {}).get(name)
        fastest = max(own, key=lambda one: own[one]) if own else None
        by_model[name] = {
            "auto": auto,
            "taken": next((row.taken for row in rows if row.model == name and row.candidate == AUTO), None),
            "best_engine": fastest,
            "auto_over_best": auto / own[fastest] if auto is not None and fastest is not None else None,
        }
    return {
        "geometric_means": means,
        "best_single_engine": best,
        "auto_over_best_single_engine": means[AUTO] / singles[best] if AUTO in means and best is not None else None,
        "best_choice_over_best_single_engine": ceiling / singles[best] if ceiling and best is not None else None,
        "models": by_model,
    }


def _tensors(output: Any) -> list[Any]:
    """The tensors of an output."""
    import torch
    from torch.utils._pytree import tree_leaves

    return [leaf for leaf in tree_leaves(output) if isinstance(leaf, torch.Tensor)]


def _double(inputs: Any) -> Any:
    import torch
    from torch.utils._pytree import tree_map_only

    return tree_map_only(torch.Tensor, lambda one: one.double() if one.is_floating_point() else one, inputs)


def _table(name: str, rows: list[ModelRow]) -> Table:
    cells = []
    for row in rows:
        if row.seconds is None or row.spread is None:
            cells.append((row.candidate, "could not run it", "", "", "", row.failure or ""))
        else:
            error = "not known" if row.error is None else f"{row.error:.1e}"
            gain = "" if row.passes_gain is None else f"{row.passes_gain:.2f}×"
            figures = (f"{1000 * row.seconds:.2f} ms", f"± {500 * row.spread:.2f} ms", f"{row.speed_up:.2f}×", gain)
            taken = f" ({row.taken})" if row.taken else ""
            cells.append((row.candidate + taken, *figures, error))
    headings = ("candidate", "median", "spread", "speed-up", "passes gain", "error")
    return Table(f"{name}, against eager", headings, cells, words=("error",))


def _summary_table(summary: dict[str, Any]) -> Table:
    def times(value: float | None) -> str:
        return NONE if value is None or not math.isfinite(value) else f"{value:.2f}×"

    rows = [
        (name, times(one["auto"]), one["taken"] or NONE, one["best_engine"] or NONE, times(one["auto_over_best"]))
        for name, one in summary["models"].items()
    ]
    means = ", ".join(f"{name} {mean:.2f}×" for name, mean in summary["geometric_means"].items())
    note = (
        f"Geometric means of the speed-ups: {means}. auto over {summary['best_single_engine']}, the best single engine "
        f"over all: {times(summary['auto_over_best_single_engine'])}; the fastest of each model would come to "
        f"{times(summary['best_choice_over_best_single_engine'])}."
    )
    headings = ("model", "auto", "took", "best engine there", "auto over it")
    return Table("auto beside the engines", headings, rows, (note,), ("took", "best engine there"))
