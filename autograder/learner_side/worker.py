"""The learner's side of grading: runs inside the sandbox, imports torch once and forks for every task.

`python -m autograder.learner_side.worker CONTROL_SOCKET` connects to the grading process and serves requests
`{"run": SOCKET, "cells": [...], "task": {...}}`. Each request is answered by a forked child that talks
over a socket of its own, so that a child that dies in the middle of a message spoils nothing.
The child runs the learner's cells, then answers one case at a time with the evidence of the task's probe.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
import time
import traceback
from contextlib import suppress
from importlib import import_module
from typing import Any

from autograder.exchange.channel import Channel, ChannelClosedError, OversizeMessageError, connect
from autograder.learner_side.learner_shell import LearnerShell
from autograder.learner_side.mode import GRADING_VARIABLE
from autograder.learner_side.withheld import WithheldImportError, withhold

POLL_SECONDS = 0.01
"""How long the serving loop sleeps between looking at its child and at the control channel."""


def serve(control: Channel, own_namespace: bool) -> None:
    """Answer requests until the grading process closes the channel.

    Args:
        control: channel to the grading process.
        own_namespace: whether this process has a process namespace of its own, so that everything else in it
            may be killed after a task; otherwise its descendants are.
    """
    if not own_namespace:
        _adopt_orphans()
    control.send({"ready": True})
    while True:
        try:
            request = control.receive().header
        except ChannelClosedError:
            return
        if "run" not in request:
            continue  # an order to end a child that had already ended by itself
        child = os.fork()
        if child == 0:
            control.close()
            run_child(request)
        status = _wait(child, control)
        _kill_leftovers(own_namespace)
        control.send({"exited": status})


def _wait(child: int, control: Channel) -> int:
    """Wait for the child; kill its session when the grading process says so. Returns the wait status."""
    while True:
        finished, status = os.waitpid(child, os.WNOHANG)
        if finished:
            return status
        if control.ready(POLL_SECONDS):
            try:
                control.receive()
            except ChannelClosedError:
                _kill_session(child)
                os._exit(1)
            _kill_session(child)


def _kill_session(child: int) -> None:
    for kill in (os.killpg, os.kill):
        try:
            kill(child, signal.SIGKILL)
        except ProcessLookupError:
            continue


def _adopt_orphans() -> None:
    """Become the parent of what the learner's processes leave behind, so that it can be found (Linux only)."""
    if sys.platform == "linux":
        set_child_subreaper = 36
        ctypes.CDLL(None).prctl(set_child_subreaper, 1, 0, 0, 0)


def _kill_leftovers(own_namespace: bool) -> None:
    if own_namespace:
        with suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
        return
    import psutil

    # A process that is killed may have started another one just before.
    while family := psutil.Process().children(recursive=True):
        for process in family:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass


def run_child(request: dict[str, Any]) -> None:
    """Run the cells of one request and answer its cases. Never returns: the process ends here."""
    os.setsid()
    code = 1
    try:
        channel = connect(request["run"])
        answer_cases(channel, request)
        code = 0
    finally:
        # The learner's cells may have registered exit handlers and threads; none of them is run or awaited.
        os._exit(code)


def answer_cases(channel: Channel, request: dict[str, Any]) -> None:
    """Run the learner's cells, say what became of them, then answer cases until the channel closes."""
    # Imported before the learner's cells run: what the probe needs is then already in memory.
    from autograder.exchange.evidence import Case
    from autograder.learner_side.own_functions import earlier_exports, stand_in

    task = request["task"]
    probe = import_module(task["module"] + ".visible").probe
    shell = LearnerShell()
    stand_in(earlier_exports(task["day"]))
    with withhold(task["withheld"]):
        for cell in request["cells"]:
            channel.send({"cell": cell["id"]})
            outputs = shell.run_cell(cell["source"])
            channel.send({"done": cell["id"], "outputs": outputs})
        missing = [name for name in task["provides"] if name not in shell.namespace]
        channel.send({"missing": missing})
        if missing:
            return
        while True:
            try:
                message = channel.receive()
            except ChannelClosedError:
                return
            case = Case.from_message(message.header, message.blob)
            answers = [shell.namespace[name] for name in task["provides"]]
            header, blob = observe(probe, case, answers, shell)
            try:
                channel.send(header, blob)
            except OversizeMessageError as error:
                channel.send({"raised": "ValueError", "text": f"What your code produced is too large: {error}"})


