"""Starts the worker that runs a learner's cells: in bubblewrap where it is there, else as a plain process.

The sandbox has no network, no capabilities, a process namespace of its own and a read-only file system in
which the repository is absent; what a learner's code may import lies in a view (see `view`).
Imports no torch.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from autograder.course.task import Task
from autograder.exchange.channel import (
    Channel,
    ChannelClosedError,
    ChannelTimeoutError,
    MalformedMessageError,
    Rendezvous,
    private_folder,
)
from autograder.exchange.verdict import Status
from autograder.grading.view import PACKAGES, SandboxError, build_view

START_SECONDS = 120.0
"""How long a worker may take to import torch and report."""

END_SECONDS = 10.0
"""How long a worker may take to end a child that it was told to end."""

JUDGE_SECONDS = 60.0
"""How long the judge may take over one case."""

WATCH_SECONDS = 0.05
"""Pause between two looks at a worker's memory and processes."""


@dataclass(frozen=True)
class Limits:
    """What the learner's side of one notebook may use.

    Attributes:
        memory_bytes: resident memory of all its processes together.
        address_space_bytes: virtual memory of one process; torch alone maps several GiB.
        processes: number of its processes.
        file_bytes: size of one file that it writes.
        scratch_bytes: size of each of its temporary folders (in the sandbox only).
        judge_seconds: how long the judge may take over what it produced for one case, and how long the graphs among
            that may run while it waits.
        graph_seconds: processor time of all its graphs together when the judge has them run; a task gets at most half
            of what is left. By the clock it may be four times as much, on a machine that is busy with other things.
        graph_memory_bytes: address space that running its graphs may take beyond what the process began with.
    """

    memory_bytes: int = 4 << 30
    address_space_bytes: int = 24 << 30
    processes: int = 64
    file_bytes: int = 512 << 20
    scratch_bytes: int = 512 << 20
    judge_seconds: float = JUDGE_SECONDS
    graph_seconds: float = 60.0
    graph_memory_bytes: int = 4 << 30


@cache
def bubblewrap() -> str | None:
    """Path of `bwrap` when it is there and may really make a sandbox here, else `None`."""
    path = shutil.which("bwrap")
    if path is None:
        return None
    probe = [path, "--unshare-all", "--cap-drop", "ALL", "--ro-bind", "/", "/", "--proc", "/proc", "true"]
    works = subprocess.run(probe, capture_output=True, check=False, timeout=30).returncode == 0
    return path if works else None


def bubblewrap_command(view: Path, sockets: Path, limits: Limits) -> list[str]:
    """The beginning of a command line that runs the rest of it in a sandbox which sees only `view` of the course."""
    command = [
        str(bubblewrap()),
        *("--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv"),
        *("--ro-bind", "/usr", "/usr"),
    ]
    for name in ("/bin", "/sbin", "/lib", "/lib32", "/lib64"):
        command += ["--ro-bind-try", name, name]
    for name in ("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives"):
        command += ["--ro-bind-try", name, name]
    command += ["--proc", "/proc", "--dev", "/dev"]
    # These live in memory, which no process's own memory shows: without a size they may take half of the machine's.
    for folder in ("/dev/shm", "/tmp"):
        command += ["--size", str(limits.scratch_bytes), "--tmpfs", folder]
    command += ["--remount-ro", "/dev"]
    prefixes = [Path(sys.base_prefix).resolve(), Path(sys.prefix).resolve()]
    for prefix in prefixes:
        command += ["--ro-bind", str(prefix), str(prefix)]
    for package in PACKAGES:
        installed = Path(next(iter(package.__path__))).resolve()
        # A package that was installed (not linked) lies inside the environment that was just bound: cover it.
        if any(installed.is_relative_to(prefix) for prefix in prefixes):
            command += ["--tmpfs", str(installed)]
    command += ["--ro-bind", str(view), "/view", "--ro-bind", str(sockets), str(sockets)]
    # Started by root, bubblewrap 0.8 leaves /proc/sys writable: settings of the kernel, outside every namespace.
    for folder in ("/proc", "/"):
        command += ["--remount-ro", folder]
    for name, value in _environment("/view").items():
        command += ["--setenv", name, value]
    return [*command, "--chdir", "/tmp"]


