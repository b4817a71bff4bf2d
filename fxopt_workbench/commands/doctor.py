"""`fxopt doctor`: try what the course needs on this machine."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from fxopt_workbench.commands.output import prints_to_stderr
from fxopt_workbench.doctor import FAILED, OK, WARNING, CheckResult, all_checks, run_checks

WORDS = {OK: "OK", WARNING: "WARN", FAILED: "FAIL"}
_COLOURS = {OK: "green", WARNING: "yellow", FAILED: "bold red"}


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON instead of a table.")] = False,
) -> None:
    """Try what the course needs on this machine: computing, compiling, drawing, the sandbox, a kernel.

    Exit code 0 when nothing failed (warnings are allowed), else 1.
    """
    results: list[CheckResult] = []
    progress = Console(stderr=True)
    for check in all_checks():
        with progress.status(f"trying: {check.name}"), prints_to_stderr(as_json):
            results += run_checks((check,))
        if not as_json:
            # At once: together the checks take most of a minute, in which a notebook would show nothing.
            typer.echo(f"{check.name}: {WORDS[results[-1].status]} ({results[-1].seconds:.1f} s)")
    if as_json:
        document = {"ok": not failures(results), "checks": [asdict(result) for result in results]}
        typer.echo(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        show(results, Console())
    raise typer.Exit(1 if failures(results) else 0)


def failures(results: list[CheckResult]) -> list[CheckResult]:
    """The checks that failed."""
    return [result for result in results if result.status == FAILED]


def show(results: list[CheckResult], console: Console) -> None:
    """Print a table with a row a check, and below it what each problem affects and how to mend it."""
    table = Table()
    table.add_column("check", no_wrap=True)
    table.add_column("result", no_wrap=True)
    table.add_column("seconds", justify="right", no_wrap=True)
    table.add_column("what was found", overflow="fold")
    for result in results:
        word = f"[{_COLOURS[result.status]}]{WORDS[result.status]}[/]"
        table.add_row(result.name, word, f"{result.seconds:.1f}", _plain(result.detail))
    console.print(table)
    for result in results:
        if result.status == OK:
            continue
        console.print(f"{WORDS[result.status]} {result.name}", style=_COLOURS[result.status])
        if result.affects:
            console.print(f"  affects: {_plain(', '.join(result.affects))}")
        if result.fix:
            console.print(f"  fix: {_plain(result.fix)}")
    if not failures(results):
        console.print("Nothing failed: the course runs on this machine.")


def _plain(text: str) -> str:
    # Square brackets, as in fxopt[lab], would be read as markup.
    return text.replace("[", r"\[")
