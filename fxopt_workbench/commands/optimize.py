"""`fxopt optimize`: run passes on a model, and show what they did, what they refused, and whether it is still right."""

from __future__ import annotations

import inspect
import json
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from fxopt_workbench.commands.models import Device, Inputs, Trust, build_to_run, chosen_names
from fxopt_workbench.commands.output import check_file, check_folder, prints_to_stderr
from fxopt_workbench.files import replacing
from fxopt_workbench.tables import output_console, print_tables

if TYPE_CHECKING:
    from fxopt_core.optimizer import OptimizationReport

CANNOT = 2
"""Exit code for bad input: one line says what, and nothing was written."""

REFUSED = 1
"""Exit code when the model cannot be captured, a comparison with it had a rewrite taken back, or a pass failed."""

TRAINING = "training"
"""The preset for which one's own model stays in the mode in which it comes."""


def optimize(
    model: Annotated[
        str, typer.Option(help="A model of the zoo, your own as module:factory, or a file: .pt2, TorchScript, .pt.")
    ],
    preset: Annotated[
        str | None,
        typer.Option(
            help="inference, training or exact. Your own model is set to evaluation mode, except for training.",
            show_default="inference",
        ),
    ] = None,
    passes: Annotated[str | None, typer.Option(help="Instead of a preset: names of passes, with commas.")] = None,
    memory_budget: Annotated[
        float | None, typer.Option(help="For the pass recomputation: the share of a training step's peak to keep to.")
    ] = None,
    dynamic: Annotated[
        bool, typer.Option("--dynamic", help="Let sizes of the inputs vary; otherwise they are those of the example.")
    ] = False,
    device: Device = None,
    inputs: Inputs = None,
    trust: Trust = False,
    draw: Annotated[
        Path | None, typer.Option(help="Draw it before and after: .html, or .svg (NAME-before.svg, NAME-after.svg).")
    ] = None,
    save_graph: Annotated[
        Path | None, typer.Option(help="Write the optimised graph as a Python file that runs.")
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(help="What runs the graph: auto for the fastest that is installed and right, or one by name."),
    ] = None,
    engine_seconds: Annotated[
        float | None, typer.Option(help="For --engine: seconds to choose in.", show_default="60")
    ] = None,
    save_engine: Annotated[
        Path | None, typer.Option(help="For --engine: a folder for the decision and what the engine compiled.")
    ] = None,
    draw_engines: Annotated[
        Path | None, typer.Option(help="For --engine: a picture (.svg), or the same in words (.txt).")
    ] = None,
    benchmark: Annotated[bool, typer.Option("--benchmark", help="Time the model before and after too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    """Optimise a model: rewrites and refusals, what it costs before and after, and whether it does the same.

    Exit code 1 when the model cannot be captured, the comparison refused a rewrite, or a pass failed; 2 for bad input.
    """
    # torch takes seconds to import, which `fxopt --help` does not need.
    from fxopt_core.capture import CaptureError, capture
    from fxopt_core.devices import DeviceUnavailableError, choose_device
    from fxopt_core.optimizer import GraphOptimizer, VerificationError
    from fxopt_core.passes import PRESETS, pass_names
    from fxopt_workbench.pictures.rendering import PictureError
    from fxopt_workbench.results import tables
    from fxopt_workbench.standalone import save_standalone

    progress = Console(stderr=True)
    try:
        with prints_to_stderr(as_json):
            if preset is not None and passes is not None:
                raise ValueError("--preset and --passes say the same thing: leave one of them out.")
            if preset is not None:
                chosen_names("preset", preset, list(PRESETS))
            names = preset or "inference" if passes is None else chosen_names("pass", passes, pass_names())
            check_file(save_graph, (".py",))
            check_file(draw, (".svg", ".html"))
            check_file(draw_engines, (".svg", ".txt"))
            check_folder(save_engine)
            _check_budget(memory_budget, PRESETS.get(names, ()) if isinstance(names, str) else names)
            runs_on = _engine(engine, engine_seconds, save_engine, draw_engines)
            chosen = build_to_run(model, choose_device(device), inputs, trust=trust, keep_mode=preset == TRAINING)
            with progress.status(f"optimising {model}"):
                optimizer = GraphOptimizer(chosen.model, chosen.example_inputs, dynamic=dynamic or None)
                options: dict[str, Any] = {} if memory_budget is None else {"memory_budget": memory_budget}
                result = optimizer.optimize(names, engine=runs_on, **options)
            report, timed = result.report, None
            if save_graph is not None and len(report.graphs) > 1:
                raise CaptureError(
                    report.method,
                    f"{model} takes {len(report.graphs)} graphs with Python code between them, "
                    "and --save-graph writes one.",
                    "leave --save-graph out.",
                )
            written = _draw(report, draw, model) if draw else []
            if save_graph is not None:
                # For export, operators that only this package has are torch's own again.
                written += save_standalone(
                    capture(result.module, chosen.example_inputs, "export", dynamic=dynamic or None), save_graph
                )
            decision: Any = report.engine
            if save_engine is not None:
                written.append(decision.save(save_engine))
            if draw_engines is not None:
                written.append(decision.draw(draw_engines))
            if benchmark:
                with progress.status(f"timing {model}"):
                    timed = optimizer.benchmark()
    except (CaptureError, VerificationError, PictureError) as error:
        raise _refuse(error, REFUSED) from error
    except (ValueError, DeviceUnavailableError, ModuleNotFoundError, OSError) as error:
        raise _refuse(error, CANNOT) from error

    if as_json:
        document: dict[str, Any] = {
            "model": model,
            **report.as_json(),
            "caveats": [*chosen.caveats, *report.caveats],
            "benchmark": timed and timed.as_json(),
            "written": [str(path) for path in written],
        }
        typer.echo(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False))
    else:
        console = output_console()
        console.print(" ".join([chosen.description, *chosen.caveats]))
        print_tables([*tables(report), *(tables(timed) if timed is not None else ())])
        if written:
            console.print(f"Written: {', '.join(map(str, written))}", soft_wrap=True)
    if report.refused:
        raise typer.Exit(REFUSED)


def _check_budget(budget: float | None, passes: Sequence[str]) -> None:
    """See that there is a pass for a memory budget.

    Raises:
        ValueError: there is none.
    """
    from fxopt_core.passes import make_pass, pass_names

    def takes(name: str) -> bool:
        return "memory_budget" in inspect.signature(type(make_pass(name))).parameters

    if budget is not None and not any(map(takes, passes)):
        there = " and ".join(filter(takes, pass_names()))
        raise ValueError(
            f"--memory-budget {budget:g} is for {there} only, which you did not choose: say --passes recomputation or, "
            "with other passes, --passes dead_code,recomputation."
        )


def _engine(name: str | None, seconds: float | None, save: Path | None, draw: Path | None) -> Any:
    """The engine that was asked for; `None` where none was.

    Raises:
        ValueError: there is no such engine, or something is said of an engine and none is asked for.
    """
    from fxopt_core.optimizer.engines import find_engine
    from fxopt_workbench.engines import SECONDS, Auto

    if name is None:
        said = {"--engine-seconds": seconds, "--save-engine": save, "--draw-engines": draw}
        for option, value in said.items():
            if value is not None:
                raise ValueError(f"{option} is about the choice of an engine: say --engine auto, too.")
        return None
    find_engine(name)
    return Auto(SECONDS if seconds is None else seconds, only=None if name == "auto" else (name,))


def _draw(report: OptimizationReport, path: Path, model: str) -> list[Path]:
    """One page with everything, or two pictures a graph; those of several graphs are numbered from 1."""
    from fxopt_workbench.results.optimizations import draw_changes

    pictures = draw_changes(report)
    if path.suffix == ".html":
        sides = "".join(
            f"<td>{picture.svg}<details><summary>The same as text</summary>"
            f"<pre>{escape(picture.text)}</pre></details></td>"
            for both in pictures
            for picture in both
        )
        headings = "".join(
            f"<th>{side}{f', graph {number}' * (len(pictures) > 1)}</th>"
            for number in range(1, len(pictures) + 1)
            for side in ("before", "after")
        )
        page = PAGE.format(
            title=f"{escape(model)}, optimised", headings=headings, sides=sides, report=escape(str(report))
        )
        with replacing(path) as temporary:
            temporary.write_text(page, encoding="utf-8")
        return [path]
    written = []
    for number, both in enumerate(pictures, start=1):
        for side, picture in zip(("before", "after"), both, strict=True):
            name = "-".join([path.stem, *([str(number)] if len(pictures) > 1 else []), side])
            written.append(picture.save(path.with_name(name + path.suffix)))
    return written


PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>body {{ font-family: sans-serif }} td {{ vertical-align: top }} pre {{ overflow-x: auto }}</style></head>
<body><h1>{title}</h1><p>Rewritten nodes have a double border and a bold label.</p>
<table><tr>{headings}</tr><tr>{sides}</tr></table><pre>{report}</pre></body></html>
"""
"""Takes `title`, `headings`, `sides` and `report`."""


def _refuse(error: Exception, exit_code: int) -> typer.Exit:
    typer.echo(f"fxopt optimize: {error}", err=True)
    return typer.Exit(exit_code)
