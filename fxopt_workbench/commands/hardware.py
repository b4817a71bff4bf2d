"""`fxopt hardware`: what machines can do at best, and what this one does."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from fxopt_workbench.hardware.hardware import Hardware

CANNOT = 2
"""Exit code for bad input."""

hardware = typer.Typer(no_args_is_help=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1, mps; by default, the best one here.")]


@hardware.callback()
def _root() -> None:
    """Peak figures of hardware, with their sources, and this machine measured."""


@hardware.command("list")
def list_hardware(device: Device = None, as_json: AsJson = False) -> None:
    """The table of hardware, and `this` machine where it was measured. Exit code 2 for bad input."""
    from fxopt_core.devices import DeviceUnavailableError
    from fxopt_workbench.hardware.hardware import TABLE
    from fxopt_workbench.hardware.this_machine import NotMeasuredError, find_hardware

    rows, note = [*TABLE.values()], ""
    try:
        rows.append(find_hardware("this", device))
    except NotMeasuredError as error:
        note = str(error)
    except DeviceUnavailableError as error:
        raise _refuse(error) from error
    _show(rows, as_json, note)


@hardware.command("measure")
def measure_hardware(device: Device = None, as_json: AsJson = False) -> None:
    """Measure this machine's memory bandwidth and matrix rates, and keep them. Exit code 2 for bad input."""
    from rich.console import Console

    from fxopt_core.devices import DeviceUnavailableError, choose_device
    from fxopt_workbench.hardware.this_machine import cache_file, measure_this

    try:
        target = choose_device(device)
        with Console(stderr=True).status(f"measuring {target}"):
            measured = measure_this(target)
    except (DeviceUnavailableError, ValueError, OSError) as error:
        raise _refuse(error) from error
    _show([measured], as_json, f"Kept in {cache_file()}.")


def _show(rows: Sequence[Hardware], as_json: bool, note: str) -> None:
    from fxopt_workbench.hardware.hardware import hardware_table
    from fxopt_workbench.tables import print_tables

    if as_json:
        typer.echo(json.dumps([asdict(row) for row in rows], indent=2, ensure_ascii=False))
        return
    print_tables([hardware_table(rows, note)])


def _refuse(error: Exception) -> typer.Exit:
    typer.echo(f"fxopt hardware: {error}", err=True)
    return typer.Exit(CANNOT)
