"""Starts the warm process behind a learner's cells: in bubblewrap where it is there, else as a plain process.

The sandbox has no network, no rights, process ids of its own and a read-only file system in which the repository is
absent; what a learner's code may import lies in a view (see `view`). The warm process in it stays for many
submissions; each gets fresh namespaces and empty scratch space (see `learner_side/warm.py`). Where the kernel or its
policy refuses namespaces inside bubblewrap's, each submission gets a bubblewrap and a warm process of its own instead.
Imports no torch.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
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
    channel_pair,
)
from autograder.exchange.scratch import scratch_folder
from autograder.exchange.verdict import Status
from autograder.grading.hollow import write_hollow
from autograder.grading.memory_watch import Watch, end_family
from autograder.grading.system_calls import learner_filter
from autograder.grading.view import PACKAGES, SandboxError, build_view, foreign_modules

START_SECONDS = 120.0
"""How long a warm process may take to import torch and report."""

END_SECONDS = 10.0
"""How long a process may take to begin or to end what it was told to."""

JUDGE_SECONDS = 60.0
"""How long the judge may take over one case."""

DEVICES = ("null", "zero", "full", "random", "urandom")
"""What is in the sandbox's `/dev` besides shared memory; no terminals."""


@dataclass(frozen=True)
class Limits:
    """What the learner's side of one notebook may use.

    Attributes:
        memory_bytes: resident memory of all its processes together.
        address_space_bytes: virtual memory of one process; torch alone maps several GiB.
        processes: number of its processes.
        open_files: number of files and sockets that one process may hold open.
        file_bytes: size of one file that it writes.
        scratch_bytes: size of each of its temporary folders (in the sandbox only).
        submission_seconds: wall time of all its cells and tasks together; each task has its own limit besides.
        judge_seconds: how long the judge may take over what it produced for one case, and how long the graphs among
            that may run while it waits.
        graph_seconds: processor time of all its graphs together when the judge has them run; a task gets at most half
            of what is left. By the clock it may be four times as much, on a machine that is busy with other things.
        graph_memory_bytes: address space that running its graphs may take beyond what the process began with.
    """

    memory_bytes: int = 4 << 30
    address_space_bytes: int = 24 << 30
    processes: int = 64
    open_files: int = 512
    file_bytes: int = 512 << 20
    scratch_bytes: int = 512 << 20
    submission_seconds: float = 300.0
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


def bubblewrap_command(
    view: Path,
    limits: Limits,
    *,
    shown: Path | None = None,
    warm: bool = False,
    without: Sequence[str] = (),
    covered: Sequence[tuple[Path, Path]] = (),
) -> list[str]:
    """The beginning of a command line that runs the rest of it in a sandbox which sees only `view` of the course.

    Args:
        view: what can be imported, as `/view`.
        limits: sizes.
        without: installed packages of which the sandbox has an empty folder instead.
        covered: files that lie over installed ones, each before the one that it covers.
        shown: a folder that is there, too, under its own name, to be read.
        warm: whether the process keeps its rights over the sandbox, to make further ones inside.
    """
    command = [
        str(bubblewrap()),
        *("--unshare-all", "--die-with-parent", "--new-session", "--clearenv"),
        # Rights over the sandbox's own namespaces only. The warm process needs them to make further ones, and runs no
        # learner's code; what does has given them up.
        *("--cap-add" if warm else "--cap-drop", "ALL"),
        *("--ro-bind", "/usr", "/usr"),
    ]
    for name in ("/bin", "/sbin", "/lib", "/lib32", "/lib64"):
        command += ["--ro-bind-try", name, name]
    for name in ("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives"):
        command += ["--ro-bind-try", name, name]
    # Not `--dev`: its terminals would need a second namespace of users, in which the rights above are worth nothing.
    command += ["--proc", "/proc", "--tmpfs", "/dev", "--symlink", "/proc/self/fd", "/dev/fd"]
    for name in DEVICES:
        command += ["--dev-bind", f"/dev/{name}", f"/dev/{name}"]
    command += ["--dir", "/dev/shm"]
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
    for name in without:
        for folder in _folders_of(name):
            command += ["--tmpfs", folder]
    for copy, installed in covered:
        command += ["--ro-bind", str(copy), str(installed)]
    command += ["--ro-bind", str(view), "/view"]
    if shown is not None:
        command += ["--ro-bind", str(shown), str(shown)]
    # Started by root, bubblewrap 0.8 leaves /proc/sys writable: settings of the kernel, outside every namespace.
    for folder in ("/proc", "/"):
        command += ["--remount-ro", folder]
    for name, value in _environment("/view").items():
        command += ["--setenv", name, value]
    return [*command, "--chdir", "/tmp"]


