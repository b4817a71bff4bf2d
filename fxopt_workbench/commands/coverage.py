"""`fxopt coverage`: which models of transformers each method of capture turns into a graph that is right."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from fxopt_workbench.commands.models import chosen_names
from fxopt_workbench.commands.output import check_folder, prints_to_stderr
from fxopt_workbench.tables import Table, output_console

if TYPE_CHECKING:
    from fxopt_workbench.huggingface.coverage import Row

CANNOT = 2
"""Exit code for bad input: one line says what, and nothing was measured."""

WRONG = 1
"""Exit code when a captured module gave a wrong answer without a word."""

PAGE = "coverage.html"


def coverage(
    types: Annotated[str | None, typer.Option(help="Model types, with commas: bert,gpt2.", show_default="all")] = None,
    methods: Annotated[
        str | None,
        typer.Option(help="Methods, with commas; also package.module:function; eager: no other.", show_default="all"),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes at a time.")] = 2,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds that one type may take with one method.")] = 120.0,
    memory: Annotated[float, typer.Option(min=0.5, help="GiB that one process may hold.")] = 6.0,
    out: Annotated[Path, typer.Option(help="Folder of the results; what today's code measured is kept.")] = (
        Path("coverage-results")
    ),
    as_json: Annotated[bool, typer.Option("--json", help="Print the rows as JSON instead of a table.")] = False,
) -> None:
    """Capture small models of every type of transformers and compare each capture with eager.

    Results are kept as they come (`coverage.jsonl`), so a run that was ended is continued by running it again; what
    was measured with other code than today's is measured again. At the end they are a page with a search too
    (`coverage.html`). Exit code 1 when a capture was silently wrong, 2 for bad input.
    """
    try:
        from fxopt_workbench.huggingface.coverage import METHODS, RESULTS_FILE, model_types, run_coverage
        from fxopt_workbench.huggingface.coverage.methods import find_method
        from fxopt_workbench.huggingface.coverage.page import coverage_page

        check_folder(out)
        known = model_types()
        chosen = chosen_names("model type", types, known)
        own = [name for name in (methods or "").split(",") if ":" in name]
        tried = chosen_names("method", methods, ("eager", *METHODS, *own))
        tried = [name for name in tried if name != "eager"]
        with prints_to_stderr(as_json):
            for name in own:
                find_method(name)
        console = Console(stderr=True, markup=False, highlight=False)
        with Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=console
        ) as progress:
            task = progress.add_task("coverage", total=len(chosen) * (1 + len(tried)))

            def report(row: Row) -> None:
                skipped = len(tried) if row.method == "eager" and row.outcome != "captured" else 0
                progress.update(task, advance=1 + skipped, description=f"{row.type}, {row.method}: {row.verdict}")

            with prints_to_stderr(as_json):
                rows = run_coverage(chosen, tried, out, jobs, timeout, memory, report)
        (out / PAGE).write_text(coverage_page(rows))
    except (ValueError, OSError, ModuleNotFoundError) as error:
        typer.echo(f"fxopt coverage: {error}", err=True)
        raise typer.Exit(CANNOT) from error
    if as_json:
        typer.echo(json.dumps([asdict(row) for row in rows], indent=2))
    else:
        printed = output_console()
        printed.print(summary(rows))
        if any(row.cause for row in rows):
            printed.print(causes(rows))
        printed.print(f"{out / RESULTS_FILE} has every row, {out / PAGE} shows them.", soft_wrap=True)
    if any(row.verdict == "wrong" for row in rows):
        raise typer.Exit(WRONG)


def summary(rows: Iterable[Row]) -> Table:
    """How many types got which verdict from each method, of the types that run eagerly and of all."""
    from fxopt_workbench.huggingface.coverage import VERDICTS
    from fxopt_workbench.huggingface.coverage.rows import DENOMINATORS, count_verdicts, eager_title

    rows = list(rows)
    table = []
    for method, count in count_verdicts(rows).items():
        numbers = [str(count.verdicts.get(verdict, 0)) for verdict in VERDICTS]
        table.append((method, *numbers, *count.shares(), f"{count.seconds:.2f}"))
    return Table(eager_title(rows), ("method", *VERDICTS, *DENOMINATORS, "median seconds"), table)


def causes(rows: Iterable[Row]) -> Table:
    """Why types do not run eagerly, with the names of the first of each kind."""
    from fxopt_workbench.huggingface.coverage.rows import count_causes

    rows = list(rows)
    table = [
        (cause, str(number), ", ".join([row.type for row in rows if row.cause == cause][:3]))
        for cause, number in count_causes(rows).items()
    ]
    return Table("", ("does not run because", "types", "such as"), table, words=("such as",))
