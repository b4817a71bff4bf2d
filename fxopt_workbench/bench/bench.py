"""`fxopt bench`: how fast this package is, beside its peers."""

from __future__ import annotations

import typer

from fxopt_workbench.bench.bench_capture import capture
from fxopt_workbench.bench.bench_models import models
from fxopt_workbench.bench.bench_passes import passes
from fxopt_workbench.bench.bench_recompute import recompute

bench = typer.Typer(no_args_is_help=True)


@bench.callback()
def _root() -> None:
    """How fast this package is, beside its peers."""


bench.command()(passes)
bench.command()(recompute)
bench.command()(models)
bench.command()(capture)