def _folders_of(package: str) -> list[str]:
    """The folders of an installed package, for each Python that the sandbox shows; none where it is not installed."""
    prefixes = {Path(place).resolve() for place in (sys.base_prefix, sys.prefix, "/usr", "/usr/local")}
    found = [place for prefix in prefixes for place in prefix.glob(f"lib*/python3*/*-packages/{package}")]
    return sorted({str(place) for place in found if place.is_dir()})


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
    """A warm process that forks for every submission and again for every task. Use it as a context manager.

    A submission begins with `begin`, or with the first `run`, and lasts until `end`.

    Attributes:
        sandboxed: whether it runs in bubblewrap.
        limits: what one submission may use.
        violation: what the running submission, or else the latest one, used too much of.
        killed: whether the latest task's process was killed, and not by this class.
        lost: whether the submission's process ended by itself, which nothing inside its namespaces can bring about.
    """

    def __init__(self, tasks: Sequence[Task], limits: Limits | None = None, sandboxed: bool | None = None) -> None:
        """Prepare a worker for the tasks of one notebook.

        Args:
            tasks: the tasks that will be run, all without the same packages; decides what the view withholds.
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
        self.killed = self.lost = False
        self._tasks = tasks
        self._without = tasks[0].without if tasks else ()
        self._fresh_namespaces = self.sandboxed
        self._submissions = 0
        self._submission: Channel | None = None
        self._watch: Watch | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._files = scratch_folder("fxopt-view-")
        view = self._made("view")
        try:
            build_view(view, self._tasks)
            self._covered = write_hollow(self._made("hollow"), foreign_modules(self._tasks))
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _made(self, name: str) -> Path:
        folder = Path(self._files.name) / name
        folder.mkdir()
        return folder

    def _start(self) -> None:
        """Start the warm process and wait until it is warm."""
        files = Path(self._files.name)
        self.control, theirs = channel_pair()
        kind = "own" if self._fresh_namespaces else "shared"
        command = [sys.executable, "-P", "-m", "autograder.learner_side.warm", str(theirs.fileno()), kind]
        command += self._without
        if self.sandboxed:
            command = [
                *bubblewrap_command(
                    files / "view",
                    self.limits,
                    warm=self._fresh_namespaces,
                    without=self._without,
                    covered=self._covered,
                ),
                *command,
            ]
            environment: dict[str, str] = {}
        else:
            environment = _environment(str(files / "view")) | {"HOME": str(files), "TMPDIR": str(files)}
        log = files / "log"
        with log.open("wb") as written:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=written,
                stderr=written,
                env=environment,
                cwd=files,
                start_new_session=True,
                pass_fds=[theirs.fileno()],
            )
        theirs.close()
        try:
            answer = self.control.receive(START_SECONDS).header
        except (ChannelClosedError, ChannelTimeoutError) as error:
            self._stop()
            said = log.read_text(errors="replace")[-2000:]
            raise SandboxError(f"the worker did not start: {error}. It printed: {said or 'nothing'}") from error
        if "refused" in answer:
            self._stop()
            self._fresh_namespaces = False
            self._start()

    def begin(self) -> None:
        """Begin a submission: a process with empty scratch space, and with fresh namespaces in the sandbox.

        Raises:
            SandboxError: it cannot be begun; the message holds what the worker printed.
        """
        self.end()
        if self._submissions and self.sandboxed and not self._fresh_namespaces:
            self._stop()
        if self._process is None or self._process.poll() is not None:
            self._stop()
            self._start()
        self.violation = None
        self.killed = self.lost = False
        self._submissions += 1
        ours, theirs = channel_pair()
        try:
            self.control.send({"submission": self._wanted()}, timeout=END_SECONDS)
            self.control.hand_over(theirs)
            child = int(self.control.receive(END_SECONDS).header["started"])
            ours.receive(END_SECONDS)
            watch = Watch(self._outside(child), self.limits.memory_bytes, self.limits.processes)
        except (ChannelClosedError, ChannelTimeoutError, MalformedMessageError, SandboxError) as error:
            ours.close()
            self._stop()
            said = (Path(self._files.name) / "log").read_text(errors="replace")[-2000:]
            raise SandboxError(f"a submission's process did not start: {error}. The worker printed: {said}") from error
        self._submission, self._watch = ours, watch

    def _wanted(self) -> dict[str, object]:
        """What the submission's process is told of its limits and its scratch space."""
        limits = {
            "memory_bytes": self.limits.address_space_bytes,
            "file_bytes": self.limits.file_bytes,
            "open_files": self.limits.open_files,
        }
        if os.geteuid() != 0:
            # Root is never held to it; the watch counts, too. Without a namespace all of the user's processes count.
            limits["processes"] = self.limits.processes + (0 if self._fresh_namespaces else len(psutil.pids()))
        scratch = "/tmp"
        if not self.sandboxed:
            folder = self._scratch()
            folder.mkdir()
            scratch = str(folder)
        prefixes = {str(Path(prefix).resolve()) for prefix in (sys.base_prefix, sys.prefix)}
        return {
            "limits": limits,
            "scratch_bytes": self.limits.scratch_bytes,
            "kept": sorted(prefix for prefix in prefixes if Path(prefix).is_relative_to("/tmp")),
            "scratch": scratch,
            "filter": learner_filter().program.hex() if self.sandboxed else "",
        }

    def _scratch(self) -> Path:
        return Path(self._files.name) / f"scratch-{self._submissions}"

    def _outside(self, child: int) -> int:
        """The id out here of a process that the warm process started and knows by the id `child`."""
        assert self._process is not None
        if not self.sandboxed:
            return child
        for process in psutil.Process(self._process.pid).children(recursive=True):
            with suppress(OSError):
                text = Path(f"/proc/{process.pid}/status").read_text()
                numbers = next(line for line in text.splitlines() if line.startswith("NSpid:")).split()[1:]
                if numbers[1] == str(child):
                    return process.pid
        raise SandboxError(f"the submission's process {child} cannot be found among the worker's")

    def run(self, cells: list[dict[str, str]], task: Task, fresh: bool = False) -> Channel:
        """Fork a process that runs `cells` and then answers cases of `task`; the channel to it.

        A `fresh` one runs no cells, and answers what the task follows up with.

        Raises:
            ChannelClosedError: the submission's process is gone.
            SandboxError: no submission could be begun.
        """
        if not self.alive:
            self.begin()
        assert self._submission is not None
        described = {
            "module": task.module,
            "provides": task.provides,
            "withheld": task.withheld,
            "unit": task.unit,
            "instrument": task.instrument,
            "fresh": fresh,
        }
        ours, theirs = channel_pair()
        try:
            self._submission.send({"run": {"cells": cells, "task": described}}, timeout=END_SECONDS)
            self._submission.hand_over(theirs)
        except (ChannelClosedError, ChannelTimeoutError) as error:
            ours.close()
            raise ChannelClosedError("the submission's process is gone") from error
        return ours

    def end_run(self, ended: bool = False) -> None:
        """End the running task, and the whole submission when that does not succeed (which `alive` then says).

        Args:
            ended: whether the task's process closed its channel, so that it ends by itself.
        """
        self.killed = False
        if self._submission is None:
            return
        end = time.monotonic() + END_SECONDS
        try:
            self._submission.send({"kill": True, "ended": ended}, timeout=END_SECONDS)
            while "exited" not in (header := self._submission.receive(max(0.01, end - time.monotonic())).header):
                pass
            self.killed = bool(header.get("killed"))
        except (ChannelClosedError, ChannelTimeoutError, MalformedMessageError) as error:
            self.end()
            self.lost = self._fresh_namespaces and self.violation is None and isinstance(error, ChannelClosedError)

    @property
    def alive(self) -> bool:
        """Whether a submission is running that can run another task."""
        return self._submission is not None and self.violation is None

    def end(self) -> None:
        """End the submission, and the warm process too when that does not succeed."""
        if self._submission is None:
            return
        assert self._watch is not None
        try:
            self.control.send({"end": True}, timeout=END_SECONDS)
            while "ended" not in self.control.receive(END_SECONDS).header:
                pass
        except (ChannelClosedError, ChannelTimeoutError, MalformedMessageError):
            self._stop()
        self._watch.stop()
        self.violation = self._watch.violation
        self._submission.close()
        self._submission = self._watch = None
        if not self.sandboxed:
            shutil.rmtree(self._scratch(), ignore_errors=True)

    def _stop(self) -> None:
        """End the warm process and all that it started."""
        if self._process is not None:
            end_family(self._process.pid)
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None
            self.control.close()

    def close(self) -> None:
        """End everything and remove its files."""
        self._stop()
        self.end()
        self._files.cleanup()
