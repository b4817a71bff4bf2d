"""The `fxopt` command. Other packages add subcommands through the entry-point group `fxopt.commands`."""

from __future__ import annotations

import warnings
from importlib.metadata import entry_points

import typer

from fxopt_workbench.bench.bench import bench
from fxopt_workbench.commands.analyze import analyze
from fxopt_workbench.commands.coverage import coverage
from fxopt_workbench.commands.doctor import doctor
from fxopt_workbench.commands.extract import extract
from fxopt_workbench.commands.hardware import hardware
from fxopt_workbench.commands.optimize import optimize
from fxopt_workbench.commands.root import Commands

app = typer.Typer(cls=Commands, no_args_is_help=True)


@app.callback()
def _root() -> None:
    """Graph capture, analysis and grading for the fxopt course."""


app.command()(coverage)
app.command()(doctor)
app.command()(extract)
app.command()(analyze)
app.command()(optimize)
app.add_typer(bench, name="bench")
app.add_typer(hardware, name="hardware")


def main() -> None:
    """Run the `fxopt` command with every installed subcommand."""
    # torch says this about its own code, whenever an exported module is copied.
    warnings.filterwarnings("ignore", r"`isinstance\(treespec, LeafSpec\)` is deprecated", FutureWarning)
    for entry_point in entry_points(group="fxopt.commands"):
        entry_point.load()(app)
    app()


if __name__ == "__main__":
    main()