def _environment(view: str) -> dict[str, str]:
    return {
        "PATH": os.pathsep.join([str(Path(sys.prefix) / "bin"), "/usr/local/bin", "/usr/bin", "/bin"]),
        "PYTHONPATH": view,
        "PYTHONHASHSEED": "0",
        "HOME": "/tmp",
        "IPYTHONDIR": "/tmp/ipython",
        "MPLCONFIGDIR": "/tmp/matplotlib",
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        "LANG": "C.UTF-8",
        "OMP_NUM_THREADS": "1",
        "TORCHINDUCTOR_CACHE_DIR": "/tmp/inductor",
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        # Grades come from the CPU: the same everywhere.
        "FXOPT_DEVICE": "cpu",
    }


class Worker:
    """A running worker: a warm process that forks for every task. Use it as a context manager."""

    def __init__(self, tasks: Sequence[Task], limits: Limits | None = None, sandboxed: bool | None = None) -> None:
        """Prepare a worker for the tasks of one notebook.

        Args:
            tasks: the tasks that will be run; decides what the view withholds.
            limits: what it may use.
            sandboxed: `None` takes bubblewrap when it is there.

        Raises:
            SandboxError: a sandbox is demanded but bubblewrap is not there.
        """
        if sandboxed and bubblewrap() is None:
            raise SandboxError("bubblewrap is not there: install the system package `bubblewrap`, or grade without")
        self.sandboxed = bubblewrap() is not None if sandboxed is None else sandboxed
        self.limits = limits or Limits()
        self.violation: Status | None = None
        self._tasks = tasks
        self._count = 0

    def __enter__(self) -> Self:
        self._files = tempfile.TemporaryDirectory(prefix="fxopt-view-")
        self._sockets = private_folder()
        view = Path(self._files.name) / "view"
        view.mkdir()
        build_view(view, self._tasks)
        try:
            self._start(view)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _start(self, view: Path) -> None:
        sockets = Path(self._sockets.name)
        meeting = Rendezvous(sockets, "control")
        per_process = {
            "memory_bytes": self.limits.address_space_bytes,
            "file_bytes": self.limits.file_bytes,
        }
        if os.geteuid() != 0:
            # The kernel counts a user's processes everywhere and never holds root to it; the watch below counts too.
            per_process["processes"] = self.limits.processes + len(psutil.pids())
        namespace = "own" if self.sandboxed else "shared"
        command = [
            sys.executable,
            "-P",
            "-m",
            "autograder.learner_side.worker",
            str(meeting.path),
            json.dumps(per_process),
            namespace,
        ]
        scratch = Path(self._files.name) / "scratch"
        scratch.mkdir()
        if self.sandboxed:
            command = bubblewrap_command(view, sockets, self.limits) + command
            environment: dict[str, str] = {}
        else:
            environment = _environment(str(view)) | {"HOME": str(scratch), "TMPDIR": str(scratch)}
        self._log = Path(self._files.name) / "log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                cwd=scratch,
                start_new_session=True,
            )
        self._watch = threading.Thread(target=self._watch_limits, daemon=True)
        self._watch.start()
        try:
            self.control: Channel = meeting.accept(START_SECONDS)
            self.control.receive(START_SECONDS)
        except (ChannelClosedError, ChannelTimeoutError) as error:
            self._kill()
            said = self._log.read_text(errors="replace")[-2000:]
            raise SandboxError(f"the worker did not start: {error}. It printed: {said or 'nothing'}") from error

    def _watch_limits(self) -> None:
        """Kill the worker when all its processes together use too much. Runs until the worker is gone."""
        root = psutil.Process(self._process.pid)
        while self._process.poll() is None:
            try:
                family = [root, *root.children(recursive=True)]
            except psutil.NoSuchProcess:
                continue
            if len(family) > self.limits.processes:
                self.violation = "process limit"
            elif all(sum(map(count, family)) > self.limits.memory_bytes for count in (_own_memory, _fair_memory)):
                self.violation = "memory limit"
            if self.violation:
                self._kill()
                return
            time.sleep(WATCH_SECONDS)

    def run(self, cells: list[dict[str, str]], task: Task) -> Channel:
        """Fork a child that runs `cells` and then answers cases of `task`; the channel to it.

        Raises:
            ChannelClosedError: the worker is gone.
            ChannelTimeoutError: the child did not connect.
        """
        self._count += 1
        meeting = Rendezvous(Path(self._sockets.name), f"run{self._count}")
        described = {"module": task.module, "provides": task.provides, "withheld": task.withheld, "day": task.day}
        request = {"run": str(meeting.path), "cells": cells, "task": described}
        try:
            self.control.send(request, timeout=END_SECONDS)
            return meeting.accept(START_SECONDS)
        finally:
            meeting.close()

    def end_run(self) -> None:
        """End the running child, and the whole worker when that does not succeed (which `alive` then says)."""
        end = time.monotonic() + END_SECONDS
        try:
            self.control.send({"kill": True}, timeout=END_SECONDS)
            while "exited" not in self.control.receive(max(0.01, end - time.monotonic())).header:
                pass
        except (ChannelClosedError, ChannelTimeoutError, MalformedMessageError):
            self._kill()

    @property
    def alive(self) -> bool:
        """Whether the worker can run another task."""
        return self._process.poll() is None and self.violation is None

    def _kill(self) -> None:
        descendants: list[psutil.Process] = []
        with suppress(psutil.NoSuchProcess):
            descendants = psutil.Process(self._process.pid).children(recursive=True)
        # Stop everything first: what is stopped cannot fork faster than it is killed.
        for sign in (signal.SIGSTOP, signal.SIGKILL):
            for process in descendants:
                try:
                    process.send_signal(sign)
                except psutil.NoSuchProcess:
                    continue
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        """End the worker and remove its files."""
        if hasattr(self, "_process"):
            self._kill()
        if hasattr(self, "control"):
            self.control.close()
        self._files.cleanup()
        self._sockets.cleanup()


