"""`fxopt analyze`: what a model costs, and how long it takes at best on given hardware."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

CANNOT = 2
"""Exit code for bad input."""

FAILED = 1
"""Exit code when the model cannot be captured."""


def analyze(
    model: Annotated[str, typer.Option(help="A model of the zoo.")],
    hardware: Annotated[str, typer.Option(help="Estimate the time on this hardware.")] = "h100",
    by: Annotated[str, typer.Option(help="A row for each node, module or operation.")] = "module",
) -> None:
    """FLOPs, bytes, parameters and memory of a model, found without computing anything."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    from fxopt_core import zoo
    from fxopt_core.analysis import costs, estimate
    from fxopt_core.analysis.hardware import published
    from fxopt_core.capture import CaptureError

    try:
        with FakeTensorMode(allow_non_fake_inputs=True):
            chosen = zoo.build(model, "cpu")
        analysis = costs.analyze(chosen.model, chosen.example_inputs)
        sheet = estimate(analysis, published(hardware)).sheet(by)
    except CaptureError as error:
        typer.echo(f"fxopt analyze: {error}", err=True)
        raise typer.Exit(FAILED) from error
    except ValueError as error:
        typer.echo(f"fxopt analyze: {error}", err=True)
        raise typer.Exit(CANNOT) from error
    console = Console(markup=False, highlight=False)
    console.print(sheet.table())
