"""The caller's side of the trials: each engine in a process that can be ended, all of them timed in turn."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import TracebackType
from typing import Any

from fxopt_core.verification import Tolerance
from fxopt_workbench.engines.decision import Trial
from fxopt_workbench.engines.engine import EAGER
from fxopt_workbench.engines.watching import resident_bytes

SETTING_UP = 0.75
"""The share of the budget after which an engine has to be ready."""

ROUND = 0.005
"""Seconds that a round takes at least: short calls are made several times."""

MOST_CALLS = 1000
"""In a round."""

MEMORY = 0.8
"""The share of the memory that was free, beyond which an engine is ended."""

LOOK = 0.2
"""Seconds between two looks at how much memory the engines hold."""

Clock = Callable[[], float]


@dataclass
class Contender:
    """An engine that is being tried.

    Attributes:
        name: of the engine.
        connection: to its process.
        process: the number of it; `None` until it has said so.
        trial: what is known so far.
        call: seconds of a call, as first seen.
    """

    name: str
    connection: Connection
    process: int | None = None
    trial: Trial = field(default_factory=lambda: Trial(""))
    call: float = 0.0


class Trials:
    """Processes in which engines are tried; to be used in a `with` statement, which ends them all.

    Args:
        engines: where each engine is, by name.
        folder: with the program; each engine gets a folder in it.
        threads: that each engine may use.
        budget: seconds for everything.
        clock: seconds since some moment.
    """

    def __init__(
        self, engines: Mapping[str, str], folder: Path, threads: int, budget: float, clock: Clock = time.monotonic
    ) -> None:
        self.clock, self.start, self.budget = clock, clock(), budget
        self._ends = {name: socket.socketpair() for name in engines}
        theirs = {name: other.fileno() for name, (_, other) in self._ends.items()}
        path = [str(Path(entry).resolve()) if entry else str(Path.cwd()) for entry in sys.path]
        request = {
            "folder": str(folder),
            "threads": threads,
            "engines": {name: (where, theirs[name]) for name, where in engines.items()},
            "path": path,
        }
        # One compiler at a time in each process: as many engines as there are processors compile side by side.
        settings = {"OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "passive", "TORCHINDUCTOR_COMPILE_THREADS": "1"}
        with (folder / "log.txt").open("w") as log:
            self._first = subprocess.Popen(
                [sys.executable, "-m", "fxopt_workbench.engines.worker", json.dumps(request)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=log,
                pass_fds=tuple(theirs.values()),
                start_new_session=True,
                env={**os.environ, **settings, "PYTHONPATH": os.pathsep.join(path)},
            )
        for _, other in self._ends.values():
            other.close()
        self.contenders = {
            name: Contender(name, Connection(own.detach()), trial=Trial(name)) for name, (own, _) in self._ends.items()
        }
        free = _free_bytes()
        self.most_memory = None if free is None else int(MEMORY * free)

    def __enter__(self) -> Trials:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End every process, however busy."""
        assert self._first.stdin is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._first.pid, signal.SIGKILL)
        self._first.stdin.close()
        self._first.wait()
        for contender in self.contenders.values():
            contender.connection.close()

    @property
    def spent(self) -> float:
        """Seconds since the trials began."""
        return self.clock() - self.start

    def prepare(self, tolerance: Tolerance, *, gradients: bool, at_once: int) -> None:
        """Have every engine built and compared, so many at a time; those that are not ready in time are ended.

        Args:
            tolerance: how far their values may be off.
            gradients: whether calls record gradients.
            at_once: how many are built side by side.
        """
        deadline = self.start + SETTING_UP * self.budget
        message = {"do": "build", "tolerance": [tolerance.relative, tolerance.absolute], "gradients": gradients}
        waiting, busy = list(self.contenders.values()), list[Contender]()
        while waiting or busy:
            while waiting and len(busy) < at_once:
                busy.append(waiting.pop(0))
                self._send(busy[-1], message)
            for contender, answer in self._answers(busy, deadline):
                busy.remove(contender)
                self._note(contender, answer)
            if self.clock() >= deadline:
                for contender in busy:
                    late = f"it was not ready within {deadline - self.start:.0f} s, and was ended"
                    self._end(contender, late)
                for contender in waiting:
                    self._end(contender, f"its turn did not come within {deadline - self.start:.0f} s")
                return

    def time(self, repeats: int, fewest: int = 5) -> None:
        """Time the engines that are ready in turn, round by round, until the budget is spent.

        Args:
            repeats: rounds at most.
            fewest: rounds that are made even if there is no time left; a call may then take a quarter of the budget.
        """
        ready = [one for one in self.contenders.values() if not one.trial.refusal]
        eager = self.contenders[EAGER]
        if eager not in ready:
            return
        calls = max(1, min(MOST_CALLS, round(ROUND / max(eager.call, 1e-9))))
        for number in range(repeats):
            if number >= fewest and self.spent > 0.95 * self.budget:
                break
            found: dict[str, Any] = {}
            for contender in ready:
                self._send(contender, {"do": "seconds", "calls": calls})
                limit = self.clock() + max(self.budget / 4, 20 * calls * eager.call)
                answers = list(self._answers([contender], limit))
                while not answers and self.clock() < limit and not contender.trial.refusal:
                    answers = list(self._answers([contender], limit))
                answer = answers[0][1] if answers else {"failure": "one of its calls took too long, and it was ended"}
                if "failure" in answer:
                    self._end(contender, answer["failure"])
                else:
                    found[contender.name] = answer["seconds"]
            ready = [one for one in ready if not one.trial.refusal]
            for contender in ready:
                self._update(contender, seconds=(*contender.trial.seconds, found[contender.name]))
            if eager not in ready:
                return

    def _note(self, contender: Contender, answer: dict[str, Any]) -> None:
        if "failure" in answer:
            self._end(contender, answer["failure"])
            return
        contender.call = answer.get("call", 0.0)
        found = {name: answer[name] for name in ("refusal", "caveat") if name in answer}
        self._update(contender, setup_seconds=answer["seconds"], largest_error=answer["error"], **found)
        if contender.trial.refusal:
            self._kill(contender)

    def _send(self, contender: Contender, message: dict[str, Any]) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            # An end that came in between shows as soon as an answer is awaited.
            contender.connection.send_bytes(json.dumps(message).encode())

    def _answers(self, busy: list[Contender], deadline: float) -> Iterator[tuple[Contender, dict[str, Any]]]:
        """What came until the next look at the memory, or at the deadline."""
        by_connection = {one.connection: one for one in busy}
        for connection in wait(list(by_connection), timeout=max(0.0, min(LOOK, deadline - self.clock()))):
            contender = by_connection[connection]  # type: ignore[index]
            try:
                answer = json.loads(contender.connection.recv_bytes())
            except (EOFError, ConnectionResetError):
                yield contender, {"failure": "its process ended: it crashed"}
                continue
            if "process" in answer:
                contender.process = answer["process"]
                continue
            yield contender, answer
        for contender in busy:
            held = resident_bytes(contender.process) if contender.process is not None else None
            if held is not None and self.most_memory is not None and held > self.most_memory:
                yield contender, {"failure": f"it took {held / 2**30:.1f} GiB of memory, and was ended"}

    def _end(self, contender: Contender, refusal: str) -> None:
        self._update(contender, refusal=refusal, seconds=())
        self._kill(contender)

    def _kill(self, contender: Contender) -> None:
        if contender.process is not None:
            # The first process does not ask for its end, so that no other one has its number.
            with contextlib.suppress(ProcessLookupError):
                os.kill(contender.process, signal.SIGKILL)

    def _update(self, contender: Contender, **changes: Any) -> None:
        contender.trial = Trial(**{**vars(contender.trial), **changes})


def _free_bytes() -> int | None:
    """Memory that is free for programs; `None` where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError):
        return None
