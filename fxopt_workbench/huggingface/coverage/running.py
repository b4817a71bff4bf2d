"""Running every type with every method, each in a process of its own that may hang, crash or eat memory."""

from __future__ import annotations

import json
import multiprocessing
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from fxopt_workbench.huggingface.coverage.code import code_version
from fxopt_workbench.huggingface.coverage.methods import named_function
from fxopt_workbench.huggingface.coverage.rows import EAGER, Results, Row

PRELOADED = (
    *(
        "torch._dynamo",
        "torch.export",
        "transformers.models.llama.modeling_llama",
        "fxopt_workbench.huggingface.coverage.worker",
    ),
    *("typer", "rich.progress", "rich.table"),
)
"""Imported once, in the server from which the processes are forked; each imports the main module again."""

_POLL_SECONDS = 0.05


@dataclass
class _Job:
    type: str
    method: str
    process: Any
    connection: Connection
    started: float


def run_coverage(
    types: Sequence[str],
    methods: Sequence[str],
    folder: Path,
    jobs: int = 1,
    seconds: float = 120.0,
    gibibytes: float = 6.0,
    report: Callable[[Row], None] = lambda row: None,
) -> list[Row]:
    """Measure what is not in the folder's results yet, or was measured with older code.

    Args:
        types: of transformers.
        methods: see `find_method`. They are tried on the types that run eagerly.
        folder: where `coverage.jsonl` is kept.
        jobs: how many processes at a time.
        seconds: that one type may take with one method.
        gibibytes: of memory that one process may hold.
        report: called with each row as it is finished or found in the file.

    Returns:
        The rows of these types and methods as today's code measures them, the eager ones among them.

    Raises:
        ResultsError: the folder holds results that cannot be continued.
    """
    code = {method: code_version(method) for method in (EAGER, *methods)}
    results = Results(folder, {package: version(package) for package in ("torch", "transformers")})
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*PRELOADED, *(named_function(one).partition(":")[0] for one in methods)])
    waiting = deque((one, EAGER) for one in types)
    running: list[_Job] = []

    def finish(row: Row) -> None:
        report(row)
        if row.method == EAGER and row.outcome == "captured":
            waiting.extendleft((row.type, method) for method in reversed(methods))

    with _ended(running):
        while waiting or running:
            while waiting and len(running) < jobs:
                key = waiting.popleft()
                if key in results.rows and results.rows[key].code == code[key[1]]:
                    finish(results.rows[key])
                    continue
                eager = results.rows[key[0], EAGER].details if key[1] != EAGER else {}
                receiver, sender = context.Pipe(duplex=False)
                # The import of `work` is left to the process: torch is not needed here.
                process = context.Process(target=_work, args=(*key, eager, seconds, sender), daemon=True)
                process.start()
                sender.close()
                running.append(_Job(*key, process, receiver, time.monotonic()))
            time.sleep(_POLL_SECONDS)
            for job in list(running):
                row = _poll(job, seconds, gibibytes)
                if row is not None:
                    running.remove(job)
                    limited = row.method == EAGER and row.outcome not in ("captured", "error")
                    row = replace(row, code=code[row.method], cause="limit" if limited else row.cause)
                    results.add(row)
                    finish(row)
    wanted = [(one, method) for one in types for method in (EAGER, *methods)]
    found = [results.rows[key] for key in wanted if key in results.rows]
    return [row for row in found if row.code == code[row.method]]


def _work(*arguments: Any) -> None:
    from fxopt_workbench.huggingface.coverage.worker import work

    work(*arguments)


def _poll(job: _Job, seconds: float, gibibytes: float) -> Row | None:
    """The row of a process that is done or has to be ended; `None` while it may go on."""
    elapsed = time.monotonic() - job.started
    row = None
    if job.connection.poll():
        try:
            row = Row(**json.loads(job.connection.recv_bytes()))
        except EOFError:
            job.process.join()
            code = job.process.exitcode
            row = Row(job.type, job.method, "crash", f"the process ended with exit code {code}", seconds=elapsed)
    elif elapsed > seconds:
        row = Row(job.type, job.method, "timeout", f"not done after {seconds:g} s", seconds=elapsed)
    elif resident_bytes(job.process.pid) > gibibytes * 2**30:
        row = Row(job.type, job.method, "memory", f"more than {gibibytes:g} GiB", seconds=elapsed)
    if row is not None:
        _end(job)
    return row


def resident_bytes(process_id: int) -> int:
    """Memory that a process holds at the moment, 0 if it has ended."""
    status = Path(f"/proc/{process_id}/statm")
    try:
        if status.exists():
            return int(status.read_text().split()[1]) * 4096
        shown = subprocess.run(["ps", "-o", "rss=", "-p", str(process_id)], capture_output=True, text=True, check=False)
        return int(shown.stdout or 0) * 1024
    except (OSError, IndexError):
        return 0


def _end(job: _Job) -> None:
    job.process.kill()
    job.process.join()
    job.connection.close()


@contextmanager
def _ended(running: list[_Job]) -> Iterator[None]:
    """End what still runs at the end, at an error, at an interrupt and (in the main thread) at a SIGTERM."""
    main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number)) if main else None
    try:
        yield
    finally:
        for job in running:
            _end(job)
        if main:
            signal.signal(signal.SIGTERM, before)
