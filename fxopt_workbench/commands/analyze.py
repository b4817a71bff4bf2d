"""`fxopt analyze`: what a model costs, and how long it takes at best on given hardware."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from fxopt_workbench.commands.models import Inputs, Trust, split_names

if TYPE_CHECKING:
    import torch

    from fxopt_core.costs import Analysis
    from fxopt_workbench.hardware.roofline import Estimate
    from fxopt_workbench.hardware.timing import Timing
    from fxopt_workbench.tables import Table

CANNOT = 2
"""Exit code for bad input."""

FAILED = 1
"""Exit code when the model cannot be captured."""

DTYPES = ("float32", "bfloat16", "float16", "float64")


def analyze(
    model: Annotated[
        str, typer.Option(help="A model of the zoo, your own as module:factory, or a file: .pt2, TorchScript, .pt.")
    ],
    hardware: Annotated[str | None, typer.Option(help="Estimate the time on this: h100, tpu-v5e, this, …")] = None,
    compare: Annotated[str | None, typer.Option(help="Estimate it on several, with commas: h100,tpu-v5e,this.")] = None,
    by: Annotated[str, typer.Option(help="A row for each node, module, operation or stage.")] = "operation",
    dtype: Annotated[str, typer.Option(help="Of parameters and inputs: float32, bfloat16, …")] = "float32",
    tf32: Annotated[bool, typer.Option("--tf32", help="Round float32 products to TF32 where there is TF32.")] = False,
    measure: Annotated[bool, typer.Option("--measure", help="Run it here: estimated beside measured time.")] = False,
    device: Annotated[str | None, typer.Option(help="What `this` is: cpu, cuda, …; by default, the best one.")] = None,
    inputs: Inputs = None,
    trust: Trust = False,
    draw: Annotated[Path | None, typer.Option(help="Draw the roofline: .svg, or .txt in words.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    """FLOPs, bytes, parameters and memory of a model, and its time at best, without computing anything.

    Exit code 1 when the model cannot be captured, 2 for bad input.
    """
    # torch takes seconds to import, which `fxopt --help` does not need.
    from fxopt_core.capture import CaptureError
    from fxopt_core.devices import DeviceUnavailableError, choose_device
    from fxopt_workbench.commands.model_comparison import build_and_analyze
    from fxopt_workbench.commands.output import check_file, prints_to_stderr
    from fxopt_workbench.hardware.roofline import estimate
    from fxopt_workbench.hardware.roofline_plot import comparison, save_plot
    from fxopt_workbench.hardware.this_machine import find_hardware
    from fxopt_workbench.results.costs import BY, costs_table
    from fxopt_workbench.results.parts import block_tables, stage_table
    from fxopt_workbench.structure import structure_of
    from fxopt_workbench.tables import print_tables

    try:
        with prints_to_stderr(as_json):
            _one_of("--by", by, BY)
            _one_of("--dtype", dtype, DTYPES)
            check_file(draw, (".svg", ".txt"))
            target = choose_device(device)
            asked = hardware if compare is None else compare
            asked = "this" if asked is None and (measure or draw) else asked
            names = [] if asked is None else split_names(asked, "hardware")
            machines = [find_hardware(name, target) for name in names]
            here = find_hardware("this", target) if measure else None
            with Console(stderr=True).status(f"analysing {model}"):
                (chosen, analysis), timing = build_and_analyze(model, dtype, inputs, trust=trust), None
                if here is not None:
                    analysis, timing = _run(model, dtype, target, analysis, inputs, trust)
            estimates = [estimate(analysis, machine, tf32=tf32) for machine in machines]
            measured = estimate(analysis, here, tf32=tf32) if here else None
            if draw is not None:
                save_plot(estimates, draw)
    except CaptureError as error:
        raise _refuse(error, FAILED) from error
    except (ValueError, DeviceUnavailableError, ModuleNotFoundError, OSError) as error:
        raise _refuse(error, CANNOT) from error

    if as_json:
        document = _document(model, analysis, estimates, timing) | {"caveats": list(chosen.caveats)}
        typer.echo(json.dumps(document, indent=2, allow_nan=False))
        return
    structure = structure_of(analysis)
    tables: list[Table] = [
        estimates[0].table(by) if estimates else costs_table(analysis, by),
        stage_table(structure),
        *block_tables(structure),
    ]
    tables += [comparison(estimates)] if len(estimates) > 1 else []
    tables += [timing.table(measured, by)] if timing and measured else []
    print_tables(tables)
    for caveat in chosen.caveats:
        typer.echo(caveat)
    if draw is not None:
        typer.echo(f"Written: {draw}")


def _run(
    model: str, dtype: str, device: torch.device, expected: Analysis, inputs: list[str] | None, trust: bool
) -> tuple[Analysis, Timing]:
    """The analysis of what really runs on the device, and its times.

    Raises:
        ValueError: the model is too large for the device.
    """
    import torch

    from fxopt_core.capture import capture
    from fxopt_core.costs import analyze_graph
    from fxopt_workbench import zoo
    from fxopt_workbench.hardware.this_machine import memory_bytes
    from fxopt_workbench.hardware.timing import time_nodes
    from fxopt_workbench.tables import format_bytes

    # A capture holds the model, its own copy, and the values of the example call.
    needed, there = 3 * expected.held_bytes + expected.peak.live_bytes, memory_bytes(device)
    if needed > there:
        raise ValueError(
            f"{model} takes about {format_bytes(needed)} to capture and run; {device} has {format_bytes(there)}. "
            "Leave --measure out to analyse it without running it."
        )
    chosen = zoo.build(model, device, getattr(torch, dtype), inputs=inputs or (), trust=trust)
    (partition,) = capture(chosen.model, chosen.example_inputs, "export").partitions
    parameters = {one.name: one.source for one in partition.inputs if one.kind == "parameter"}
    assert partition.example_inputs is not None  # export has run it
    timing = time_nodes(partition.graph_module, partition.example_inputs, device)
    return analyze_graph(partition.graph_module, parameters), timing


def _document(model: str, analysis: Analysis, estimates: list[Estimate], timing: Timing | None) -> dict[str, Any]:
    from fxopt_workbench.pictures.nodes import shape_and_dtype
    from fxopt_workbench.results.parts import block_document, stage_document
    from fxopt_workbench.structure import structure_of

    structure = structure_of(analysis)
    shapes = {node.name: shape_and_dtype(value)[0] for node, value in analysis.values.items()}
    return {
        "model": model,
        "multiply_add_counts_as": 2,
        "total": asdict(analysis.total),
        "parameters": analysis.parameters,
        "held_bytes": analysis.held_bytes,
        "peak": {"node": analysis.peak.name or None, "bytes": analysis.peak.live_bytes},
        "stages": stage_document(structure),
        "blocks": block_document(structure),
        "nodes": [
            {
                **asdict(node),
                "stage": structure.stage_of[node.name],
                "shape": shapes[node.name],
                "dtype": node.dtype and str(node.dtype)[6:],
            }
            for node in analysis.nodes
        ],
        "estimates": [
            {
                "hardware": asdict(one.hardware),
                "seconds": _finite(one.seconds),
                "nodes": {
                    node.node.name: {"seconds": _finite(node.seconds), "bound": node.bound} for node in one.nodes
                },
            }
            for one in estimates
        ],
        "measured": timing and {"seconds": timing.whole.seconds, "nodes": timing.nodes},
    }


def _finite(seconds: float) -> float | None:
    """JSON has no `nan`: a time that nobody knows is null."""
    return None if math.isnan(seconds) else seconds


def _one_of(option: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ValueError(f"{option} is {value!r}; expected {', '.join(known)}.")


def _refuse(error: Exception, exit_code: int) -> typer.Exit:
    typer.echo(f"fxopt analyze: {error}", err=True)
    return typer.Exit(exit_code)
