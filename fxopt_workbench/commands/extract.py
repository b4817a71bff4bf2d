"""`fxopt extract`: capture the graphs of a model and show them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from fxopt_core.suggestions import did_you_mean
from fxopt_workbench.commands.models import Device, Inputs, Trust, build_to_run, split_names
from fxopt_workbench.commands.output import check_file, prints_to_stderr
from fxopt_workbench.tables import output_console

if TYPE_CHECKING:
    from fxopt_core.capture import Captured

CANNOT = 2
"""Exit code for bad input: one line says what, and nothing was written."""

FAILED = 1
"""Exit code when the method cannot capture the model, or a graph cannot be drawn."""

COMPARE = "compare"


def extract(
    model: Annotated[
        str | None,
        typer.Option(
            help="simple, bert, yolov8n, …; your own as mypackage.mymodule:factory, which returns (model, inputs); "
            "a file: .pt2, TorchScript, .pt; or compare: methods side by side."
        ),
    ] = None,
    compare: Annotated[
        str | None, typer.Option(help="Several models instead of one, with commas: what each costs.")
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            help="dynamo (the default), export, symbolic_trace, aot, jit.trace, jit.script, or auto.",
            show_default=False,
        ),
    ] = None,
    device: Device = None,
    inputs: Inputs = None,
    trust: Trust = False,
    save_graph: Annotated[Path | None, typer.Option(help="Write the graphs as a Python file that runs.")] = None,
    draw: Annotated[
        Path | None,
        typer.Option(help="Draw the graphs: .svg, .dot, .txt for tables in words, .html to search and click."),
    ] = None,
    analyze: Annotated[
        bool, typer.Option("--analyze", help="Show FLOPs, bytes and memory too; `fxopt analyze` can do more.")
    ] = False,
    show_all: Annotated[bool, typer.Option("--all", help="Print every node and guard of long graphs too.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON instead of tables: an object, with --compare a list.")
    ] = False,
) -> None:
    """Capture the graphs of a model: operations, shapes, graph breaks and why, guards.

    Exit code 1 when the method cannot capture the model or a graph cannot be drawn, 2 for bad input.
    """
    # torch takes seconds to import, which `fxopt --help` does not need.
    from fxopt_core.capture import CaptureError, capture, capture_methods
    from fxopt_core.devices import DeviceUnavailableError, choose_device
    from fxopt_workbench import zoo
    from fxopt_workbench.commands.extraction_report import document, methods_document, show, show_comparison
    from fxopt_workbench.commands.method_comparison import compare_methods
    from fxopt_workbench.commands.model_comparison import analyze_model, comparison_document
    from fxopt_workbench.pictures.rendering import PictureError
    from fxopt_workbench.results.costs import costs_table
    from fxopt_workbench.results.parts import block_tables, stage_table
    from fxopt_workbench.standalone import save_standalone
    from fxopt_workbench.structure import structure_of
    from fxopt_workbench.tables import print_tables

    console = output_console()
    try:
        if compare is not None:
            if model or method or save_graph or draw:
                raise ValueError("--compare shows what several models cost: leave out --model, --method and files.")
            _compare_models(compare, as_json)
            return
        if model is None:
            raise ValueError("which model? Give --model NAME, or --compare with several.")
        target = choose_device(device)
        if model == COMPARE:
            if method or save_graph or draw:
                raise ValueError("--model compare shows all methods and several models: leave out --method and files.")
            with prints_to_stderr(as_json):
                outcomes = compare_methods(target)
            if as_json:
                _print_json(methods_document(outcomes))
            else:
                show_comparison(outcomes, console)
            return
        if method is not None and method not in capture_methods():
            raise ValueError(f"there is no method {method!r}; the methods are {', '.join(capture_methods())}.")
        hint = "" if model in zoo.names() else did_you_mean(model, (*zoo.names(), COMPARE), most=1)
        if repr(COMPARE) in hint:
            raise ValueError(f"there is no model {model!r}.{hint}")
        check_file(save_graph, (".py",))
        check_file(draw, (".svg", ".html", ".dot", ".txt"))
        with prints_to_stderr(as_json):
            chosen = build_to_run(model, target, inputs, trust=trust)
            with Console(stderr=True).status(f"capturing {model}"):
                captured = capture(chosen.model, chosen.example_inputs, method or "dynamo")
            written = _draw(captured, draw, model) if draw else []
            written += save_standalone(captured, save_graph) if save_graph else ()
            costs = analyze_model(model, inputs=inputs, trust=trust) if analyze else None
    except (CaptureError, PictureError) as error:
        raise _refuse(error, FAILED) from error
    except (ValueError, DeviceUnavailableError, ModuleNotFoundError, OSError) as error:
        raise _refuse(error, CANNOT) from error

    if as_json:
        told = document(captured, model, str(target), written)
        told["caveats"] += chosen.caveats
        _print_json(told | {"costs": comparison_document({model: costs})[0]} if costs else told)
    else:
        show(captured, " ".join([chosen.description, *chosen.caveats]), written, console, show_all=show_all)
        if costs:
            structure = structure_of(costs)
            print_tables([costs_table(costs, "module"), stage_table(structure), *block_tables(structure)])


def _compare_models(names: str, as_json: bool) -> None:
    from fxopt_workbench.commands.model_comparison import analyze_model, comparison, comparison_document
    from fxopt_workbench.results.parts import stage_comparison
    from fxopt_workbench.structure import structure_of
    from fxopt_workbench.tables import print_tables

    with prints_to_stderr(as_json):
        analyses = {name: analyze_model(name) for name in split_names(names, "model")}
    if as_json:
        _print_json(comparison_document(analyses))
    else:
        structures = {name: structure_of(one) for name, one in analyses.items()}
        print_tables([comparison(analyses), stage_comparison(structures)])


def _draw(captured: Captured, path: Path, model: str) -> list[Path]:
    """One picture a graph; several are numbered from 1."""
    from fxopt_workbench.explorer import explore
    from fxopt_workbench.pictures import draw

    several = len(captured.graphs) > 1
    written = []
    for number, graph in enumerate(captured.graphs, start=1):
        one = path.with_name(f"{path.stem}-{number}{path.suffix}") if several else path
        title = f"{model}, {captured.method}" + (f", graph {number} of {len(captured.graphs)}" if several else "")
        if one.suffix == ".html":
            explore(captured, number=number - 1, title=title).save(one)
        else:
            draw(graph, title=title).save(one)
        written.append(one)
    return written


def _print_json(content: dict[str, Any] | list[dict[str, Any]]) -> None:
    typer.echo(json.dumps(content, indent=2, ensure_ascii=False))


def _refuse(error: Exception, exit_code: int) -> typer.Exit:
    typer.echo(f"fxopt extract: {error}", err=True)
    return typer.Exit(exit_code)
