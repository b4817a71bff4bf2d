"""A process of its own for what may end a process: a learner's native code.

While grading, it is a copy of the process that asks, which has never run a learner's cells. In a notebook it is a copy
of a server that imported torch once and holds nothing of the notebook. Bytes come back, and nothing is unpickled.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import signal
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from autograder.exchange.evidence import Case, Evidence
from autograder.learner_side.mode import is_grading

SECONDS = 30.0
"""Longest that it may take, without the time in which it waited for a processor that others kept busy."""

MOST_SECONDS = 150.0
"""Longest that it may take by the clock."""

ENDED = "ended"
"""The value of the evidence that says how a process ended which did not come to an answer."""

SAID = "said"
"""The value beside it: what the C++ runtime said of an error that nothing caught; `""` where it said nothing."""

_WHAT = re.compile(r"what\(\):\s*(.+)")

_HOW = {
    signal.SIGSEGV: "it reached memory that is not its own (SIGSEGV)",
    signal.SIGBUS: "it reached memory that is not its own (SIGBUS)",
    signal.SIGFPE: "it divided a whole number by zero (SIGFPE)",
    signal.SIGABRT: "it gave up (SIGABRT): freed memory twice, wrote past its end, or let an exception out",
    signal.SIGILL: "it ran into an instruction that this processor does not have (SIGILL)",
}


def apart(function: Callable[[Case], Evidence], case: Case) -> Evidence:
    """What a function at the top of a module makes of a case, in a process of its own.

    Returns:
        Its evidence; with the values `ENDED`, in words, and `SAID` where the process ended before, or ran for too long.

    Raises:
        RuntimeError: the function raised; the message is its text.
    """
    header, blob = case.to_message()
    context: Any = multiprocessing.get_context("fork" if is_grading() else "forkserver")
    if not is_grading():
        context.set_forkserver_preload([function.__module__])
    with tempfile.NamedTemporaryFile() as said:
        ours, theirs = context.Pipe(duplex=False)
        arguments = (theirs, said.name, function.__module__, function.__name__, json.dumps(header), blob)
        process = context.Process(target=_answer, args=arguments, daemon=True)
        process.start()
        theirs.close()
        try:
            if not _answers_in_time(ours, process.pid):
                return Evidence({ENDED: f"it came to no end within {SECONDS:.0f} seconds", SAID: ""})
            answered = json.loads(ours.recv_bytes())
            if "raised" in answered:
                raise RuntimeError(answered["raised"])
            return Evidence.from_message(answered, ours.recv_bytes())
        except EOFError:
            process.join(SECONDS)
            what = _WHAT.search(said.read(1 << 20).decode(errors="replace"))
            return Evidence({ENDED: _how(process.exitcode), SAID: what[1][:300] if what else ""})
        finally:
            process.kill()
            process.join()
            ours.close()


def _answers_in_time(telling: Connection, pid: int) -> bool:
    """Wait until something is told, or the process has had its time."""
    begun = time.monotonic()
    while not telling.poll(min(1.0, SECONDS)):
        spent = time.monotonic() - begun
        if spent >= MOST_SECONDS or spent - queued_seconds(pid) >= SECONDS:
            return False
    return True


def queued_seconds(pid: int) -> float:
    """How long the first thread of a process was ready to run and had no processor; 0 where the system does not say."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def _how(code: int | None) -> str:
    if code is None or code >= 0:
        return f"it ended the process with the exit code {code}"
    number = signal.Signals(-code)
    return _HOW.get(number, f"signal {number.name}")


def _answer(telling: Connection, said: str, module: str, name: str, header: str, blob: bytes) -> None:
    writing = os.open(said, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(writing, stream)
    try:
        evidence = getattr(import_module(module), name)(Case.from_message(json.loads(header), blob))
        values, tensors = evidence.to_message()
    except Exception as error:  # whatever it is, the process that asked is told
        telling.send_bytes(json.dumps({"raised": f"{type(error).__name__}: {error}"[:500]}).encode())
        os._exit(0)
    telling.send_bytes(json.dumps(values).encode())
    telling.send_bytes(tensors)
    # Destructors of a learner's library have nothing more to say.
    os._exit(0)
