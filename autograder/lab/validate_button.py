"""Checking a notebook in a process of its own, from a running event loop: `fxopt check NOTEBOOK --json`.

The event loop is free meanwhile. The process and all that it started end with the time limit, with the server, and
when nobody waits for the answer any more. Imports no torch.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import psutil

GRACE_SECONDS = 5.0
"""How long a process that was interrupted may take to remove its temporary files before it is killed."""

POLL_SECONDS = 0.1
"""How often it is looked at how much a check has printed."""

ERROR_TAIL_BYTES = 4000
"""How much of what the process printed as errors is kept."""

EXIT_CODES = {0, 1, 2}
"""Exit codes with which `fxopt check` prints its JSON object."""


class ValidationError(RuntimeError):
    """A notebook could not be checked; the message says why and what to do."""


class ValidationBusyError(ValidationError):
    """An earlier version of the same notebook is being checked."""


@dataclass
class _Run:
    """A check under way: of which version of the file, for how many who wait."""

    version: tuple[int, int]
    task: asyncio.Task[dict[str, Any]]
    waiting: int = 0

    def cancel(self) -> None:
        """End the check. Once only: a second cancellation would cut short how the first one cleans up."""
        if not self.task.cancelling():
            self.task.cancel()


class NotebookValidator:
    """Runs checks, at most one at a time for each notebook."""

    def __init__(self, command: Sequence[str], time_limit: float, output_limit: int) -> None:
        """Prepare to run checks.

        Args:
            command: what to run; the notebook's path and `--json` are appended.
            time_limit: seconds after which a check is ended.
            output_limit: bytes of standard output, or of errors, after which a check is ended.
        """
        self._command = list(command)
        self._time_limit = time_limit
        self._output_limit = output_limit
        self._runs: dict[Path, _Run] = {}

    async def validate(self, notebook: Path) -> dict[str, Any]:
        """Check a notebook: the object that `fxopt check --json` prints.

        Who asks for a notebook that is being checked gets the answer of the check under way. When the caller is
        cancelled and nobody else waits, the check is ended.

        Args:
            notebook: absolute path of an existing file.

        Raises:
            ValidationBusyError: the notebook was saved anew since the check under way began.
            ValidationError: the check did not start, did not end in time, or did not answer.
        """
        status = notebook.stat()
        version = (status.st_mtime_ns, status.st_size)
        run = self._runs.get(notebook)
        if run is not None and run.version != version:
            raise ValidationBusyError(
                f"{notebook.name} is being checked already, as it was before you saved it last. "
                "Wait until that check has ended, then press Validate again."
            )
        if run is None:
            run = self._runs[notebook] = _Run(version, asyncio.create_task(self._run(notebook)))
            run.task.add_done_callback(lambda _: self._runs.pop(notebook, None))
        run.waiting += 1
        try:
            return await asyncio.shield(run.task)
        finally:
            run.waiting -= 1
            if run.waiting == 0:
                run.cancel()

    async def close(self) -> None:
        """End every check that is under way."""
        runs = list(self._runs.values())
        for run in runs:
            run.cancel()
        await asyncio.gather(*(run.task for run in runs), return_exceptions=True)

    async def _run(self, notebook: Path) -> dict[str, Any]:
        # Files instead of pipes: a process that the check left behind could hold a pipe open for ever.
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
            try:
                process = await asyncio.create_subprocess_exec(
                    *self._command,
                    str(notebook),
                    "--json",
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=output,
                    stderr=errors,
                    cwd=notebook.parent,
                    # Were the check to fail itself, its last line is to say why.
                    env={**os.environ, "TYPER_STANDARD_TRACEBACK": "1"},
                    start_new_session=True,
                )
            except OSError as error:
                raise ValidationError(f"The check could not be started: {error}. Run `make setup` again.") from error
            try:
                async with asyncio.timeout(self._time_limit):
                    exit_code = await self._wait(process, output, errors)
            except TimeoutError:
                raise ValidationError(
                    f"The check took longer than {self._time_limit:g} seconds and was stopped. "
                    "Does a cell of this notebook run for ever, or wait for input?"
                ) from None
            finally:
                # Also when this task is cancelled, and for what a finished check left behind.
                await asyncio.shield(_end(process))
            return _parse(_tail(output, self._output_limit), _tail(errors, ERROR_TAIL_BYTES), exit_code)

    async def _wait(self, process: asyncio.subprocess.Process, *files: IO[bytes]) -> int:
        """Wait for a process, and watch how much it prints; its exit code."""
        ended = asyncio.ensure_future(process.wait())
        try:
            while not ended.done():
                await asyncio.wait([ended], timeout=POLL_SECONDS)
                if any(os.fstat(file.fileno()).st_size > self._output_limit for file in files):
                    raise ValidationError(
                        f"The check printed more than {self._output_limit} bytes and was stopped. "
                        "Does a cell of this notebook print without end?"
                    )
            return ended.result()
        finally:
            ended.cancel()


def _tail(file: IO[bytes], limit: int) -> bytes:
    """The last `limit` bytes of a file."""
    file.seek(max(0, os.fstat(file.fileno()).st_size - limit))
    return file.read()


def _parse(output: bytes, errors: bytes, exit_code: int) -> dict[str, Any]:
    try:
        answer = json.loads(output)
    except ValueError:
        answer = None
    if exit_code not in EXIT_CODES or not isinstance(answer, dict):
        said = (errors.strip() or output[-ERROR_TAIL_BYTES:].strip() or b"nothing").decode(errors="replace")
        raise ValidationError(f"The check itself failed (exit code {exit_code}). It printed:\n{said}")
    return answer


async def _end(process: asyncio.subprocess.Process) -> None:
    """End a check and everything that it started, sessions of their own included."""
    family: list[psutil.Process] = []
    if process.returncode is None:
        with contextlib.suppress(psutil.NoSuchProcess):
            family = psutil.Process(process.pid).children(recursive=True)
        # An interrupt first: it lets the check remove its temporary files.
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGINT)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), GRACE_SECONDS)
    for member in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            member.kill()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
