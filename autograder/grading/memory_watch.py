"""Counts the memory and the processes of a submission and ends it when there are too many. Imports no torch.

A process's own limits do not add up over its children, and some memory (shared, or of files that exist in memory only)
belongs to no process. Where there is no control group, looking again and again is what is left.
"""

from __future__ import annotations

import os
import re
import signal
import threading
from contextlib import suppress
from pathlib import Path

import psutil

from autograder.exchange.verdict import Status

WATCH_SECONDS = 0.05
"""Pause between two looks at a submission's memory and processes."""


def end_family(leader: int) -> None:
    """Kill a process and all its descendants, and what they start meanwhile."""
    descendants: list[psutil.Process] = []
    with suppress(psutil.NoSuchProcess):
        descendants = psutil.Process(leader).children(recursive=True)
    # Stop everything first: what is stopped cannot fork faster than it is killed.
    for sign in (signal.SIGSTOP, signal.SIGKILL):
        for process in descendants:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(sign)
    with suppress(ProcessLookupError):
        os.kill(leader, signal.SIGKILL)


class Watch:
    """Looks at a process and its descendants until it is stopped. Use it as a context manager.

    Attributes:
        violation: what they used too much of; `None` so far.
    """

    def __init__(self, leader: int, memory_bytes: int, processes: int) -> None:
        """Prepare a watch.

        Args:
            leader: the process (its id outside every namespace).
            memory_bytes: most resident memory of the family.
            processes: most processes in it.
        """
        self.violation: Status | None = None
        self._leader, self._memory_bytes, self._processes = leader, memory_bytes, processes
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(WATCH_SECONDS):
            family = _family(self._leader)
            if len(family) > self._processes:
                self.violation = "process limit"
            elif all(sum(map(count, family)) > self._memory_bytes for count in (_own_memory, _fair_memory)):
                self.violation = "memory limit"
            if self.violation:
                end_family(self._leader)
                return


def _family(leader: int) -> list[int]:
    """A process and all its descendants, as far as they live."""
    if not Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").exists():  # not Linux, or a kernel without it
        with suppress(psutil.NoSuchProcess):
            return [leader, *(child.pid for child in psutil.Process(leader).children(recursive=True))]
        return []
    # Many times cheaper than to look through all processes of the machine for their parents.
    family, waiting = [], [leader]
    while waiting:
        process = waiting.pop()
        family.append(process)
        with suppress(OSError):
            for thread in os.listdir(f"/proc/{process}/task"):
                with suppress(OSError):
                    waiting += map(int, Path(f"/proc/{process}/task/{thread}/children").read_text().split())
    return family


def _own_memory(process: int) -> int:
    """Resident bytes of a process that are no file's; pages shared after a fork count once for each process.

    On Linux these are its own pages, those that it shares with others without a file, and files that exist in
    memory only and that it holds open. A process that is gone has none.
    """
    total = _sum_of_lines(process, "status", r"Rss(?:Anon|Shmem)")
    if total is not None:
        return total + _open_memory_files(process)
    try:
        return int(psutil.Process(process).memory_info().rss)
    except psutil.Error:
        return 0


def _fair_memory(process: int) -> int:
    """As `_own_memory`, but of pages that several processes share each counts its part only. Slower by far."""
    total = _sum_of_lines(process, "smaps_rollup", r"Pss_(?:Anon|Shmem)")
    return _own_memory(process) if total is None else total + _open_memory_files(process)


def _open_memory_files(process: int) -> int:
    total = 0
    with suppress(OSError):
        for entry in list(os.scandir(f"/proc/{process}/fd")):
            with suppress(OSError):
                if os.readlink(entry.path).startswith("/memfd:"):
                    total += os.stat(entry.path).st_blocks * 512
    return total


def _sum_of_lines(process: int, file: str, key: str) -> int | None:
    """Bytes in those lines of a file in /proc that begin with `key`; `None` when there is no such line to read."""
    try:
        text = Path(f"/proc/{process}/{file}").read_text()
    except OSError:
        return None
    sizes = re.findall(rf"^{key}:\s+(\d+) kB$", text, re.MULTILINE)
    return 1024 * sum(map(int, sizes)) if sizes else None