def observe(probe: Any, case: Any, answers: list[Any], shell: LearnerShell) -> tuple[dict[str, Any], bytes]:
    """Evidence of one case as a message, or what the learner's code raised instead."""
    from autograder.exchange.evidence import Evidence

    try:
        with shell.muted():
            evidence = probe(case, *answers)
        if not isinstance(evidence, Evidence):
            raise TypeError(f"the probe returned {type(evidence).__name__}, not Evidence")
        header, blob = evidence.to_message()
        json.dumps(header)
    except BaseException as error:  # learner code may raise anything, SystemExit included
        return describe_error(error), b""
    return header, blob


def describe_error(error: BaseException) -> dict[str, Any]:
    """What a judge is told of an exception: its kind and, for visible cases only, its text."""
    chain: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in chain:
        chain.append(current)
        current = getattr(current, "inner_exception", None) or current.__cause__ or current.__context__
    for kind in (NotImplementedError, WithheldImportError):
        for link in chain:
            if type(link) is kind:
                return {"raised": kind.__name__, "text": str(link)[:2000]}
    known = next(base.__name__ for base in type(error).__mro__ if base.__module__ == "builtins")
    return {"raised": known, "text": f"{type(error).__name__}: {error}"[:1500] + _line_of_a_cell(error)}


def _line_of_a_cell(error: BaseException) -> str:
    """The last line of a notebook's cell that the exception passed through, in words; `""` where there is none."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.line for frame in frames if "ipykernel_" in frame.filename or "<ipython-input" in frame.filename]
    return f" (in your line `{lines[-1][:200]}`)" if lines and lines[-1] else ""


def limit_resources(limits: dict[str, int]) -> None:
    """Apply per-process limits (`memory_bytes`, `file_bytes`, `processes`); absent ones stay as they are."""
    for name, kind in (
        ("memory_bytes", resource.RLIMIT_AS),
        ("file_bytes", resource.RLIMIT_FSIZE),
        ("processes", resource.RLIMIT_NPROC),
    ):
        if name in limits:
            resource.setrlimit(kind, (limits[name], limits[name]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main() -> None:
    """Connect to the grading process and serve. Arguments: control socket, JSON of limits, `own` or `shared`."""
    socket_path, limits, namespace = sys.argv[1:4]
    limit_resources(json.loads(limits))
    os.environ[GRADING_VARIABLE] = "1"
    control = connect(socket_path)
    warm_up()
    serve(control, own_namespace=namespace == "own")


def warm_up() -> None:
    """Import what every child needs, once. One thread: OpenMP's thread pool does not survive a fork."""
    started = time.perf_counter()
    import torch
    import torch._dynamo
    import torch._functorch.aot_autograd
    import torch.export

    import autograder.exchange.evidence
    import fxopt_core.graphs
    from autograder.course.tasks import all_tasks

    torch.set_num_threads(1)
    # The view holds the folders of those tasks only that are graded (or that these build on).
    for name in dict.fromkeys(name for task in all_tasks() if task.folder.is_dir() for name in task.imports):
        with suppress(ModuleNotFoundError):  # the probe needs it, too, and says so to the learner
            import_module(name)
    del autograder, fxopt_core
    if "FXOPT_WORKER_VERBOSE" in os.environ:
        print(f"worker warm after {time.perf_counter() - started:.1f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