def _own_memory(process: psutil.Process) -> int:
    """Resident bytes of a process that are no file's; pages shared after a fork count once for each process.

    On Linux these are its own pages, those that it shares with others without a file, and files that exist in
    memory only and that it holds open. A process that is gone has none.
    """
    total = _sum_of_lines(process, "status", r"Rss(?:Anon|Shmem)")
    if total is not None:
        return total + _open_memory_files(process)
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0


def _fair_memory(process: psutil.Process) -> int:
    """As `_own_memory`, but of pages that several processes share each counts its part only. Slower by far."""
    total = _sum_of_lines(process, "smaps_rollup", r"Pss_(?:Anon|Shmem)")
    return _own_memory(process) if total is None else total + _open_memory_files(process)


def _open_memory_files(process: psutil.Process) -> int:
    total = 0
    with suppress(OSError):
        for entry in list(os.scandir(f"/proc/{process.pid}/fd")):
            with suppress(OSError):
                if os.readlink(entry.path).startswith("/memfd:"):
                    total += os.stat(entry.path).st_blocks * 512
    return total


def _sum_of_lines(process: psutil.Process, file: str, key: str) -> int | None:
    """Bytes in those lines of a file in /proc that begin with `key`; `None` when there is no such line to read."""
    try:
        text = Path(f"/proc/{process.pid}/{file}").read_text()
    except OSError:
        return None
    sizes = re.findall(rf"^{key}:\s+(\d+) kB$", text, re.MULTILINE)
    return 1024 * sum(map(int, sizes)) if sizes else None
